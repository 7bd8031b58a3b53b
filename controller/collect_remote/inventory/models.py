"""What a model of the inventory may say: one adapter or route, and the options that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from . import values
from .document import Node
from .hosts import ModelSpec
from .values import text
from .words import suggestion

ROUTES = ("template",)
DTYPES = ("bfloat16", "float16", "float32")


def specify(name: str, model: Node) -> ModelSpec:
    """A model from its fields after inheritance; `model` is its last mention. Raises InventoryError."""
    fields = {key: node for key, node in model.value.items() if node.value is not None}
    adapter, route = fields.pop("adapter", None), fields.pop("route", None)
    where = model.key or model
    if route is not None:
        raise _route_error(name, route, adapter)
    if adapter is None:
        remedy = f"add `adapter:` with one of {', '.join(ADAPTERS)}, or the path of a .py file"
        raise where.error(f"model {name} names no adapter", remedy)
    chosen = text(adapter)
    if chosen.endswith(".py"):
        chosen = str(_existing(adapter))
    elif chosen in ADAPTERS:
        _check_options(name, chosen, where, fields)
    else:
        remedy = f"{suggestion(chosen, ADAPTERS)}, or the path of a .py file"
        raise adapter.error(f"model {name} has an unknown adapter {chosen!r}", remedy)
    return ModelSpec(name, chosen, None, {key: node.plain() for key, node in fields.items()})


def _route_error(name: str, route: Node, adapter: Node | None) -> Exception:
    if adapter is not None:
        return route.error(f"model {name} names an adapter and a route", "keep the adapter: it implies its route")
    chosen = text(route)
    if chosen in ROUTES:
        return route.error(f"model {name}: route {chosen} needs an adapter", "name the adapter instead of the route")
    remedy = f"the only route is {', '.join(ROUTES)}, which an adapter implies: name an adapter instead"
    return route.error(f"model {name} has an unknown route {chosen!r}", remedy)


def _existing(adapter: Node) -> Path:
    path = values.path(adapter).resolve()
    if not path.is_file():
        remedy = "give its path relative to the inventory file that names it"
        raise adapter.error(f"there is no adapter file {path}", remedy)
    return path


def _check_options(name: str, adapter: str, model: Node, fields: Mapping[str, Node]) -> None:
    known, sources = ADAPTERS[adapter]
    for key, node in fields.items():
        if key not in known:
            where = node.key or node
            raise where.error(f"adapter {adapter} of model {name} has no option {key!r}", suggestion(key, known))
        complaint = known[key](node)
        if complaint:
            raise node.error(f"{key} of model {name} must be {complaint}, not {node.kind}", "mend the value")
    given = [key for key in sources if key in fields]
    wanted = " or ".join(sources)
    if sources and not given:
        raise model.error(f"model {name} needs {wanted} for adapter {adapter}", f"add `{sources[0]}:`")
    if len(given) > 1:
        remedy = f"keep one; an inherited one is taken back with an empty value, `{given[0]}:`"
        raise fields[given[1]].error(f"model {name} names {' and '.join(given)}", remedy)


# A check says what the value must be, or nothing when it is that.
_Check = Callable[[Node], str]


def _text(node: Node) -> str:
    return "" if isinstance(node.value, str) and node.value else "text"


def _mapping(node: Node) -> str:
    return "" if isinstance(node.value, dict) and node.value else "a mapping"


def _count(node: Node) -> str:
    return "" if type(node.value) is int and node.value >= 1 else "a whole number from 1"


def _number(node: Node) -> str:
    return "" if type(node.value) in (int, float) else "a number"


def _dtype(node: Node) -> str:
    return "" if node.value in DTYPES else f"one of {', '.join(DTYPES)}"


_COMMON: dict[str, _Check] = {"dtype": _dtype, "batch": _count}
_LANGUAGE = {**_COMMON, "prompt_tokens": _count}
_LLAMA = dict.fromkeys(("layers", "hidden", "intermediate", "heads", "kv_heads", "vocab"), _count)
_PROMPTS = dict.fromkeys(
    ("prompt", "prompt_2", "prompt_3", "negative_prompt", "negative_prompt_2", "negative_prompt_3"), _text
)
_SIZES = dict.fromkeys(("height", "width", "num_frames", "num_inference_steps", "max_sequence_length"), _count)
_SCALES = dict.fromkeys(("guidance_scale", "true_cfg_scale", "guidance_rescale", "eta"), _number)

# What each adapter takes, and of which options it needs exactly one. The pipelines of diffusers differ in
# what their call accepts: these are the names that many share; the adapter refuses on the host what the
# pipeline at hand does not take.
ADAPTERS: dict[str, tuple[dict[str, _Check], tuple[str, ...]]] = {
    "transformers": ({**_LANGUAGE, "path": _text, "config": _mapping}, ("path", "config")),
    "llama": ({**_LANGUAGE, **_LLAMA}, ()),
    "diffusers": ({**_COMMON, "path": _text, **_PROMPTS, **_SIZES, **_SCALES}, ("path",)),
}
