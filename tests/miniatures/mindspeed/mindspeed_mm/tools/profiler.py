"""The profiler of the multimodal models, as a JSON file says."""

import json

import torch_npu


class Profiler:
    def __init__(self, path, rank):
        with open(path) as file:
            self.config = json.load(file)["profile"]
        self.wanted = self.config["enable"] and rank in self.config["ranks"]
        self.profiler = self._static() if self.wanted and self.config["profile_type"] == "static" else None

    def _static(self):
        static, profiler = self.config["static_param"], torch_npu.profiler
        activities = [profiler.ProfilerActivity.NPU]
        if static["with_cpu"]:
            activities.append(profiler.ProfilerActivity.CPU)
        return profiler.profile(
            with_stack=static["with_stack"],
            record_shapes=static["record_shapes"],
            profile_memory=static["with_memory"],
            activities=activities,
            schedule=profiler.schedule(
                wait=0,
                warmup=0,
                active=static["end_step"] - static["start_step"],
                repeat=1,
                skip_first=static["start_step"],
            ),
            experimental_config=profiler._ExperimentalConfig(
                aic_metrics=getattr(profiler.AiCMetrics, static["aic_metrics_type"]),
                profiler_level=getattr(profiler.ProfilerLevel, static["level"].capitalize()),
                data_simplification=static["data_simplification"],
            ),
            on_trace_ready=profiler.tensorboard_trace_handler(
                static["save_path"], analyse_flag=static.get("analyse_flag", True)
            ),
        )

    def start(self):
        if self.profiler:
            self.profiler.start()

    def step(self):
        if self.profiler:
            self.profiler.step()

    def stop(self):
        if self.profiler:
            self.profiler.stop()
