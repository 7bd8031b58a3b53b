"""The main job on the simulated host: what comes back, and what it proves."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Tool, ssh
from pythons import others
from simhost import SimHost

Start = Callable[..., SimHost]


def published(tool: Tool, document: dict[str, Any]) -> tuple[Path, dict[str, Any]]:
    directory = tool.directory / document["directory"]
    return directory, json.loads((directory / "manifest.json").read_text())


def members(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return [member.name for member in tar if member.isfile()]


def test_a_verified_profile_comes_back(host: Start, tool: Tool, runtime: str) -> None:
    ascend = host(runtime=runtime)
    tool.inventory(ascend)
    outcome = tool.collect("--steps", "6", "--warmup-steps", "3")
    assert outcome.status == 0, outcome.err
    directory, manifest = published(tool, outcome.document)

    # Where it stands, under a name that means "verified".
    assert directory.parent == tool.profiles / "ascend01" / "llama"
    assert (directory.parent / "latest").resolve() == directory.resolve()
    assert sorted(path.name for path in directory.iterdir()) == ["manifest.json", "profile_l1.tar.gz", "run.log"]
    assert not (tool.profiles / ".incoming").exists()

    # What is in it: the directory of torch_npu, unrenamed, below the phase.
    archive = directory / "profile_l1.tar.gz"
    names = members(archive)
    assert "profile_l1/manifest.json" in names
    output = {n.rpartition("/")[2] for n in names if "_ascend_pt/ASCEND_PROFILER_OUTPUT/" in n}
    assert output >= {
        "kernel_details.csv",
        "op_statistic.csv",
        "api_statistic.csv",
        "step_trace_time.csv",
        "operator_details.csv",
        "trace_view.json",
    }
    assert all(name.startswith(("profile_l1/both/", "profile_l1/manifest.json")) for name in names)
    assert not any("/PROF_" in name or "/FRAMEWORK/" in name for name in names)

    # What it proves.
    assert manifest["verdict"] == "valid"
    (profile,) = manifest["profiles"]
    assert (profile["level"], profile["metrics"]) == ("Level1", "PipeUtilization")
    assert manifest["expected"]["steps"] == {"both": 7}
    assert len(profile["steps"]) == 7
    window = manifest["phases"]["both"]
    assert window["step_kinds"] == ["prefill"] + ["decode"] * 6
    assert window["warmup_kinds"] == ["prefill"] * 3 + ["decode"] * 3
    assert all(seconds > 0 for seconds in window["warmup_seconds"] + window["step_seconds"])
    assert window["recompiles"] == 0
    assert manifest["proof"]["count"] == 1
    assert {"torch", "torch_npu", "cann", "python", "collect_remote", "agent"} <= set(manifest["versions"])
    assert manifest["versions"]["torch_npu"].startswith("2.13.0")
    stages = [stage["stage"] for stage in manifest["stages"]]
    assert stages == sorted(set(stages), key=stages.index), "every stage is entered once"
    assert {"connect", "survey", "warmup", "profile", "validate", "pack", "pull", "publish"} <= set(stages)
    content = archive.read_bytes()
    assert manifest["archive"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert manifest["archive"]["size"] == len(content)

    # Nothing stays on the host but the agent, and what CANN has compiled.
    assert list((ascend.workdir / "runs").iterdir()) == []
    assert {path.suffix or path.name for path in (ascend.workdir / "agent").iterdir()} <= {".pyz", "kernel_cache"}

    # And it is judged the same here, later.
    assert tool("validate", str(archive)).status == 0


@pytest.mark.parametrize(
    ("phase", "steps"),
    [
        ("prefill", {"prefill": 1}),
        ("decode", {"decode": 10}),
        ("both", {"both": 11}),
        ("separate", {"prefill": 1, "decode": 10}),
    ],
)
def test_every_phase_has_its_own_directory(host: Start, tool: Tool, phase: str, steps: dict[str, int]) -> None:
    tool.inventory(host())
    outcome = tool.collect("--phase", phase)
    assert outcome.status == 0, outcome.err
    directory, manifest = published(tool, outcome.document)
    assert {profile["phase"]: len(profile["steps"]) for profile in manifest["profiles"]} == steps
    found = {name.split("/")[1] for name in members(directory / "profile_l1.tar.gz") if "_ascend_pt/" in name}
    assert found == set(steps)


def test_the_agent_is_uploaded_once(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend)
    assert tool.collect().status == 0
    (agent,) = (ascend.workdir / "agent").glob("*.pyz")
    before = agent.stat()
    assert tool.collect().status == 0
    after = agent.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert len(list((tool.profiles / "ascend01" / "llama").glob("2*"))) == 2


def test_the_second_die_of_an_a3_card(host: Start, tool: Tool) -> None:
    tool.inventory(host(chip="Ascend910"))
    outcome = tool.collect("--device", "3.1")
    assert outcome.status == 0, outcome.err
    device = outcome.document["devices"][0]
    assert (device["npu"], device["chip"], device["logic"]) == (3, 1, 7)


def test_two_runs_at_once_get_two_devices(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    running = [tool.start("--host", "ascend01", "--model", "llama", "--json") for _ in range(2)]
    documents = [json.loads(process.communicate(timeout=120)[0]) for process in running]
    assert len({document["devices"][0]["logic"] for document in documents}) == 2
    assert len({document["directory"] for document in documents}) == 2


@pytest.mark.parametrize(
    ("options", "level", "metrics"),
    [
        (["--level", "0"], "Level0", "AiCoreNone"),
        (["--level", "2"], "Level2", "PipeUtilization"),
        (["--aic-metrics", "Memory"], "Level1", "Memory"),
        (["--with-stack", "--record-shapes", "--profile-memory"], "Level1", "PipeUtilization"),
        (["--export", "db"], "Level1", "PipeUtilization"),
    ],
    ids=["level-0", "level-2", "memory-metrics", "everything-recorded", "db"],
)
def test_profiler_options(host: Start, tool: Tool, options: list[str], level: str, metrics: str) -> None:
    tool.inventory(host())
    outcome = tool.collect(*options)
    assert outcome.status == 0, outcome.err
    _, manifest = published(tool, outcome.document)
    (profile,) = manifest["profiles"]
    assert (profile["level"], profile["metrics"]) == (level, metrics)


ADAPTER = """
import torch

