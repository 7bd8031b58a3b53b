"""Collections inside containers of a host: `container` in the inventory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from boxes import box, inside, manifest, nothing_left, steady
from harness import Tool, one_error
from pythons import pythons
from simhost import SimHost

Start = Callable[..., SimHost]


@pytest.fixture
def ascend(host: Start) -> SimHost:
    return host(container_engine="docker")


# --- a profile --------------------------------------------------------------------------------------------------------


def test_a_profile_from_a_container(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    container = box(ascend, visible=[2, 5])
    inside(tool, ascend)
    outcome = tool.collect("--phase", "separate")
    assert outcome.status == 0, outcome.err
    assert "looking at the host: in the container vllm: /opt/python/bin/python3" in outcome.err
    (device,) = outcome.document["devices"]
    assert (device["label"], device["logic"], device["inside"]) == ("NPU 5 chip 0 (logic 5)", 5, 1)
    assert [(use.logic, use.beside) for use in ascend.uses()] == [(5, None)]
    found = manifest(tool, outcome)
    assert found["container"] == outcome.document["container"]
    assert found["container"] == {
        "runtime": "docker", "name": "vllm", "id": container.id[:12], "image": container.image, "user": "root",
    }  # fmt: skip
    # Who is on the device was seen on the host: by its numbers.
    assert [moment["own"] for moment in found["proof"]["presence"]] == [[ascend.uses()[0].pid]] * 3
    nothing_left(ascend, tmp_path)


@pytest.mark.torch_npu
def test_the_real_torch_npu_in_a_container(ascend: SimHost, tool: Tool, tmp_path: Path, ascend_runtime: str) -> None:
    box(ascend, visible=[3], runtime=ascend_runtime)
    inside(tool, ascend)
    outcome = tool.collect("--phase", "decode", timeout=300)
    assert outcome.status == 0, outcome.err
    assert [use.logic for use in ascend.uses()] == [3]
    nothing_left(ascend, tmp_path)


@pytest.mark.parametrize(
    ("chip", "visible", "wanted"),
    [("910B3", [1, 6], 6), ("Ascend910", [4, 5, 11], 11), ("310P3", [1], 1), ("Ascend950PR", [2, 3], 3)],
)
@pytest.mark.parametrize("npu_smi", ["path", "nowhere"])
def test_devices_are_found_by_the_containers_own_numbers(
    host: Start, tool: Tool, chip: str, visible: list[int], wanted: int, npu_smi: str
) -> None:
    """By the bus address where npu-smi works inside, else by the device files that the container has."""
    ascend = host(chip=chip, container_engine="docker")
    box(ascend, visible=visible, npu_smi=npu_smi)
    inside(tool, ascend)
    outcome = tool.collect("--phase", "prefill", "--device", f"logic:{wanted}")
    assert outcome.status == 0, outcome.err
    assert [use.logic for use in ascend.uses()] == [wanted]


def test_a_preset_choice_of_the_container_counts_by_its_own_numbers(ascend: SimHost, tool: Tool) -> None:
    box(ascend, visible=[2, 5, 6], env={"ASCEND_RT_VISIBLE_DEVICES": "1"})
    inside(tool, ascend)
    told = {device["logic_id"]: device["why"] for device in devices(tool)}
    assert told[5].startswith("free")
    assert "not allowed: logic id 2 of the container" in told[6]
    assert told[0] == "not in the container vllm"
    assert tool.collect("--phase", "prefill").status == 0
    assert [use.logic for use in ascend.uses()] == [5]
    error = one_error(
        tool.collect("--wait", "1h", "--device", "3"), 4, message="not in the container", remedy="no waiting"
    )
    assert "--device /dev/davinciN" in error["remedy"]


def devices(tool: Tool) -> list[dict[str, Any]]:
    outcome = tool("devices", "--host", "ascend01", "--json")
    assert outcome.status == 0, outcome.err
    (answer,) = outcome.document["hosts"]
    found: list[dict[str, Any]] = answer["devices"]
    return found


def test_who_is_on_a_device_is_seen_on_the_host(ascend: SimHost, tool: Tool) -> None:
    """Another container's job: inside one sees no row of it."""
    box(ascend, visible=[2, 5])
    other = box(ascend, "other")
    other.set_state(processes=[{"logic": 5, "pid": 4711, "name": "python", "mb": 20000}])
    inside(tool, ascend)
    assert [device["why"] for device in devices(tool) if device["logic_id"] == 5] == ["busy: pid 4711 python, 20.0 GB"]
    assert tool.collect("--phase", "prefill").status == 0
    assert [use.logic for use in ascend.uses()] == [2]


def test_a_stranger_in_the_window_is_seen_from_the_host(ascend: SimHost, tool: Tool) -> None:
    box(ascend, visible=[2])
    steady(tool, ascend, step=0.3)
    process = tool.start("--host", "ascend01", "--model", "steady", "--json")
    assert process.stderr is not None
    assert any("profiling" in line for line in process.stderr)
    ascend.set_state(processes=[{"logic": 2, "pid": 4711, "name": "python", "mb": 9000}])
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 7
    assert "shared during the run: pid 4711 python on NPU 2" in json.loads(out)["error"]["message"]


