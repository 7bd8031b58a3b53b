"""What `collect-remote template --for` prints, put into programs as its users would, on simulated hosts."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collect_remote.wrappers import SCENES, marker
from harness import Tool, ssh
from pythons import pythons
from simhost import SimHost
from wrapped import PROGRAM, PROGRAMS

Start = Callable[..., SimHost]
PHASES = {
    "training": {"train": 3},
    "inference": {"prefill": 1, "decode": 10},
    "service": {"1/forward": 6},
    "rl": {"rollout": 5, "train": 5},
}


def install(host: SimHost, tool: Tool, scene: str) -> None:
    module = tool("template", "--for", scene)
    assert (module.status, module.err) == (0, "")
    (host.workdir / "npu_profile.py").write_text(module.out)
    (host.workdir / "program.py").write_text(PROGRAM)
    (host.workdir / "main.py").write_text(PROGRAMS[scene])


def run(host: SimHost, settings: str = "") -> subprocess.CompletedProcess[str]:
    return ssh(host, f"{settings} exec python3 main.py")


def found(host: SimHost) -> dict[str, list[Path]]:
    """The profiles by the directory below the one that was named."""
    below = host.workdir / "prof"
    profiles: dict[str, list[Path]] = {}
    for path in sorted(below.rglob("*_ascend_pt")):
        profiles.setdefault(str(path.parent.relative_to(below)), []).append(path)
    return profiles


@pytest.mark.parametrize("scene", SCENES)
def test_a_module_runs_as_printed(host: Start, tool: Tool, runtime: str, scene: str) -> None:
    ascend = host(runtime=runtime)
    install(ascend, tool, scene)
    done = run(ascend, "NPU_PROFILE=prof")
    assert done.returncode == 0, done.stderr
    profiles = found(ascend)
    assert {phase: len(paths) for phase, paths in profiles.items()} == dict.fromkeys(PHASES[scene], 1)
    assert sorted(re.findall(r"npu profile: recorded .*/prof/(.*)", done.stderr)) == sorted(PHASES[scene])
    for phase, steps in PHASES[scene].items():
        judged = tool("validate", str(profiles[phase][0]), "--json").document
        checks = {check["id"]: check for check in judged["profiles"][0]["checks"]}
        assert {name for name, check in checks.items() if check["verdict"] == "unproven"} == {"warmup-outside"}, checks
        assert (judged["verdict"], len(judged["profiles"][0]["steps"])) == ("unproven", steps)
        assert (judged["profiles"][0]["level"], judged["profiles"][0]["metrics"]) == ("Level1", "PipeUtilization")
    if scene == "service":
        assert done.stdout.splitlines()[-1] == "True False False"


@pytest.mark.parametrize("scene", SCENES)
def test_a_module_is_off_until_it_is_switched_on(host: Start, tool: Tool, scene: str) -> None:
    ascend = host()
    install(ascend, tool, scene)
    done = run(ascend, "NPU_PROFILE_LEVEL=9")
    assert done.returncode == 0, done.stderr
    assert (done.stderr, found(ascend)) == ("", {})
    assert "_ascend_pt" not in "".join(map(str, ascend.workdir.rglob("*")))


def test_only_the_ranks_that_are_named(host: Start, tool: Tool) -> None:
    ascend = host()
    install(ascend, tool, "training")
    for rank, expected in ((0, {}), (3, {"train": 1})):
        assert run(ascend, f"NPU_PROFILE=prof NPU_PROFILE_RANKS=3,5 RANK={rank} WORLD_SIZE=8").returncode == 0
        assert {phase: len(paths) for phase, paths in found(ascend).items()} == expected
    (profile,) = found(ascend)["train"]
    assert (profile / "profiler_info_3.json").exists()
    assert not (profile / "ASCEND_PROFILER_OUTPUT").exists(), "the other ranks would wait for it"


def test_where_others_would_wait_the_parse_is_left_to_a_command_that_works(host: Start, tool: Tool) -> None:
    ascend = host()
    install(ascend, tool, "training")
    done = run(ascend, "NPU_PROFILE=prof NPU_PROFILE_RANKS=all RANK=1 WORLD_SIZE=2")
    (command,) = re.findall(r"parse it: (.*)", done.stderr)
    assert ssh(ascend, command).returncode == 0
    judged = tool("validate", str(ascend.workdir / "prof"), "--json").document
    assert (judged["verdict"], judged["profiles"][0]["rank"]) == ("unproven", 1)


def test_a_loop_that_ends_early_says_so(host: Start, tool: Tool) -> None:
    ascend = host()
    install(ascend, tool, "training")
    done = run(ascend, "NPU_PROFILE=prof NPU_PROFILE_STEPS=20")
    assert done.returncode == 0
    assert "npu profile: train ended after 12 steps of 26: not complete, ask for fewer\n" in done.stderr


def test_decode_that_prefill_interrupts_is_not_called_complete(host: Start, tool: Tool) -> None:
    ascend = host()
    install(ascend, tool, "inference")
    done = run(ascend, "NPU_PROFILE=prof NPU_PROFILE_STEPS=40 NPU_PROFILE_PHASES=decode")
    assert done.returncode == 0
    assert "npu profile: decode ended after 14 steps of 41" in done.stderr


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("NPU_PROFILE_STEPS=0", "NPU_PROFILE_STEPS is '0': give a whole number from 1 on"),
        ("NPU_PROFILE_STEPS=many", "NPU_PROFILE_STEPS is 'many'"),
        ("NPU_PROFILE_LEVEL=9", "NPU_PROFILE_LEVEL is '9': give 0, 1 or 2"),
        ("NPU_PROFILE_METRICS=Pipes", "NPU_PROFILE_METRICS is 'Pipes': give a name of"),
    ],
)
def test_a_setting_that_means_nothing_ends_the_program(host: Start, tool: Tool, settings: str, said: str) -> None:
    ascend = host()
    install(ascend, tool, "training")
    done = run(ascend, f"NPU_PROFILE=prof {settings}")
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert not (ascend.workdir / "prof").exists()


def test_a_second_profiler_is_refused(host: Start, tool: Tool) -> None:
    ascend = host()
    install(ascend, tool, "rl")
    (ascend.workdir / "main.py").write_text(
        "from npu_profile import stage\nwith stage('rollout', 2), stage('train', 2):\n    pass\n"
    )
    done = run(ascend, "NPU_PROFILE=prof")
    assert done.returncode == 1
    assert "RuntimeError: rollout is being recorded: one profiler a process" in done.stderr


@pytest.mark.parametrize("version", sorted(pythons()))
def test_modules_are_for_every_python_of_a_host(tool: Tool, version: str, tmp_path: Path) -> None:
    for scene in SCENES:
        text = tool("template", "--for", scene).out
        (tmp_path / f"{scene}_profile.py").write_text(text)
        assert marker(scene) in text.splitlines()
    code = "; ".join(f"import {scene}_profile" for scene in SCENES)
    subprocess.run([pythons()[version], "-W", "error", "-c", code], cwd=tmp_path, check=True)


def test_json_has_the_module_and_its_marker(tool: Tool) -> None:
    document: dict[str, Any] = json.loads(tool("template", "--for", "rl", "--json").out)
    assert document == {"for": "rl", "marker": "# collect-remote wrapper: rl/1", "module": document["module"]}
    assert document["module"] == tool("template", "--for", "rl").out
