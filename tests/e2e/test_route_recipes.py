"""cann-recipes-infer on a host, from its launcher to a valid profile; and every way there can break."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkouts import CANN, checkout, digests, on, pyyaml
from harness import Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]


class Recipes:
    """A checkout on a host, with what its users have to fill in, and an inventory that names models of it."""

    def __init__(self, tool: Tool, host: SimHost) -> None:
        self.tool, self.host, self.root = tool, host, checkout(host, "cann_recipes")
        self.edit("executor/scripts/set_env.sh", "your_cann_pkgs_path", str(host.home / CANN))
        self.edit("executor/scripts/set_env.sh", "your_cann_recipes_path", str(self.root))

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def collect(self, *arguments: str, model: str = "deepseek_r1", yaml: str = "r1.yaml", **options: Any) -> Any:
        spec = {"route": "cann-recipes", "project": str(self.root), "model": model, "yaml": yaml, **options}
        self.tool.inventory(self.host, models={"ds": spec})
        return self.tool.collect(*arguments, model="ds")


@pytest.fixture
def recipes(host: Start, tool: Tool, tmp_path: Path) -> Callable[..., Recipes]:
    def start(**options: Any) -> Recipes:
        return Recipes(tool, host(env={**pyyaml(tmp_path), **options.pop("env", {})}, **options))

    return start


def profiles(tool: Tool, outcome: Any) -> list[tuple[str, int | None, int]]:
    """(phase, rank, steps) of every profile of a result that is valid."""
    assert outcome.status == 0, outcome.err
    manifest = json.loads((tool.directory / outcome.document["directory"] / "manifest.json").read_text())
    assert manifest["verdict"] == "valid"
    assert {profile["level"] for profile in manifest["profiles"]} == {"Level1"}
    assert {profile["metrics"] for profile in manifest["profiles"]} == {"PipeUtilization"}
    return sorted((one["phase"], one["rank"], len(one["steps"])) for one in manifest["profiles"])


def written(before: dict[str, str], after: dict[str, str]) -> list[str]:
    assert {path: after.get(path) for path in before} == before
    return sorted(set(after) - set(before))


def test_two_ranks_of_the_engine(recipes: Callable[..., Recipes], tool: Tool, runtime: str) -> None:
    here = recipes(runtime=runtime)
    before = digests(here.root)
    outcome = here.collect("--devices", "2", yaml="r1_rank_2.yaml")
    assert profiles(tool, outcome) == [
        *[("decode", rank, 10) for rank in (0, 1)],
        *[("prefill", rank, 1) for rank in (0, 1)],
    ]
    assert outcome.document["route"] == "cann-recipes"
    # What a normal run writes as well: the logs of the ranks, in a directory named by the YAML.
    left = written(before, digests(here.root))
    assert [path.split("/")[-1] for path in left] == ["log_0.log", "log_1.log"]
    assert all("/deepseek_r1_r1_rank_2__collect_remote/" in path for path in left)
    assert gone(here.host.processes)


@pytest.mark.parametrize("model", ["pangu_7b", "glm_5_2"])
def test_a_model_with_a_loop_of_its_own(recipes: Callable[..., Recipes], tool: Tool, model: str) -> None:
    """Its directories lie elsewhere, or are the other way round; the prefill that is recorded is the one it chooses."""
    here = recipes()
    outcome = here.collect(model=model, yaml=f"{model}.yaml")
    assert profiles(tool, outcome) == [("decode", None, 10), ("prefill", None, 1)]


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_one_phase_alone(recipes: Callable[..., Recipes], tool: Tool, phase: str) -> None:
    outcome = recipes().collect("--phase", phase)
    assert profiles(tool, outcome) == [(phase, None, 10 if phase == "decode" else 1)]


def test_all_the_steps_there_are(recipes: Callable[..., Recipes], tool: Tool) -> None:
    """8 tokens, 2 of them before the window and one for the profiler itself: the YAML is left as long as it is."""
    outcome = recipes().collect("--phase", "decode", "--steps", "all")
    assert profiles(tool, outcome) == [("decode", None, 5)]
