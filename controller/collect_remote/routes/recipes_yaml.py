"""The YAML of a model in cann-recipes-infer: what it says, and the copy of it with the profiler switched on.

Two schemas (122 files read @ fbc225d): the engine's sections, and the older one of models with a loop of their own.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import yaml

from ..errors import EnvironmentUnfit

SWITCH = "model_config"  # the section of `enable_profiler`
LENGTHS = ("scheduler_config", "data_config")  # where `max_new_tokens` may be


@dataclass(frozen=True, slots=True)
class Config:
    """`tokens`: max_new_tokens, which is in `section`."""

    name: str
    said: dict[str, Any]
    section: str
    tokens: int

    def copy(self, tokens: int) -> str:
        """With the profiler switched on, and that many tokens."""
        changed = copy.deepcopy(self.said)
        changed[SWITCH]["enable_profiler"] = True
        changed[self.section]["max_new_tokens"] = tokens
        return yaml.safe_dump(changed, sort_keys=False, allow_unicode=True)

    def notes(self, tokens: int) -> list[str]:
        notes = [f"a copy of {self.name} with {SWITCH}.enable_profiler: true"]
        if tokens != self.tokens:
            notes.append(
                f"its {self.section}.max_new_tokens is {tokens}, not {self.tokens}: as many as the window needs; "
                "the cache takes more memory"
            )
        return notes


def read(text: str, name: str) -> Config:
    """EnvironmentUnfit for a text that is no YAML, or has no switch for a profiler."""
    try:
        said = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise EnvironmentUnfit(f"{name} cannot be read: {' '.join(str(error).split())}", "mend the file") from error
    said = said if isinstance(said, dict) else {}
    section = next((part for part in LENGTHS if "max_new_tokens" in _part(said, part)), None)
    if not _part(said, SWITCH) or section is None:
        raise EnvironmentUnfit(
            f"{name} has no {SWITCH} with a profiler to switch on, or no max_new_tokens",
            "such a model has a way of its own: see its README, and use `route: script` with its command",
        )
    tokens = _part(said, section)["max_new_tokens"]
    if type(tokens) is not int:
        raise EnvironmentUnfit(f"max_new_tokens of {name} must be a number", "mend the file")
    return Config(name, said, section, tokens)


def ranks_and_nodes(text: str) -> tuple[int | None, int | None]:
    """How many ranks a host has, and how many hosts there are, by the world size that a text says; None where it does
    not.
    """
    world, most = _sizes(text)
    return (None, None) if world is None else (min(world, most), -(-world // most))


def require_full_hosts(text: str, name: str) -> None:
    """EnvironmentUnfit for a world size that leaves one of several hosts partly empty: as many ranks start on each."""
    world, most = _sizes(text)
    if world is not None and world > most and world % most:
        hosts = -(-world // most)
        raise EnvironmentUnfit(
            f"world_size of {name} is {world}, and the launcher starts {most} ranks on each of {hosts} hosts",
            f"make it a multiple of {most}",
        )


def _sizes(text: str) -> tuple[int | None, int]:
    """The world size that a text says, and the devices of a host: 16, or 8 of the 950."""
    try:
        said = yaml.safe_load(text)
    except yaml.YAMLError:
        said = {}
    said = said if isinstance(said, dict) else {}
    world = _part(said, "parallel_config").get("world_size", said.get("world_size"))
    most = 8 if str(_part(said, SWITCH).get("platform_version")) == "950" else 16
    return (world if type(world) is int and world > 0 else None), most


def _part(said: dict[str, Any], name: str) -> dict[str, Any]:
    part = said.get(name)
    return part if isinstance(part, dict) else {}
