"""The configuration: a tree of defaults, and overrides ``path.to.key=value`` as Hydra takes them."""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple

from .releases import Release

ACTOR = "actor_rollout_ref.actor.profiler"


class Same(NamedTuple):
    """The value of another key, whatever that is in the end."""

    path: str


class Wrong(ValueError):
    """An override that Hydra refuses."""


def defaults(release: Release) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "data": {"train_files": None, "max_prompt_length": 16, "max_response_length": 12},
        "algorithm": {"adv_estimator": "gae"},
        "actor_rollout_ref": {
            "model": {"path": None},
            "actor": {"ppo_epochs": 1, "use_kl_loss": False},
            "rollout": {"name": "vllm", "mode": "async", "tensor_model_parallel_size": 2},
            "ref": {},
        },
        "trainer": {
            "total_epochs": 30,
            "total_training_steps": None,
            "nnodes": 1,
            "n_gpus_per_node": 8,
            "device": "cuda",
            "val_before_train": True,
            "save_freq": -1,
            "test_freq": -1,
            "resume_mode": "auto",
            "default_local_dir": "checkpoints/verl_examples/gsm8k",
        },
        "ray_kwargs": {"ray_init": {"num_cpus": None}, "timeline_json_file": None},
    }
    roles = tree["actor_rollout_ref"]
    if release.keys == "none":
        tree["trainer"]["profile_steps"] = None
    elif release.keys == "trainer":
        options = {
            "save_path": "./profiler_data",
            "level": "level1",
            "with_memory": False,
            "record_shapes": False,
            "with_npu": True,
            "with_cpu": True,
            "with_module": False,
            "with_stack": False,
            "analysis": True,
        }
        tree["trainer"].update(profile_steps=None, npu_profile={"options": options})
        roles["profiler"] = {"discrete": False, "all_ranks": False, "ranks": []}
    else:
        steps = {"tool": None, "steps": None, "profile_continuous_steps": False, "save_path": "outputs/profile"}
        tree["global_profiler"] = steps
        for role in ("actor", "rollout", "ref"):
            roles[role]["profiler"] = _profiler(release, follows=role == "rollout")
    return tree


def _profiler(release: Release, follows: bool) -> dict[str, Any]:
    """The rollout does what the actor does, unless it is told otherwise."""
    npu: dict[str, Any] = {"contents": [], "level": release.level, "analysis": True, "discrete": False}
    own: dict[str, Any] = {"enable": False, "all_ranks": False, "ranks": []}
    if follows:
        own = {key: Same(f"{ACTOR}.{key}") for key in own}
        npu = {key: Same(f"{ACTOR}.tool_config.npu.{key}") for key in npu}
        if release.token_window:
            npu.update(profile_token_start=None, profile_token_end=None)
    return {**own, "tool_config": {"npu": npu}}


def configuration(release: Release, overrides: list[str]) -> dict[str, Any]:
    """Raises Wrong."""
    tree = defaults(release)
    for override in overrides:
        found = re.fullmatch(r"(\+{0,2})([\w.\-@]+)=(.*)", override, re.DOTALL)
        if found is None:
            raise Wrong(f"mismatched input in {override!r}: missing EQUAL")
        plus, path, text = found.groups()
        *folders, last = path.split(".")
        node = tree
        for name in folders:
            if not isinstance(node.get(name), dict):
                if not plus:
                    raise Wrong(_unknown(path, name))
                node[name] = {}
            node = node[name]
        if last in node and plus == "+":
            raise Wrong(f"Could not append to config. An item is already at '{path}'. Either remove + prefix")
        if last not in node and not plus:
            raise Wrong(_unknown(path, last))
        node[last] = value(text)
    return _resolved(tree, tree)


def _unknown(path: str, name: str) -> str:
    return f"Could not override '{path}'.\nTo append to your config use +{path}=...\nKey '{name}' is not in struct"


def value(text: str) -> Any:
    """A value of Hydra's grammar: null, true, numbers, quoted or bare words, lists of these."""
    words = {"null": None, "true": True, "false": False, "": ""}
    if text.lower() in words:
        return words[text.lower()]
    if text.startswith("[") and text.endswith("]"):
        inner = text[1:-1].strip()
        return [value(item.strip()) for item in inner.split(",")] if inner else []
    if text[0] in "'\"":
        if len(text) < 2 or text[-1] != text[0]:
            raise Wrong(f"token recognition error at: {text!r}")
        return text[1:-1]
    if re.search(r"[\s,'\"(){}\[\]=#]", text):
        raise Wrong(f"no viable alternative at input {text!r}")
    try:
        return ast.literal_eval(text) if re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", text) else text
    except (SyntaxError, ValueError):
        return text


def _resolved(node: Any, tree: dict[str, Any]) -> Any:
    if isinstance(node, dict):
        return {key: _resolved(one, tree) for key, one in node.items()}
    if isinstance(node, Same):
        found: Any = tree
        for name in node.path.split("."):
            found = found[name]
        return _resolved(found, tree)
    return node
