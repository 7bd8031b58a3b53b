"""Programs that run in the Python of the Ascend venv, on the simulated CANN; `test_cann.py` looks at what they leave.

    python cann_programs.py profiles OUT     profiles of small models, one directory per case
    python cann_programs.py numbers          what the device computes, against the CPU
    python cann_programs.py device           which devices there are, what a holder looks like

The last line of the output is a JSON document.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import torch_npu

profiler = torch_npu.profiler
LEVEL1 = {
    "profiler_level": profiler.ProfilerLevel.Level1,
    "aic_metrics": profiler.AiCMetrics.PipeUtilization,
}


def small(kind: str) -> Any:
    """A randomly initialised causal model of transformers."""
    import transformers

    names = {"llama": "Llama", "qwen2": "Qwen2"}
    config = getattr(transformers, names[kind] + "Config")(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=256,
    )
    torch.manual_seed(7)
    return getattr(transformers, names[kind] + "ForCausalLM")(config).to(torch.bfloat16).npu().eval()


def decode_step(kind: str) -> Callable[[], Any]:
    model = small(kind)
    state = {"past": model(torch.randint(0, 256, (1, 12)).npu(), use_cache=True).past_key_values}
    token = torch.randint(0, 256, (1, 1)).npu()

    def step() -> None:
        state["past"] = model(token, past_key_values=state["past"], use_cache=True).past_key_values

    return step


def prefill_step(kind: str) -> Callable[[], Any]:
    model = small(kind)
    ids = torch.randint(0, 256, (2, 24)).npu()
    return lambda: model(ids, use_cache=True)


def unet_step() -> Callable[[], Any]:
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=16,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
        attention_head_dim=8,
    )
    model = model.npu().eval()
    noise = torch.randn(1, 3, 16, 16).npu()
    return lambda: model(noise, 3)


def busy_step() -> Callable[[], Any]:
    """A step with everything around the kernels: events, a second stream, a pinned transfer, random numbers."""
    layer = torch.nn.Linear(32, 32).npu()
    data, side = torch.randn(8, 32).npu(), torch.npu.Stream()

    def step() -> None:
        begun = torch.npu.Event(enable_timing=True)
        begun.record()
        layer(data).relu_()
        with torch.npu.stream(side):
            data.add(1).record_stream(side)
        torch.npu.current_stream().wait_stream(side)
        torch.randn(4).pin_memory().to("npu:0", non_blocking=True)
        torch.randn(4, 4, device="npu:0")
        torch.multinomial(torch.ones(5, device="npu:0"), 2)

    return step


def record(out: str, step: Callable[[], Any], schedule: dict[str, int], config: dict[str, Any], **options: Any) -> None:
    steps = sum(schedule.values()) + 1
    with (
        torch.no_grad(),
        profiler.profile(
            activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.NPU],
            schedule=profiler.schedule(**{"skip_first": 0, "wait": 0, **schedule}, repeat=1),
            on_trace_ready=profiler.tensorboard_trace_handler(out),
            experimental_config=profiler._ExperimentalConfig(**config),
            **options,
        ) as running,
    ):
        for _ in range(steps):
            step()
            torch.npu.synchronize()
            running.step()


def profiles(out: str) -> dict[str, Any]:
    everything = {"with_stack": True, "record_shapes": True, "profile_memory": True, "with_modules": True}
    busy = busy_step()
    with torch.no_grad():
        record(out + "/llama", decode_step("llama"), {"warmup": 1, "active": 5}, LEVEL1)
        record(out + "/qwen2", prefill_step("qwen2"), {"warmup": 0, "active": 5}, LEVEL1, **everything)
        record(out + "/unet", unet_step(), {"warmup": 1, "active": 1}, LEVEL1)
        record(out + "/busy", busy, {"skip_first": 2, "wait": 1, "warmup": 1, "active": 2}, LEVEL1)
        record(out + "/level0", busy, {"warmup": 1, "active": 2}, {"profiler_level": profiler.ProfilerLevel.Level0})
        memory = {**LEVEL1, "aic_metrics": profiler.AiCMetrics.MemoryUB}
        record(out + "/memory", busy, {"warmup": 1, "active": 1}, memory)
        record(out + "/db", busy, {"warmup": 1, "active": 3}, {**LEVEL1, "export_type": ["db"]})
    return {}


def numbers() -> dict[str, Any]:
    ids = torch.randint(0, 256, (1, 16))
    model = small("llama")
    with torch.no_grad():
        there = model(ids.npu()).logits
        here = model.cpu()(ids).logits
    apart = {"logits": (there.cpu() - here).abs().max().item()}

    def gradients(device: str) -> list[torch.Tensor]:
        torch.manual_seed(3)
        net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))
        data, target = torch.randn(5, 6), torch.tensor([0, 1, 2, 1, 0])
        net = net.to(device)
        loss = torch.nn.functional.cross_entropy(net(data.to(device)), target.to(device))
        loss.backward()
        return [item.grad.cpu() for item in net.parameters()]

    pairs = zip(gradients("npu:0"), gradients("cpu"), strict=True)
    apart["gradients"] = max((one - two).abs().max().item() for one, two in pairs)

    q, k, v = (torch.randn(1, 4, 8, 16) for _ in range(3))
    scaled = torch.nn.functional.scaled_dot_product_attention
    fused = torch_npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), 4, "BNSD", scale=0.25)[0]
    apart["fused attention"] = (fused.cpu() - scaled(q, k, v)).abs().max().item()
    apart["attention"] = (scaled(q.npu(), k.npu(), v.npu()).cpu() - scaled(q, k, v)).abs().max().item()

    grown, base = torch.empty(0, device="npu:0"), torch.arange(6.0).reshape(2, 3)
    torch.add(base.npu(), 1, out=grown)
    moved = base.npu()
    moved.t()[1:].mul_(2)  # in place, through a view with other strides
    expected = base.clone()
    expected.t()[1:].mul_(2)
    apart["out="] = (grown.cpu() - (base + 1)).abs().max().item()
    apart["view"] = (moved.cpu() - expected).abs().max().item()
    try:
        torch.ops.npu.npu_moe_gating_top_k_softmax(base.npu(), None, 2)
        refused = ""
    except RuntimeError as error:
        refused = str(error)
    return {"apart": apart, "refused": refused}


def device() -> dict[str, Any]:
    said: dict[str, Any] = {"count": torch.npu.device_count()}
    last = said["count"] - 1
    torch.npu.set_device(last)
    before = torch.npu.mem_get_info()
    holder = Path(os.environ["SIMHOST"], "holders", str(os.getpid()))
    held = [holder.read_text()]
    block = torch.empty(200 << 20, dtype=torch.uint8, device="npu")
    held.append(holder.read_text())
    said.update(name=torch.npu.get_device_name(), device=str(block.device), held=held, before=before)
    said.update(after=torch.npu.mem_get_info(), pid=os.getpid())
    try:
        torch.empty(before[1], dtype=torch.uint8, device="npu")
    except torch.OutOfMemoryError as error:
        said["full"] = str(error)
    return said


if __name__ == "__main__":
    program = {"profiles": profiles, "numbers": numbers, "device": device}[sys.argv[1]]
    print("\n" + json.dumps(program(*sys.argv[2:])))
