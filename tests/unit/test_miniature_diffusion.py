"""The miniatures of MindIE-SD and of a script that uses diffusers: what they do by themselves, with nobody's help."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkouts import checkout, on
from simhost import SimHost

Start = Callable[..., SimHost]
COUNTED = """
import runpy, sys
import torch
try:
    sys.path.insert(0, sys.argv[1].rpartition("/")[0])
    sys.argv[:] = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    print("graphs:", torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


@pytest.fixture
def host(simhost: Start) -> SimHost:
    return simhost(server="asyncssh")


def info(profile: Path) -> dict[str, Any]:
    (path,) = profile.glob("profiler_info*.json")
    config: dict[str, Any] = json.loads(path.read_text())["config"]
    return config


@pytest.mark.parametrize("model", ["wan", "flux"])
def test_a_dummy_run_writes_level_0_without_steps_or_cpu(host: SimHost, model: str) -> None:
    project = checkout(host, "mindie_sd")
    done = on(host, f"cd mindie_sd && python3 examples/dummy_run/{model}_infer.py --profile")
    assert done.returncode == 0, done.stderr
    assert "level=l1" in done.stdout
    assert "Stop profiler while current state is RECORD" in done.stdout
    (profile,) = project.glob("profile_l1/*_ascend_pt")
    config = info(profile)
    assert config["experimental_config"]["_profiler_level"] == "Level0"
    assert config["common_config"]["activities"] == ["ProfilerActivity.NPU"]
    assert not config["common_config"]["schedule"]


def test_a_dummy_run_profiles_only_when_asked(host: SimHost) -> None:
    project = checkout(host, "mindie_sd")
    done = on(host, "cd /tmp && python3 ~/mindie_sd/examples/dummy_run/wan_infer.py")
    assert done.returncode == 0, done.stderr
    assert list(project.rglob("*_ascend_pt")) == []


@pytest.mark.parametrize(
    ("command", "graphs"),
    [
        ("mindie_sd/examples/dummy_run/flux_infer.py", 0),
        ("mindie_sd/examples/dummy_run/flux_infer.py --compile", 1),
        ("mindie_sd/examples/dummy_run/flux_infer.py --compile --streaming", 2),
        ("diffusion/text_to_image.py", 0),
        ("diffusion/text_to_image.py --compile --steps 4", 4),
        ("diffusion/text_to_image.py --compile --images 2", 8),
    ],
)
def test_what_is_compiled_in_the_first_calls(host: SimHost, command: str, graphs: int) -> None:
    checkout(host, command.partition("/")[0])
    (host.home / "counted.py").write_text(COUNTED)
    done = on(host, f"python3 counted.py {command}")
    assert done.returncode == 0, done.stderr
    assert f"graphs: {graphs}\n" in done.stdout


def test_the_script_has_no_profiler_and_says_so_when_it_crashes(host: SimHost) -> None:
    project = checkout(host, "diffusion")
    done = on(host, "python3 diffusion/text_to_image.py --images 2 --steps 3")
    assert done.returncode == 0, done.stderr
    assert re.findall(r"picture \d", done.stdout) == ["picture 0", "picture 1"]
    assert "profiler" not in (project / "text_to_image.py").read_text().partition('"""\n')[2]
    done = on(host, "python3 diffusion/text_to_image.py --crash-after 3")
    assert done.returncode == 1
    assert "RuntimeError: the safety checker has no weights" in done.stderr
    assert list(host.home.rglob("*_ascend_pt")) == []