def load(device, options):
    torch.manual_seed(0)
    return torch.nn.Linear(16, options["width"]).to(device), torch.ones(4, 16).to(device)

def forward(state):
    model, x = state
    return model(x)

def check(output):
    assert tuple(output.shape) == (4, 24), output.shape
"""


def test_a_users_own_adapter(host: Start, tool: Tool, runtime: str) -> None:
    (tool.directory / "mine.py").write_text(ADAPTER)
    tool.inventory(host(runtime=runtime), models={"mine": {"adapter": "./mine.py", "width": 24}})
    outcome = tool.collect(model="mine")
    assert outcome.status == 0, outcome.err
    assert outcome.document["phases"]["forward"]["step_kinds"] == ["forward"] * 5


def test_over_an_ssh_config_alias(host: Start, tool: Tool, client_home: Path, runtime: str) -> None:
    ascend = host(runtime=runtime)
    (client_home / ".ssh" / "config").write_text(
        f"Host npu\n  HostName {ascend.address}\n  Port {ascend.port}\n  User {ascend.user}\n"
        f"  IdentityFile {ascend.identity_file}\n  UserKnownHostsFile {ascend.known_hosts}\n"
    )
    tool.inventory(entries={"ascend01": {"address": "npu", "workdir": str(ascend.workdir)}})
    outcome = tool.collect("--phase", "separate")
    assert outcome.status == 0, outcome.err


def test_through_a_jump_host(host: Start, tool: Tool, client_home: Path, runtime: str) -> None:
    gate, ascend = host("gate"), host(runtime=runtime)
    (client_home / ".ssh" / "config").write_text(
        f"Host gate\n  HostName {gate.address}\n  Port {gate.port}\n  User {gate.user}\n"
        f"  IdentityFile {gate.identity_file}\n  UserKnownHostsFile {gate.known_hosts}\n"
    )
    tool.inventory(ascend, entries={"ascend01": {"jump": "gate"}})
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err
    assert gate.processes() == [], "nothing runs on the gate"


def test_login_noise_does_no_harm(host: Start, tool: Tool) -> None:
    tool.inventory(host(login_noise="Welcome!\n\x1b[33m*** 3 updates ***\x1b[0m no newline at the end"))
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err


def test_a_group_writable_umask_does_no_harm(host: Start, tool: Tool, runtime: str) -> None:
    tool.inventory(host(runtime=runtime, umask=0o002))
    outcome = tool.collect("--phase", "prefill")
    assert outcome.status == 0, outcome.err


def test_without_openssh_on_the_host(host: Start, tool: Tool) -> None:
    tool.inventory(host(server="asyncssh"))
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err


@pytest.mark.parametrize("version", others().keys())
def test_the_hosts_python_may_be_older_or_newer(host: Start, tool: Tool, version: str) -> None:
    tool.inventory(host(python=others()[version]))
    outcome = tool.collect("--phase", "separate")
    assert outcome.status == 0, outcome.err
    assert outcome.document["versions"]["python"].startswith(version + ".")


def test_a_preset_choice_of_devices_is_respected(host: Start, tool: Tool) -> None:
    tool.inventory(host(env={"ASCEND_RT_VISIBLE_DEVICES": "2,3"}))
    assert tool.collect().document["devices"][0]["logic"] in (2, 3)


def test_out_names_the_result_directory(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    outcome = tool.collect("--out", "results/first")
    assert outcome.status == 0, outcome.err
    assert (tool.directory / "results" / "first" / "profile_l1.tar.gz").is_file()
    assert not tool.profiles.exists()
    assert sorted(path.name for path in (tool.directory / "results").iterdir()) == ["first"]


def test_a_dry_run_changes_nothing(host: Start, tool: Tool, assert_clean: Callable[..., None]) -> None:
    ascend = host()
    tool.inventory(ascend)
    outcome = tool.collect("--dry-run")
    assert outcome.status == 0, outcome.err
    assert outcome.document["plan"]["route"] == "template"
    assert outcome.document["agent"]["upload"] is True
    assert list(ascend.workdir.iterdir()) == []
    assert_clean(ascend)


def test_devices_tells_why_a_device_is_not_free(host: Start, tool: Tool) -> None:
    tool.inventory(
        host(
            devices={1: {"health": "Alarm"}, 2: {"used_mb": 51200}},
            processes=[{"logic": 0, "pid": 4711, "name": "python3.8", "mb": 17400}],
        )
    )
    outcome = tool("devices", "--host", "ascend01", "--json")
    (answer,) = outcome.document["hosts"]
    assert (answer["host"], answer["error"]) == ("ascend01", None)
    reasons = {device["logic_id"]: device["why"] for device in answer["devices"]}
    assert reasons[0].startswith("busy: pid 4711 python3.8")
    assert reasons[1] == "unhealthy: Alarm"
    assert reasons[2].startswith("busy: 51.2 GB used and no visible process")
    assert [device["logic_id"] for device in answer["devices"] if device["free"]] == [3, 4, 5, 6, 7]
    assert tool.collect().document["devices"][0]["logic"] >= 3


@pytest.mark.parametrize("phase", ["prefill", "decode", "both", "forward"])
def test_the_printed_template_runs_in_every_phase(host: Start, tool: Tool, phase: str) -> None:
    ascend = host()
    done = ssh(ascend, "exec python3 -", tool("template", "--phase", phase).out)
    assert done.returncode == 0, done.stderr
    assert [path.parent.name for path in ascend.workdir.glob("profile_l1/*/*_ascend_pt")] == [phase]


def test_the_template_runs_alone_on_a_host(host: Start, tool: Tool, runtime: str) -> None:
    ascend = host(runtime=runtime)
    script = tool("template", "--phase", "separate").out
    done = ssh(ascend, "exec python3 -", script)
    assert done.returncode == 0, done.stderr
    found = sorted(path.parent.name for path in ascend.workdir.glob("profile_l1/*/*_ascend_pt"))
    assert found == ["decode", "prefill"]
    verdicts = tool("validate", str(ascend.workdir / "profile_l1"), "--json").document
    assert verdicts["verdict"] == "unproven", "only the warm-up cannot be proved without a manifest"


def test_json_is_the_only_thing_on_stdout(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    outcome = tool.collect()
    assert set(json.loads(outcome.out)) >= {"directory", "archive", "devices", "phases", "stages", "verdict"}
    assert "profiling" in outcome.err


def test_help_needs_nothing_heavy() -> None:
    code = (
        "import sys; from collect_remote.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('paramiko', 'yaml', 'tqdm') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