# --- which container --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["docker", "podman", "nerdctl"])
@pytest.mark.parametrize("how", ["name", "id", "prefix", "label"])
def test_every_engine_and_every_way_to_name_a_container(host: Start, tool: Tool, engine: str, how: str) -> None:
    ascend = host(container_engine=engine)
    container = box(ascend, labels={"team": "llm", "role": "serve"})
    box(ascend, "stopped", labels={"team": "llm"}, running=False)
    box(ascend, "other", labels={"team": "vision"})
    name = {"name": "vllm", "id": container.id, "prefix": container.id[:8], "label": "label:team=llm"}[how]
    inside(tool, ascend, name)
    outcome = tool.collect("--phase", "prefill")
    assert outcome.status == 0, outcome.err
    assert (outcome.document["container"]["name"], outcome.document["container"]["runtime"]) == ("vllm", engine)


@pytest.mark.parametrize(
    ("keys", "message", "remedy"),
    [
        ({"container": "nope"}, "there is no container nope on the host", "docker has: vllm, two, stopped"),
        ({"container": "label:a=z"}, "no container with the label a=z", "docker has: "),
        ({"container": "label:a=b"}, "2 containers have the label a=b: vllm, two", "name one of them"),
        ({"container": "stopped"}, r"the container stopped is not running \(created\)", "`docker start stopped`"),
        ({"container": "label:c=d"}, "the container stopped is not running", "`docker start stopped`"),
        ({"container_runtime": "podman"}, "there is no podman on the host", "container_runtime"),
        (
            {"container_user": "who"},
            "docker cannot be that user in the container vllm: unable to find user who",
            "container_user",
        ),
        ({"python": "/no/python3"}, "there is no /no/python3 in the container", "`python: "),
        ({"setup": "/no/set_env.sh"}, "cannot read /no/set_env.sh in the container", "correct the path"),
    ],
)
def test_what_cannot_be_entered(
    ascend: SimHost, tool: Tool, tmp_path: Path, keys: dict[str, Any], message: str, remedy: str
) -> None:
    box(ascend, labels={"a": "b"})
    box(ascend, "two", labels={"a": "b"})
    box(ascend, "stopped", labels={"c": "d"}, running=False)
    inside(tool, ascend, **keys)
    one_error(tool.collect(), 5, message=message, remedy=remedy)
    nothing_left(ascend, tmp_path)
    assert tool("doctor", "--host", "ascend01").status == 5


@pytest.mark.parametrize(
    ("knobs", "message", "remedy"),
    [
        ({"container_daemon": "denied"}, "may not use docker on the host", "usermod -aG docker"),
        ({"container_daemon": "down"}, "docker does not answer on the host", "systemctl start docker"),
        ({"container_engine": None}, "no docker or podman or nerdctl on the host's PATH", "container_runtime"),
        ({"python3": "missing"}, "no python3 on the host itself", r"install Python 3\.8"),
    ],
)
def test_an_engine_or_host_that_does_not_serve(
    ascend: SimHost, tool: Tool, tmp_path: Path, knobs: dict[str, Any], message: str, remedy: str
) -> None:
    box(ascend)
    ascend.set_state(**knobs)
    inside(tool, ascend)
    one_error(tool.collect(), 5, message=message, remedy=remedy)
    nothing_left(ascend, tmp_path)


def test_an_old_python_on_the_host_looks_but_does_not_lease(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    box(ascend)
    ascend.set_state(python3="old")
    inside(tool, ascend)
    one_error(tool.collect(), 5, message=r"it says 'Python 3\.6\.8'", remedy=r"Python 3\.8 or newer there")
    nothing_left(ascend, tmp_path)


def test_no_bash_and_no_python_inside(ascend: SimHost, tool: Tool, tmp_path: Path) -> None:
    container = box(ascend, python3="missing")
    inside(tool, ascend)
    one_error(tool.collect(), 5, message="there is no python3 in the container", remedy="`python: ")
    (container.folder / "image" / "usr-bin" / "bash").unlink()
    one_error(tool.collect(), 5, message="there is no bash in the container vllm", remedy="install bash")
    nothing_left(ascend, tmp_path)


@pytest.mark.parametrize("shell", ["dash", "csh", "fish"])
def test_any_login_shell_leads_to_the_container(host: Start, tool: Tool, shell: str) -> None:
    try:
        ascend = host(container_engine="docker", login_shell=shell)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    box(ascend)
    inside(tool, ascend)
    assert tool.collect("--phase", "prefill").status == 0


def test_the_oldest_python_on_both_sides(host: Start, tool: Tool, tmp_path: Path) -> None:
    if "3.8" not in pythons():
        pytest.skip("no Python 3.8 on this machine")
    ascend = host(container_engine="docker", python=pythons()["3.8"])
    box(ascend, python=pythons()["3.8"])
    inside(tool, ascend)
    outcome = tool.collect("--phase", "prefill")
    assert outcome.status == 0, outcome.err
    nothing_left(ascend, tmp_path)
