"""Any causal language model of Hugging Face transformers, from a directory or from a configuration with random weights.

Options: `path` (a directory on the host), or `config` (a mapping with `model_type`; random weights, no files); dtype,
batch, prompt_tokens (tokens). Nothing is ever downloaded.
"""

from __future__ import annotations

import inspect
import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # read by the hub when it is imported

import torch
import transformers

DEFAULTS = {"batch": 1, "prompt_tokens": 128, "dtype": "bfloat16", "path": None, "config": None}


class State:
    def __init__(self, model: Any, prompt: Any) -> None:
        self.model, self.prompt = model, prompt
        self.cache_argument = cache_argument(model)
        self.cache: Any = None
        self.token: Any = None

    def step(self, tokens: Any, cache: Any) -> Any:
        given = {"input_ids": tokens, "use_cache": True, self.cache_argument: cache}
        output = self.model(**given)
        self.cache = getattr(output, self.cache_argument)
        self.token = output.logits[:, -1:].argmax(-1)
        return output.logits


def cache_argument(model: Any) -> str:
    """The name under which this release's `forward` takes the cache: `cache` (transformers 5.24) or the older one."""
    names = inspect.signature(model.forward).parameters
    for name in ("cache", "past_key_values"):
        if name in names:
            return name
    raise ValueError("{} takes no cache: it cannot decode token by token".format(type(model).__name__))


def dtype_argument(version: str) -> str:
    """The name under which this release takes the data type: `torch_dtype` before transformers 4.56. Pure."""
    major, minor = (int(part) for part in version.split(".")[:2])
    return "dtype" if (major, minor) >= (4, 56) else "torch_dtype"


def vocabulary(config: Any) -> int:
    """Number of tokens; a model that does more than text keeps it in the configuration of its text part. Pure."""
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    return int(text.vocab_size)


def load(device: str, options: dict[str, Any]) -> State:
    o = dict(DEFAULTS, **options)
    dtype = {dtype_argument(transformers.__version__): getattr(torch, o["dtype"])}
    torch.manual_seed(0)
    if o["path"]:
        if not os.path.isdir(o["path"]):
            raise FileNotFoundError("no model directory {} on this host".format(o["path"]))
        model = transformers.AutoModelForCausalLM.from_pretrained(o["path"], local_files_only=True, **dtype)
    else:
        config = transformers.AutoConfig.for_model(**o["config"])
        model = transformers.AutoModelForCausalLM.from_config(config, **dtype)
    model = model.to(device).eval()
    prompt = torch.randint(0, vocabulary(model.config), (o["batch"], o["prompt_tokens"])).to(device)
    return State(model, prompt)


def prefill(state: State) -> Any:
    """The whole prompt through a fresh cache; logits (batch, prompt_tokens or 1, vocab)."""
    return state.step(state.prompt, None)


def decode(state: State) -> Any:
    """One more token for every sequence of the batch; logits (batch, 1, vocab)."""
    return state.step(state.token, state.cache)


def check(output: Any) -> None:
    if not bool(torch.isfinite(output.float()).all()):
        raise ValueError("the logits are not finite")
