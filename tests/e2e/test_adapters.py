"""The adapters that need real libraries, on the real torch_npu: transformers and diffusers."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Tool, one_error, ssh
from simhost import SimHost

Start = Callable[..., SimHost]

TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
}
SAVE_PIPELINE = """
import diffusers
unet = diffusers.UNet2DModel(
    sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 8), norm_num_groups=4,
    down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
)
diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler(num_train_timesteps=10)).save_pretrained("ddpm")
"""
SAVE_MODEL = """
import transformers
config = transformers.AutoConfig.for_model("llama", **{config!r})
transformers.AutoModelForCausalLM.from_config(config).save_pretrained("tiny-llama")
"""


@pytest.fixture
def ascend(host: Start, ascend_runtime: str) -> SimHost:
    return host(runtime=ascend_runtime)


@pytest.mark.torch_npu
@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_transformers_with_random_weights(ascend: SimHost, tool: Tool, kind: str) -> None:
    model = {"adapter": "transformers", "config": {"model_type": kind, **TINY}, "dtype": "float16", "prompt_tokens": 16}
    tool.inventory(ascend, models={"tiny": model})
    outcome = tool.collect("--steps", "5", model="tiny")
    assert outcome.status == 0, outcome.err
    assert outcome.document["phases"]["both"]["step_kinds"] == ["prefill"] + ["decode"] * 5
    assert outcome.document["versions"]["transformers"]


@pytest.mark.torch_npu
def test_transformers_from_a_directory(ascend: SimHost, tool: Tool) -> None:
    saved = ssh(ascend, "exec python3 -", SAVE_MODEL.format(config=TINY))
    assert saved.returncode == 0, saved.stderr
    path = str(ascend.workdir / "tiny-llama")
    tool.inventory(ascend, models={"tiny": {"adapter": "transformers", "path": path, "batch": 2}})
    outcome = tool.collect("--phase", "decode", "--steps", "5", model="tiny")
    assert outcome.status == 0, outcome.err


@pytest.mark.torch_npu
def test_a_diffusers_pipeline(ascend: SimHost, tool: Tool) -> None:
    saved = ssh(ascend, "exec python3 -", SAVE_PIPELINE)
    assert saved.returncode == 0, saved.stderr
    path = str(ascend.workdir / "ddpm")
    tool.inventory(
        ascend, models={"ddpm": {"adapter": "diffusers", "path": path, "dtype": "float32", "num_inference_steps": 2}}
    )
    outcome = tool.collect(model="ddpm")
    assert outcome.status == 0, outcome.err
    assert outcome.document["phases"]["forward"]["step_kinds"] == ["forward"] * 5


@pytest.mark.torch_npu
def test_a_model_directory_that_is_not_there(ascend: SimHost, tool: Tool) -> None:
    tool.inventory(ascend, models={"gone": {"adapter": "transformers", "path": "/data/gone"}})
    one_error(
        tool.collect(model="gone"), 5, message="/data/gone, the `path` of model gone, is not there", remedy="bring"
    )


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An adapter with empty stand-ins for what it imports, to look at its own decisions."""
    for module in ("torch", "transformers", "diffusers"):
        monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    path = Path(__file__).resolve().parents[2] / "agent" / "collect_agent" / "adapters" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"adapter_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    adapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapter)
    return adapter


def test_the_cache_argument_comes_from_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = load("transformers", monkeypatch)

    class New:
        def forward(self, input_ids: Any, cache: Any = None, past_key_values: Any = None) -> None: ...

    class Old:
        def forward(self, input_ids: Any, past_key_values: Any = None) -> None: ...

    class NoCache:
        def forward(self, input_ids: Any) -> None: ...

    assert adapter.cache_argument(New()) == "cache"
    assert adapter.cache_argument(Old()) == "past_key_values"
    with pytest.raises(ValueError, match="NoCache takes no cache"):
        adapter.cache_argument(NoCache())


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("4.43.1", "torch_dtype"),
        ("4.55.4", "torch_dtype"),
        ("4.56.0", "dtype"),
        ("4.57.0.dev0", "dtype"),
        ("5.24.0", "dtype"),
    ],
)
def test_the_data_types_name_comes_from_the_version(monkeypatch: pytest.MonkeyPatch, version: str, name: str) -> None:
    assert load("transformers", monkeypatch).dtype_argument(version) == name


def test_the_vocabulary_may_be_that_of_the_text_part(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = load("transformers", monkeypatch)
    text = types.SimpleNamespace(vocab_size=32000)
    assert adapter.vocabulary(text) == 32000
    assert adapter.vocabulary(types.SimpleNamespace(get_text_config=lambda: text)) == 32000


@pytest.mark.parametrize(
    ("accepted", "options", "call"),
    [
        (
            {"prompt", "num_images_per_prompt", "output_type"},
            {"prompt": "a cat", "batch": 2},
            {"num_images_per_prompt": 2},
        ),
        ({"batch_size", "output_type"}, {"batch": 3}, {"batch_size": 3}),
        ({"image"}, {"batch": 1, "image": "x"}, {"image": "x"}),
    ],
)
def test_pipeline_arguments_follow_the_signature(
    monkeypatch: pytest.MonkeyPatch, accepted: set[str], options: dict[str, Any], call: dict[str, Any]
) -> None:
    adapter = load("diffusers", monkeypatch)
    result = adapter.call_arguments(accepted, {"output_type": "pt", **options})
    assert call.items() <= result.items()
    assert set(result) <= accepted


def test_a_pipeline_option_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = load("diffusers", monkeypatch)
    with pytest.raises(ValueError, match="has no heigth"):
        adapter.call_arguments({"height", "output_type"}, {"output_type": "pt", "batch": 1, "heigth": 512})
