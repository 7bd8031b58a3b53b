"""What a model of the inventory may say: one adapter or route, and the options that it takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from . import options, values
from .document import Node
from .hosts import ModelSpec
from .options import Check
from .values import text
from .words import suggestion

DTYPES = ("bfloat16", "float16", "float32")


def specify(name: str, model: Node) -> ModelSpec:
    """A model from its fields after inheritance; `model` is its last mention. Raises InventoryError."""
    fields = {key: node for key, node in model.value.items() if node.value is not None}
    adapter, route = fields.pop("adapter", None), fields.pop("route", None)
    where = model.key or model
    if route is not None:
        return _routed(name, route, adapter, where, fields)
    if adapter is None:
        remedy = f"add `adapter:` with one of {', '.join(ADAPTERS)} or the path of a .py file, or `route:`"
        raise where.error(f"model {name} names neither an adapter nor a route", remedy)
    chosen = text(adapter)
    if chosen.endswith(".py"):
        chosen = str(_existing(adapter))
    elif chosen in ADAPTERS:
        _check_options(f"adapter {chosen}", name, where, fields, *ADAPTERS[chosen])
    else:
        remedy = f"{suggestion(chosen, ADAPTERS)}, or the path of a .py file"
        raise adapter.error(f"model {name} has an unknown adapter {chosen!r}", remedy)
    return ModelSpec(name, chosen, None, {key: node.plain() for key, node in fields.items()})


def _routed(name: str, route: Node, adapter: Node | None, where: Node, fields: dict[str, Node]) -> ModelSpec:
    """A model whose profile comes out of a program on the host."""
    from ..routes import AUTO, TEMPLATE, options_of, routes

    chosen = text(route)
    if adapter is not None:
        remedy = "keep the adapter: it implies its route; or put it below `fallback:`, for when the route's way fails"
        raise route.error(f"model {name} names an adapter and a route", remedy)
    if chosen == TEMPLATE:
        raise route.error(f"model {name}: route {chosen} needs an adapter", "name the adapter instead of the route")
    if chosen != AUTO and chosen not in routes():
        remedy = suggestion(chosen, [AUTO, *routes()])
        raise route.error(f"model {name} has an unknown route {chosen!r}", remedy)
    known, required = options_of(chosen)
    fallback = fields.pop("fallback", None)
    _check_options(f"route {chosen}", name, where, fields, {**known, "fallback": options.mapping}, ())
    for key in required:
        if key not in fields:
            raise where.error(f"model {name} needs {key} for route {chosen}", f"add `{key}:`")
    plain = {key: node.plain() for key, node in fields.items()}
    if "command" in fields:
        plain["command"] = options.words_of(fields["command"])
    return ModelSpec(name, None, chosen, plain, None if fallback is None else _fallback(name, fallback))


def _fallback(name: str, fallback: Node) -> ModelSpec:
    if not isinstance(fallback.value, dict) or "adapter" not in fallback.value:
        raise fallback.error(f"fallback of model {name} names no adapter", "write `fallback: {adapter: ...}`")
    return specify(name, fallback)


def _existing(adapter: Node) -> Path:
    path = values.path(adapter).resolve()
    if not path.is_file():
        remedy = "give its path relative to the inventory file that names it"
        raise adapter.error(f"there is no adapter file {path}", remedy)
    return path


def _check_options(
    owner: str,
    name: str,
    model: Node,
    fields: Mapping[str, Node],
    known: Mapping[str, Check],
    sources: tuple[str, ...],
) -> None:
    """Of its `sources` a model needs exactly one."""
    for key, node in fields.items():
        if key not in known:
            where = node.key or node
            raise where.error(f"{owner} of model {name} has no option {key!r}", suggestion(key, known))
        complaint = known[key](node)
        if complaint:
            raise node.error(f"{key} of model {name} must be {complaint}, not {node.kind}", "mend the value")
    given = [key for key in sources if key in fields]
    wanted = " or ".join(sources)
    if sources and not given:
        raise model.error(f"model {name} needs {wanted} for {owner}", f"add `{sources[0]}:`")
    if len(given) > 1:
        remedy = f"keep one; an inherited one is taken back with an empty value, `{given[0]}:`"
        raise fields[given[1]].error(f"model {name} names {' and '.join(given)}", remedy)


_COMMON: dict[str, Check] = {"dtype": options.one_of(DTYPES), "batch": options.count}
_LANGUAGE = {**_COMMON, "prompt_tokens": options.count}
_LLAMA = dict.fromkeys(("layers", "hidden", "intermediate", "heads", "kv_heads", "vocab"), options.count)
_PROMPTS = dict.fromkeys(
    ("prompt", "prompt_2", "prompt_3", "negative_prompt", "negative_prompt_2", "negative_prompt_3"), options.text
)
_SIZES = dict.fromkeys(("height", "width", "num_frames", "num_inference_steps", "max_sequence_length"), options.count)
_SCALES = dict.fromkeys(("guidance_scale", "true_cfg_scale", "guidance_rescale", "eta"), options.number)

# What each adapter takes, and of which options it needs exactly one. The pipelines of diffusers differ in
# what their call accepts: these are the names that many share; the adapter refuses on the host what the
# pipeline at hand does not take.
ADAPTERS: dict[str, tuple[dict[str, Check], tuple[str, ...]]] = {
    "transformers": ({**_LANGUAGE, "path": options.text, "config": options.mapping}, ("path", "config")),
    "llama": ({**_LANGUAGE, **_LLAMA}, ()),
    "diffusers": ({**_COMMON, "path": options.text, **_PROMPTS, **_SIZES, **_SCALES}, ("path",)),
}
