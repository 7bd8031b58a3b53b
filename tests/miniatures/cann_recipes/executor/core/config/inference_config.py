"""The YAML of a model, in the engine's own schema."""

import os
from dataclasses import dataclass

import yaml


@dataclass
class InferenceConfig:
    model_name: str
    enable_profiler: bool
    max_new_tokens: int
    input_tokens: int
    world_size: int

    @classmethod
    def read(cls, path):
        with open(path) as file:
            content = yaml.safe_load(file)
        return cls(
            model_name=content["model_config"]["model_name"],
            enable_profiler=content["model_config"].get("enable_profiler", False),
            max_new_tokens=content["scheduler_config"]["max_new_tokens"],
            input_tokens=content["data_config"]["input_truncated_len"],
            world_size=content["parallel_config"]["world_size"],
        )


def join_the_ranks(world_size):
    """The process group; set up by every rank before it touches its device."""
    import torch

    if os.environ.get("RECIPES_CRASH_RANK") == os.environ["RANK_ID"]:
        raise ImportError("cannot import name 'npu_fused_infer_attention_score_v3' from 'torch_npu'")
    if world_size > 1 and torch.distributed.is_available():
        torch.distributed.init_process_group("gloo", rank=int(os.environ["RANK_ID"]), world_size=world_size)
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.npu.set_device(local_rank)
    return f"npu:{local_rank}"
