"""The older way, for models with an infer.py of their own: the runner has a prefill and a decode profiler itself.

It saves below the current directory, and generates one token less than it is asked for: the prefill gives the first.
"""

import os

import torch_npu
import yaml

from executor.core.config.inference_config import join_the_ranks
from executor.core.toy import Toy


class ModelRunner:
    PROF_DIR = "{res}/prof/{phase}"

    def __init__(self, yaml_file_path):
        with open(yaml_file_path) as file:
            content = yaml.safe_load(file)
        self.enable_profiler = content["model_config"].get("enable_profiler", False)
        self.max_new_tokens = content["data_config"]["max_new_tokens"]
        self.input_tokens = content["data_config"]["input_max_len"]
        self.model = Toy(join_the_ranks(content["world_size"]))

    def define_profiler(self, enable_profiler=False, profile_save_path="prof", active=10, repeat=1, skip_first=10):
        if not enable_profiler:
            return None
        os.makedirs(profile_save_path, exist_ok=True)
        config = torch_npu.profiler._ExperimentalConfig(
            profiler_level=torch_npu.profiler.ProfilerLevel.Level1,
            aic_metrics=torch_npu.profiler.AiCMetrics.PipeUtilization,
        )
        return torch_npu.profiler.profile(
            activities=[torch_npu.profiler.ProfilerActivity.CPU, torch_npu.profiler.ProfilerActivity.NPU],
            experimental_config=config,
            schedule=torch_npu.profiler.schedule(wait=0, warmup=0, active=active, repeat=repeat, skip_first=skip_first),
            on_trace_ready=torch_npu.profiler.tensorboard_trace_handler(profile_save_path),
        )

    def model_generate(self, warm_up=False):
        self.loop("prefill", self.input_tokens, warm_up, count=1, skip_first=0, active=1)
        self.loop("decode", 1, warm_up, count=2 if warm_up else self.max_new_tokens - 1, skip_first=3, active=3)

    def loop(self, phase, tokens, warm_up, count, **window):
        where = self.PROF_DIR.format(res=os.environ["RES_PATH"], phase=phase)
        profiler = self.define_profiler(self.enable_profiler and not warm_up, where, **window)
        if profiler:
            profiler.start()
        for _ in range(min(count, int(os.environ.get("RECIPES_TEXT_ENDS", count)))):
            self.model.forward(tokens)
            if profiler:
                profiler.step()
        if profiler:
            profiler.stop()
