"""Every route inside a container of a host, where most frameworks live: its project mounted, or the image's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from boxes import box, inside, nothing_left
from checkouts import CANN, MINIATURES, digests, pyyaml
from collected import Collected
from harness import Outcome, Tool
from simhost import SimHost
from simhost.containers import Container
from wrapped import PROGRAM, PROGRAMS

Start = Callable[..., SimHost]
IN_IMAGE = "{home}/project"
MOUNTED = "/data/project"
FORWARD = "tinylm.modeling_tiny:TinyForCausalLM.forward"
PTD = "examples/mcore/llama/pretrain_llama_ptd.sh"


@dataclass(frozen=True)
class Case:
    """A miniature, what the inventory says of it, and the (phase, rank) set of its result."""

    miniature: str
    model: Mapping[str, Any]
    expected: Sequence[tuple[str, int]]
    route: str = ""
    arguments: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


CASES = {
    "cann-recipes": Case(
        "cann_recipes",
        {"route": "cann-recipes", "model": "deepseek_r1", "yaml": "r1_rank_2.yaml"},
        [("decode", 0), ("decode", 1), ("prefill", 0), ("prefill", 1)],
        arguments=("--devices", "2"),
    ),
    "mindspeed": Case(
        "mindspeed",
        {"command": f"bash {PTD}"},
        [("train", 0), ("train", 1)],
        arguments=("--devices", "2"),
    ),
    "vllm-server": Case(
        "vllm",
        {"command": "bin/vllm serve tiny --tensor-parallel-size 2", "prompt_tokens": 32},
        [("both", 0), ("both", 1)],
        route="vllm",
        arguments=("--devices", "2"),
        versions={"vllm_ascend": "0.23.0"},
    ),
    "vllm-script": Case(
        "vllm",
        {"command": "python3 plain.py 1 8"},
        [("decode", 0)],
        route="vllm",
        arguments=("--phase", "decode"),
        versions={"vllm_ascend": "0.11.0"},
    ),
    "verl": Case(
        "verl",
        {"command": "bash run_grpo.sh"},
        [("train", 0), ("train", 1)],
        arguments=("--devices", "2"),
        versions={"verl": "0.9.0"},
    ),
    "mindie-sd": Case("mindie_sd", {"command": "python3 examples/dummy_run/wan_infer.py"}, [("forward", 0)]),
    "diffusers": Case("diffusion", {"command": "python3 text_to_image.py"}, [("forward", 0)]),
    "profiler": Case(
        "scripts",
        {"command": "python3 pretrain_profiled.py"},
        [("train", 0)],
        route="script",
        arguments=("--phase", "train"),
    ),
    "step-on": Case(
        "scripts",
        {"command": "python3 generate.py --prompts 6", "step_on": [FORWARD]},
        [("decode", 0), ("prefill", 0)],
        route="script",
        arguments=("--phase", "separate"),
    ),
    "wrapper-training": Case("", {"command": "python3 main.py"}, [("train", 0)]),
}


class Place:
    """A container with three of the host's devices, and in it the project of a case."""

    def __init__(
        self, host: Start, tool: Tool, case: Case, tmp_path: Path, *, mounted: bool = False, **options: Any
    ) -> None:
        self.ascend, self.tool, self.case = host(container_engine="docker"), tool, case
        mounts = {}
        if mounted:
            folder = self.ascend.home / "project"
            self.path = MOUNTED
            mounts[folder] = MOUNTED
        self.container = box(
            self.ascend, visible=[2, 5, 6], mounts={**mounts, **options.pop("mounts", {})}, versions=case.versions,
            **options,
        )
        if not mounted:
            self.path = IN_IMAGE.format(home=self.container.home)
        self.project = self.container.outside(self.path)
        self._fill()
        self.before = digests(self.project)

    def _fill(self) -> None:
        if self.case.miniature:
            shutil.copytree(
                MINIATURES / self.case.miniature,
                self.project,
                ignore=shutil.ignore_patterns("__pycache__", ".ruff_cache"),
                dirs_exist_ok=True,
            )
        else:
            self.project.mkdir(exist_ok=True)
            (self.project / "npu_profile.py").write_text(self.tool("template", "--for", "training").out)
            (self.project / "program.py").write_text(PROGRAM)
            (self.project / "main.py").write_text(PROGRAMS["training"])
        if self.case.miniature == "cann_recipes":
            file = self.project / "executor/scripts/set_env.sh"
            text = file.read_text().replace("your_cann_pkgs_path", f"{self.container.home}/{CANN}")
            file.write_text(text.replace("your_cann_recipes_path", self.path))

    def ask(self, **keys: Any) -> None:
        model = {"route": "auto", "project": self.path, **self.case.model}
        inside(self.tool, self.ascend, models={"mine": model}, **keys)

    def collect(self, *arguments: str) -> Outcome:
        return self.tool.collect(*self.case.arguments, *arguments, model="mine")

    def untouched(self, tmp_path: Path) -> None:
        after = digests(self.project)
        assert {path: after.get(path) for path in self.before} == self.before
        nothing_left(self.ascend, tmp_path)
        print(set(after) - set(self.before))


@pytest.mark.parametrize("mounted", [True, False], ids=["mounted", "image"])
@pytest.mark.parametrize("name", CASES)
def test_a_route_in_a_container(host: Start, tool: Tool, tmp_path: Path, name: str, mounted: bool) -> None:
    case = CASES[name]
    place = Place(host, tool, case, tmp_path, mounted=mounted)
    keys = {"env": yaml_inside(place.container)} if case.miniature in ("cann_recipes", "mindspeed") else {}
    place.ask(**keys)
    outcome = place.collect()
    found = Collected(tool, outcome)
    assert found.profiles == [(*one, "Level1", "PipeUtilization") for one in case.expected]
    assert found.manifest["route"] == (case.route or name)
    assert found.manifest["container"]["name"] == "vllm"
    wanted = 2 if "--devices" in case.arguments else 1
    devices = {device["logic"]: device["inside"] for device in found.manifest["devices"]}
    assert len(devices) == wanted
    assert devices.items() <= {2: 0, 5: 1, 6: 2}.items()
    assert {use.logic for use in place.ascend.uses()} == set(devices)
    place.untouched(tmp_path)


def yaml_inside(container: Container) -> dict[str, str]:
    """See `pyyaml`; a variable of the container."""
    import yaml

    site = container.outside(container.home) / "site"
    shutil.copytree(Path(yaml.__file__).parent, site / "yaml", ignore=shutil.ignore_patterns("__pycache__"))
    return {"PYTHONPATH": f"{container.home}/site"}
