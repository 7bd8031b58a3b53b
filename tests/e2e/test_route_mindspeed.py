"""Training jobs of MindSpeed on a host, through the scripts that start them; and every way there can break."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkouts import checkout, digests, pyyaml
from harness import Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]
PTD, ARGS = "examples/mcore/llama/pretrain_llama_ptd.sh", "examples/mcore/llama/pretrain_llama_args.sh"


class Job:
    """A checkout on a host, and an inventory that names a job of it."""

    def __init__(self, tool: Tool, host: SimHost) -> None:
        self.tool, self.host, self.root = tool, host, checkout(host, "mindspeed")

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def collect(self, command: str, *arguments: str, route: str = "mindspeed", **options: Any) -> Any:
        spec = {"route": route, "project": str(self.root), "command": command, **options}
        self.tool.inventory(self.host, models={"job": spec})
        return self.tool.collect(*arguments, model="job")


@pytest.fixture
def job(host: Start, tool: Tool, tmp_path: Path) -> Callable[..., Job]:
    def start(**options: Any) -> Job:
        return Job(tool, host(env={**pyyaml(tmp_path), **options.pop("env", {})}, **options))

    return start


def profiles(tool: Tool, outcome: Any) -> list[tuple[str, int | None, int]]:
    """(phase, rank, steps) of every profile of a result that is valid."""
    assert outcome.status == 0, outcome.err
    manifest = json.loads((tool.directory / outcome.document["directory"] / "manifest.json").read_text())
    assert manifest["verdict"] == "valid"
    assert {profile["level"] for profile in manifest["profiles"]} == {"Level1"}
    assert {profile["metrics"] for profile in manifest["profiles"]} == {"PipeUtilization"}
    return sorted((one["phase"], one["rank"], len(one["steps"])) for one in manifest["profiles"])


def test_a_script_without_a_place_for_arguments(job: Callable[..., Job], tool: Tool, runtime: str) -> None:
    """Its own defaults are level 0 of rank 0 without the host; a copy of it asks for more."""
    here = job(runtime=runtime)
    before = digests(here.root)
    outcome = here.collect(f"bash {PTD}", "--devices", "2", route="auto")
    assert profiles(tool, outcome) == [("train", 0, 3), ("train", 1, 3)]
    assert outcome.document["route"] == "mindspeed"
    after = digests(here.root)
    assert {path: after.get(path) for path in before} == before
    assert set(after) - set(before) == {"logs/train_llama.log"}, "as in any run"
    assert gone(here.host.processes)


@pytest.mark.parametrize(
    "command",
    [
        f"bash {ARGS}",
        "bash examples/fsdp2/llama/train_llama_fsdp2.sh",
        "bash examples/vlm/pretrain_vlm.sh",
        "python3 -m torch.distributed.run --nproc-per-node=1 pretrain_gpt.py --train-iters 30",
    ],
    ids=["passes-on", "fsdp2", "multimodal", "no-script"],
)
def test_each_dialect(job: Callable[..., Job], tool: Tool, command: str) -> None:
    here = job()
    before = digests(here.root)
    outcome = here.collect(command, "--steps", "5", route="auto")
    assert profiles(tool, outcome) == [("train", 0, 5)]
    assert outcome.document["route"] == "mindspeed"
    assert digests(here.root) == before
