"""What would stop a collection, as pure functions over the facts of a host."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import troubleshooting_page
from collect_agent.remedies import cann_error, find
from collect_agent.template import device_error
from collect_remote import checks
from collect_remote.checks import estimate
from collect_remote.checks.doctor import Report
from collect_remote.checks.estimate import MIB, Need
from collect_remote.cli import doctor_report
from collect_remote.errors import EnvironmentUnfit, StorageError
from collect_remote.inventory import ModelSpec
from collect_remote.request import Request, window
from collect_remote.survey.survey import Facts

FIT = Facts(
    python="/usr/bin/python3",
    python_version=(3, 11, 4),
    python_why="python3 on PATH",
    others=(),
    setup=("/usr/local/Ascend/ascend-toolkit/set_env.sh",),
    canns=(("8.5.0", "/usr/local/Ascend/ascend-toolkit/set_env.sh"),),
    greeting=(),
    workdir="/home/me/collect_remote",
    workdir_writable=True,
    free_bytes=1 << 40,
    free_inodes=1 << 20,
    file_system="ext4",
    output={"uid": 1000, "euid": 1000, "mode": 0o750, "failed": None, "sqlite": None, "blocked": None},
    agent_present=True,
    msprof="/a/bin/msprof",
    msprof_py="/a/msprof.py",
    path="/a/bin",
    visible_devices=None,
    cann="/usr/local/Ascend/ascend-toolkit/latest",
    cann_version="8.5.0",
    driver_version="25.5.0",
    versions={"torch": "2.9.0+cpu", "torch_npu": "2.9.0", "transformers": "5.24.0", "diffusers": None},
    models={"/m": None},
    npu={"npu_smi": None, "in_container": False},
    environment={},
)
MODEL = ModelSpec("m", "transformers", None, {"path": "/m"})


def found(need: Need = estimate.LEAST, model: ModelSpec | None = MODEL, **facts: Any) -> dict[str, checks.Check]:
    return {check.id: check for check in checks.of_host(dataclasses.replace(FIT, **facts), need, model)}


def output(**seen: Any) -> dict[str, Any]:
    assert FIT.output is not None
    return {**FIT.output, **seen}


def test_a_directory_in_the_way_is_not_for_want_of_space() -> None:
    check = found(output=output(blocked="/w/runs is not a directory"))["output-writable"]
    assert isinstance(check.error, EnvironmentUnfit)
    assert "/w/runs is not a directory" in check.message
    assert "space" not in check.remedy


@pytest.mark.parametrize("adapter", ["llama", "/home/me/my_model.py"])
def test_only_the_adapters_of_packages_need_them(adapter: str) -> None:
    versions = {**FIT.versions, "transformers": None}
    assert found(model=ModelSpec("m", adapter, None, {}), versions=versions)["model-package"].verdict == "ok"


def test_a_fit_host_passes_every_check() -> None:
    assert {check.verdict for check in found().values()} == {"ok"}
    checks.require(found().values())


@pytest.mark.parametrize(
    ("facts", "name", "verdict"),
    [
        ({"greeting": ("hello",)}, "login-noise", "warning"),
        ({"versions": {**FIT.versions, "torch_npu": None}}, "torch-npu", "failure"),
        ({"versions": {**FIT.versions, "torch": "2.8.0"}}, "torch-version", "failure"),
        ({"versions": {**FIT.versions, "torch": "2.9.1"}}, "torch-version", "warning"),
        ({"versions": {**FIT.versions, "torch": "unknown"}}, "torch-version", "ok"),
        ({"python_version": (3, 9, 0)}, "python-version", "warning"),
        ({"cann_version": "8.3.RC1"}, "cann-version", "warning"),
        ({"cann_version": None}, "cann-version", "ok"),
        ({"driver_version": "24.1.0"}, "driver-version", "warning"),
        ({"cann": None}, "cann", "warning"),
        ({"versions": {**FIT.versions, "transformers": None}}, "model-package", "failure"),
        ({"models": {}}, "model", "failure"),
        ({"msprof": None, "msprof_py": None}, "msprof", "failure"),
        ({"msprof_py": None}, "msprof", "failure"),
        ({"workdir": "/home/me/run 1"}, "output-path", "failure"),
        ({"workdir_writable": False, "output": None}, "output-writable", "failure"),
        ({"free_bytes": 255 * MIB}, "output-space", "failure"),
        ({"free_inodes": 100}, "output-inodes", "failure"),
        ({"free_inodes": None}, "output-inodes", "ok"),
        ({"output": output(failed="write a file: Input/output error")}, "output-files", "failure"),
        ({"output": output(uid=65534)}, "output-owner", "failure"),
        ({"output": output(uid=0)}, "output-owner", "ok"),
        ({"output": output(mode=0o770)}, "output-mode", "failure"),
        ({"output": output(mode=0o752)}, "output-mode", "failure"),
        ({"output": output(sqlite="database is locked")}, "output-database", "failure"),
        *(
            ({"file_system": kind}, "output-file-system", "warning")
            for kind in ("nfs4", "cifs", "lustre", "fuse.sshfs")
        ),
        *(({"file_system": kind}, "output-file-system", "ok") for kind in ("xfs", "overlay", "fuse.overlayfs", None)),
        ({"models": {"/m": "is not there"}}, "model", "failure"),
    ],
)
def test_what_is_not_fit(facts: dict[str, Any], name: str, verdict: str) -> None:
    told = found(**facts)
    assert told[name].verdict == verdict, told[name].message
    assert bool(told[name].remedy) == (verdict != "ok")
    others = {check.id for check in told.values() if check.verdict != "ok"} - {name}
    assert others == set(), "one cause, one check"
    if verdict == "failure":
        with pytest.raises(EnvironmentUnfit if "space" not in name and "inodes" not in name else StorageError):
            checks.require(told.values())
    else:
        checks.require(told.values())


def test_the_first_failure_ends_a_collection() -> None:
    told = found(free_bytes=0, output=output(failed="write a file: No space left on device"))
    with pytest.raises(StorageError, match="need at least 256 MiB, have 0 MiB"):
        checks.require(told.values())
    assert isinstance(told["output-files"].error, StorageError), "a full disk is told as that wherever it shows"


@pytest.mark.parametrize(
    ("asked", "need"),
    [
        ({}, Need(256 * MIB, 2000)),
        ({"steps": 99}, Need(20 * 101 * MIB, 2000)),
        ({"steps": 99, "device_count": 4}, Need(4 * 20 * 101 * MIB, 8000)),
        ({"steps": 99, "level": 0}, Need(20 * 101 * MIB // 2, 2000)),
        ({"steps": 99, "level": 2, "with_stack": True}, Need(20 * 101 * MIB * 8, 2000)),
        ({"steps": 99, "phase": "separate", "record_shapes": True}, Need(20 * 102 * MIB * 2, 4000)),
    ],
)
def test_the_room_that_a_run_needs(asked: dict[str, Any], need: Need) -> None:
    model = ModelSpec("m", "llama", None, {})
    request = Request(host="h", model="m", **asked)
    assert estimate.need(request, window(request, model)) == need


def test_the_page_knows_every_check() -> None:
    told = {*found(), "connect", "login", "first-output", "survey", "devices", "route", "import"}
    told |= {"container", "container-host-python", "container-workdir"}
    assert {subject.id for subject in troubleshooting_page.subjects()} == told


def test_the_report_is_as_bad_as_its_worst_check() -> None:
    report = Report("h", tuple(found(greeting=("hi",), free_bytes=0).values()), FIT)
    assert (report.verdict, report.exit_code) == ("failure", 8)
    assert (Report("h", tuple(found(greeting=("hi",)).values())).verdict) == "warning"
    lines = doctor_report.text([report]).splitlines()
    (space,) = [number for number, line in enumerate(lines) if " output-space " in line]
    assert lines[space].startswith("  failure  output-space ")
    assert lines[space + 1].strip().startswith("try: free some")
    assert lines[space + 2].strip() == "see: docs/troubleshooting.md#output-space"
    (entry,) = doctor_report.document([report])["hosts"]
    assert entry["environment"]["cann"]["found"] == [{"version": "8.5.0", "script": FIT.setup[0]}]


# --- what to do about an error ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("libhccl.so: cannot open shared object file", "toolkit"),
        ("libascendcl.so: cannot open shared object file", "toolkit"),
        ("libge_runner.so: cannot open shared object file", "toolkit"),
        ("libascend_hal.so: cannot open shared object file", "driver"),
        ("libdrvdsmi_host.so: cannot open shared object file", "driver"),
        ("libatb.so: cannot open shared object file", "nnal"),
        ("/x/libtorch_npu.so: undefined symbol: _ZN3c10", "do not fit together"),
        ("libstdc++.so.6: version `GLIBCXX_3.4.29' not found", "do not fit together"),
        (
            "/t/torch.libs/libgomp-804f19d4.so.1.0.0: cannot allocate memory in static TLS block",
            "LD_PRELOAD: /t/torch.libs/libgomp",
        ),
        ("No module named 'tbe.common'", "toolkit"),
        ("No module named 'decorator'", "same Python"),
        ("aclrtSetDevice failed, error code is 107001", "npu:0"),
    ],
)
def test_known_errors_have_their_remedy(text: str, what: str) -> None:
    told = find(text)
    assert told is not None
    assert what in told.remedy


@pytest.mark.parametrize("text", ["out of luck", "No module named 'mine'", "libmine.so: cannot open", ""])
def test_unknown_errors_have_none(text: str) -> None:
    assert find(text) is None


def test_canns_own_line_names_the_cause() -> None:
    text = (
        "NPU function error: aclrtSetDevice, error code is 507033\n[ERROR] ERR00100 PTA call acl api failed\n"
        "Failed to start the device.\nE30006: [PID: 1] The OPP package is not verified\n    TraceBack:\nEE1001: more\n"
    )
    assert cann_error(text.splitlines()) == "E30006: [PID: 1] The OPP package is not verified"
    told = device_error(text)
    assert told.startswith("NPU function error: aclrtSetDevice, error code is 507033; code 507033; E30006: ")
    assert "EE1001" not in told
    assert device_error("") == ""
