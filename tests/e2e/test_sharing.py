"""Nobody shares a device by accident: many collectors at once, strangers, containers, waiting."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Tool, gone, leases
from simhost import SimHost

Start = Callable[..., SimHost]
# Steps that are long beside what a busy machine adds to one.
STEADY = """
import time
import torch


def load(device, options):
    return torch.ones(4, 4).to(device)


def forward(state):
    time.sleep({step})
    return state @ state
"""
TINY = {"tiny": {"adapter": "llama", "layers": 1, "hidden": 32, "intermediate": 64, "heads": 2, "kv_heads": 1}}


def collisions(host: SimHost) -> list[Any]:
    """Every time that a process opened a device while another had it open, from the host's own log."""
    return [use for use in host.uses() if use.beside is not None]


def steady(tool: Tool, *hosts: SimHost, step: float = 0.1) -> None:
    (tool.directory / "steady.py").write_text(STEADY.format(step=step))
    tool.inventory(*hosts, models={"steady": {"adapter": "./steady.py"}})


def many(tool: Tool, count: int, *arguments: str, host: str = "ascend01") -> list[subprocess.Popen[str]]:
    return [tool.start("--host", host, "--model", "steady", "--json", *arguments) for _ in range(count)]


def results(running: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """What those of the collectors said that were not killed."""
    done = [process.communicate(timeout=400)[0] for process in running]
    return [json.loads(out) for process, out in zip(running, done, strict=True) if process.returncode >= 0]


def all_good(documents: list[dict[str, Any]]) -> None:
    assert [document["error"] for document in documents if "error" in document] == []
    assert {document["verdict"] for document in documents} == {"valid"}
    assert len({document["directory"] for document in documents}) == len(documents)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_forty_collectors_share_eight_devices(host: Start, tool: Tool, tmp_path: Path) -> None:
    ascend = host()
    steady(tool, ascend)
    documents = results(many(tool, 40, "--wait", "10m"))
    assert len(documents) == 40
    all_good(documents)
    assert {device["logic"] for d in documents for device in d["devices"]} == set(range(8)), "all devices were used"
    assert len(ascend.uses()) == 40
    assert collisions(ascend) == []
    assert leases(tmp_path) == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_controllers_killed_at_random_leave_no_lease(host: Start, tool: Tool, tmp_path: Path) -> None:
    ascend = host()
    steady(tool, ascend)
    random.seed(0)
    running = many(tool, 40, "--wait", "10m")
    for victim in random.sample(running, 10):
        time.sleep(random.uniform(0.2, 1.5))
        victim.kill()
    documents = results(running)
    assert len(documents) >= 30
    all_good(documents)
    assert collisions(ascend) == []
    # A run whose controller was killed goes on to its end, or ends by the orphan rule; its work here is short.
    assert gone(ascend.processes, patience_s=60)
    assert leases(tmp_path) == []


@pytest.mark.slow
@pytest.mark.exhaustive
def test_two_containers_of_one_host_share_its_devices(host: Start, tool: Tool, tmp_path: Path) -> None:
    shared = {"COLLECT_REMOTE_LEASE_DIR": str(tmp_path / "leases-shared")}
    machine = host("machine")
    # They see overlapping devices, and count them in their own ways.
    first, second = (
        host(name, container_of=machine, env=shared, visible=v)
        for name, v in (("box1", [0, 1, 2, 3, 4, 5]), ("box2", [2, 3, 4, 5, 6, 7]))
    )
    steady(tool, first, second)
    documents = results([p for box in ("box1", "box2") for p in many(tool, 20, "--wait", "10m", host=box)])
    assert len(documents) == 40
    all_good(documents)
    assert len(machine.uses()) == 40
    assert collisions(machine) == []


def test_waiting_ends_when_a_device_becomes_free(host: Start, tool: Tool) -> None:
    job = {"logic": 0, "pid": 4711, "name": "python", "mb": 20000}
    ascend = host(npus=1, processes=[job])
    steady(tool, ascend)
    (process,) = many(tool, 1, "--wait", "2m")
    assert process.stderr is not None
    assert any("waiting for a device: NPU 0 chip 0 (logic 0) busy: pid 4711 python" in line for line in process.stderr)
    ascend.set_state(processes=[])
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert json.loads(out)["verdict"] == "valid"


def test_waiting_in_vain_gives_every_reason(host: Start, tool: Tool) -> None:
    ascend = host(npus=1, processes=[{"logic": 0, "pid": 4711, "name": "python", "mb": 20000}])
    tool.inventory(ascend, models=TINY)
    outcome = tool.collect("--wait", "2s", model="tiny")
    assert outcome.status == 4
    assert "busy: pid 4711 python" in outcome.err
    assert "wait longer" in outcome.err


def test_a_wait_can_be_interrupted(host: Start, tool: Tool, assert_clean: Callable[..., None]) -> None:
    ascend = host(npus=1, processes=[{"logic": 0, "pid": 4711, "name": "python", "mb": 20000}])
    steady(tool, ascend)
    (process,) = many(tool, 1, "--wait", "10m")
    assert process.stderr is not None
    assert any("waiting for a device" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert_clean(ascend)


def intruded(tool: Tool, ascend: SimHost, *arguments: str, until: str = "profiling", phase: str = "") -> Any:
    """A collection during which a stranger's process appears on the device."""
    steady(tool, ascend, step=0.3)
    if phase:
        (tool.directory / "steady.py").write_text(STEADY.format(step=0.3) + "\n\nprefill = decode = forward\n")
        arguments += ("--phase", phase)
    (process,) = many(tool, 1, *arguments)
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "profiling" in line and until in line:
            ascend.set_state(processes=[{"logic": 0, "pid": 4711, "name": "python", "mb": 9000}])
            break
    out, err = process.communicate(timeout=120)
    return process.returncode, json.loads(out), said + err


def test_a_stranger_in_the_window_spoils_the_profile(host: Start, tool: Tool) -> None:
    status, document, err = intruded(tool, host(npus=1), "--salvage")
    assert status == 7, err
    assert "the device was shared during the run: pid 4711 python on NPU 0" in document["error"]["message"]
    assert "--allow-shared" in document["error"]["remedy"]
    # What was brought of it says so too, though the profile alone has no fault.
    (beside,) = tool.profiles.rglob("*.partial/manifest.json")
    manifest = json.loads(beside.read_text())
    assert manifest["verdict"] == "invalid"
    assert {check["verdict"] for part in manifest["profiles"] for check in part["checks"]} <= {"pass", "na", "warn"}


def test_a_shared_profile_can_be_accepted_and_stays_marked(host: Start, tool: Tool) -> None:
    status, document, err = intruded(tool, host(npus=1), "--allow-shared")
    assert status == 0, err
    manifest = json.loads((tool.directory / document["directory"] / "manifest.json").read_text())
    (check,) = [check for check in manifest["checks"] if check["id"] == "device-shared"]
    assert check["verdict"] == "warn"
    assert manifest["proof"]["presence"][-1]["strangers"][0]["pid"] == 4711


def test_a_lease_directory_that_cannot_be_used_is_named(host: Start, tool: Tool, tmp_path: Path) -> None:
    tool.inventory(host(npus=2), models=TINY)
    (tmp_path / "leases-ascend01").write_text("a file")
    outcome = tool.collect(model="tiny")
    assert outcome.status == 5
    assert "cannot be leased" in outcome.err
    assert "COLLECT_REMOTE_LEASE_DIR" in outcome.err


def test_host_and_container_never_get_the_same_device(host: Start, tool: Tool, tmp_path: Path) -> None:
    shared = {"COLLECT_REMOTE_LEASE_DIR": str(tmp_path / "leases-shared")}
    machine = host("machine", npus=2, env=shared)
    box = host("box", container_of=machine, visible=[1], env=shared)
    steady(tool, machine, box, step=0.3)
    running = many(tool, 1, "--device", "1", "--wait", "2m", host="machine")
    running += many(tool, 1, "--device", "logic:0", "--wait", "2m", host="box")
    done = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], done
    assert len(machine.uses()) == 2
    assert collisions(machine) == []


def test_the_proof_names_our_own_process(host: Start, tool: Tool) -> None:
    tool.inventory(host(), models=TINY)
    document = tool.collect("--phase", "decode", model="tiny").document
    proof = json.loads((tool.directory / document["directory"] / "manifest.json").read_text())["proof"]
    assert [moment["when"] for moment in proof["presence"]] == ["loaded", "recorded"]
    assert all(moment["own"] == [proof["pid"]] for moment in proof["presence"])
    assert all(moment["strangers"] == moment["elsewhere"] == [] for moment in proof["presence"])


def test_a_stranger_in_a_later_window_is_noticed_too(host: Start, tool: Tool) -> None:
    status, document, err = intruded(tool, host(npus=1), until="decode", phase="separate")
    assert status == 7, err
    assert "pid 4711 python on NPU 0" in document["error"]["message"]


def test_a_map_that_leads_to_another_device_is_found_out(host: Start, tool: Tool) -> None:
    """npu-smi's mapping swaps two devices: the process appears where nobody expected it, and nothing is published."""
    swapped = (
        "\tNPU ID                        Chip ID                       Chip Logic ID                 Chip Name\n"
        "\t0                             0                             1                             Ascend 910B3\n"
        "\t1                             0                             0                             Ascend 910B3\n"
    )
    tool.inventory(host(npus=2, npu_smi_text={"info -m": swapped}), models=TINY)
    outcome = tool.collect("--device", "0", model="tiny")
    assert outcome.status == 7, outcome.out
    assert "our process is on another device than it was given" in outcome.err


def test_several_devices_are_made_visible_in_ascending_order(host: Start, tool: Tool) -> None:
    tool.inventory(host(chip="Ascend910"), models=TINY)
    document = tool.collect("--phase", "decode", "--device", "3.1,logic:2", model="tiny").document
    assert [device["logic"] for device in document["devices"]] == [2, 7]
    manifest = json.loads((tool.directory / document["directory"] / "manifest.json").read_text())
    assert manifest["proof"]["count"] == 2


def test_two_devices_are_the_dies_of_one_card(host: Start, tool: Tool) -> None:
    tool.inventory(host(chip="Ascend910"), models=TINY)
    document = tool.collect("--phase", "decode", "--devices", "2", model="tiny").document
    assert len({device["npu"] for device in document["devices"]}) == 1
