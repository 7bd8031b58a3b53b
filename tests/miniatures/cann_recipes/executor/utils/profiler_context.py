"""The profiler of the engine: one for the first prefill, then one for the decode steps."""

import os

import torch_npu


class Disabled:
    def start(self):
        pass

    step = stop = start


def create_profiler(enable_profiler, profile_save_path, active=3, repeat=1, skip_first=3):
    if not enable_profiler:
        return Disabled()
    os.makedirs(profile_save_path, exist_ok=True)
    config = torch_npu.profiler._ExperimentalConfig(
        profiler_level=torch_npu.profiler.ProfilerLevel.Level1,
        aic_metrics=torch_npu.profiler.AiCMetrics.PipeUtilization,
    )
    return torch_npu.profiler.profile(
        activities=[torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU],
        with_stack=False,
        record_shapes=False,
        profile_memory=False,
        experimental_config=config,
        schedule=torch_npu.profiler.schedule(wait=0, warmup=0, active=active, repeat=repeat, skip_first=skip_first),
        on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(profile_save_path),
    )


class ProfilerManager:
    """From nothing to prefill, from prefill to decode, never back."""

    def __init__(self, enable_profiler, profile_save_path):
        self.enable_profiler, self.profile_save_path = enable_profiler, profile_save_path
        self.status = self.profiler = None

    def set_status(self, is_prefill):
        if is_prefill and self.status is None:
            self._begin("prefill", active=1, skip_first=0)
        elif not is_prefill and self.status == "prefill":
            self.profiler.stop()
            self._begin("decode", active=3, skip_first=3)

    def step(self):
        if self.profiler is not None:
            self.profiler.step()

    def __del__(self):
        if self.profiler is not None:
            self.profiler.stop()

    def _begin(self, status, **window):
        self.status = status
        self.profiler = create_profiler(self.enable_profiler, f"{self.profile_save_path}/{status}", **window)
        self.profiler.start()
