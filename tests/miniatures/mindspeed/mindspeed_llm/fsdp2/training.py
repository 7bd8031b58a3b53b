"""The loop of the FSDP2 trainer, with its own profiler settings: without an end it never stops."""

import torch_npu

from mindspeed_llm.toy import Job

NEVER = 1_000_000
LEVELS = {"level0": "Level0", "level1": "Level1", "level2": "Level2"}


def get_profiler(training):
    profiler = torch_npu.profiler
    start, end = training["profile_step_start"], training["profile_step_end"]
    activities = [profiler.ProfilerActivity.NPU]
    if training["profile_with_cpu"]:
        activities.append(profiler.ProfilerActivity.CPU)
    return profiler.profile(
        activities=activities,
        schedule=profiler.schedule(
            wait=0,
            warmup=0 if start == 0 else 1,
            active=(NEVER if end == -1 else end) - start,
            repeat=1,
            skip_first=max(0, start - 1),
        ),
        experimental_config=profiler._ExperimentalConfig(
            profiler_level=getattr(profiler.ProfilerLevel, LEVELS[training["profile_level"]]),
            export_type=getattr(profiler.ExportType, training["profile_export_type"].capitalize()),
        ),
        on_trace_ready=profiler.tensorboard_trace_handler(training["profile_save_path"]),
    )


def train(training):
    job = Job()
    ranks = training["profile_ranks"]
    profiler = get_profiler(training) if training["profile"] and (-1 in ranks or job.rank in ranks) else None
    if profiler:
        profiler.start()
    for step in range(training["max_steps"]):
        job.train_step(step)
        if profiler:
            profiler.step()
    if profiler:
        profiler.stop()
    job.close()
