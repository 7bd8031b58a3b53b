"""`collect-remote doctor`: everything that would stop a collection, in seconds, and nothing is changed."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Outcome, Tool, command_line, gone
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

VALUE = "s3cr3t-4711"

IDS = [
    *(
        "connect",
        "login",
        "first-output",
        "survey",
        "login-noise",
        "python",
        "torch-npu",
        "torch-version",
        "python-version",
        "cann-version",
    ),
    *("driver-version", "cann", "msprof", "output-path", "output-writable", "output-space", "output-inodes"),
    *("output-files", "output-owner", "output-mode", "output-database", "output-file-system", "devices", "import"),
]


def doctor(tool: Tool, *arguments: str) -> tuple[Outcome, dict[str, Any]]:
    """The outcome, and the entry of the only host."""
    outcome = tool("doctor", "--host", "ascend01", "--json", *arguments)
    (entry,) = outcome.document["hosts"]
    assert set(entry) == {"host", "verdict", "checks", "environment"}
    for check in entry["checks"]:
        assert set(check) - {"seconds"} == {"id", "verdict", "message", "remedy", "entry"}
        assert bool(check["remedy"]) is (check["verdict"] != "ok"), check
    return outcome, entry


def check(entry: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [check for check in entry["checks"] if check["id"] == name]
    return found  # type: ignore[no-any-return]


def snapshot(host: SimHost) -> dict[str, str]:
    """Every file of the host with its digest, but for what the server and npu-smi themselves write."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in sorted(host.root.rglob("*"))
        if not path.is_relative_to(host.dir) and not path.is_relative_to(host.root / "ssh")
    }


def test_a_fit_host(host: Start, tool: Tool, runtime: str, assert_clean: Clean) -> None:
    ascend = host(runtime=runtime)
    tool.inventory(ascend)
    before = snapshot(ascend)
    outcome, entry = doctor(tool)
    assert outcome.status == 0, outcome.out
    assert [check["id"] for check in entry["checks"]] == IDS
    assert {check["verdict"] for check in entry["checks"]} <= {"ok", "warning"}
    assert check(entry, "import")["seconds"] > 0
    assert entry["environment"]["python"] == f"{ascend.root}/bin/python3"
    assert entry["environment"]["variables"]["ASCEND_HOME_PATH"].startswith(f"{ascend.home}/Ascend")
    assert snapshot(ascend) == before
    assert_clean(ascend)


def test_it_is_one_line_a_check_with_the_remedy_under_it(host: Start, tool: Tool) -> None:
    ascend = host(msprof=False, login_noise="Welcome to \x1b[1mascend01\x1b[0m")
    tool.inventory(ascend)
    outcome = tool("doctor", "--host", "ascend01")
    assert outcome.status == 5
    lines = outcome.out.splitlines()
    assert lines[0] == "ascend01: failure"
    found = {
        line.split()[1]: number for number, line in enumerate(lines) if line.split()[0] in ("ok", "warning", "failure")
    }
    assert list(found) == IDS
    assert "Welcome to" in lines[found["login-noise"]]
    assert "\x1b" not in outcome.out
    assert lines[found["login-noise"] + 1].lstrip().startswith("try: ")
    assert lines[found["msprof"]].startswith("  failure  msprof")
    assert "set_env.sh under `setup`" in lines[found["msprof"] + 1]
    assert f"scripts: {ascend.home}/Ascend/ascend-toolkit/set_env.sh" in outcome.out
    assert "CANN 8.3.RC1" in outcome.out


UNFIT: dict[str, tuple[dict[str, Any], str, str, int]] = {
    "no-python": ({"python3": "missing"}, "survey", "there is no python3", 5),
    "old-python": ({"python3": "old"}, "survey", r"3\.6\.8", 5),
    "exit": ({"set_env_faults": ["exits"]}, "survey", "ended the shell", 5),
    "no-torch": ({"runtime": None}, "torch-npu", "has no torch", 5),
    "other-torch": ({"versions": {"torch": "2.6.0"}}, "torch-version", "built for torch 2.13.0, not 2.6.0", 5),
    "no-msprof": ({"set_env_faults": ["no-path"]}, "msprof", "not on PATH", 5),
    "no-msprof.py": ({"msprof_py": False}, "msprof", "no msprof.py", 5),
    "characters": ({"workdir": "run(1)@10:00"}, "output-path", r"rejects paths like .*'\(\):@'", 5),
    "busy": (
        {"npus": 1, "processes": [{"logic": 0, "pid": 4711, "name": "python", "mb": 4184}]},
        "devices",
        "pid 4711",
        4,
    ),
    "driver": ({"npu_smi_fails": [-8005]}, "devices", "-8005", 5),
    "no-npu-smi": ({"npu_smi": "nowhere"}, "devices", "npu-smi is not on PATH", 5),
    "library": ({"libraries": ["libatb.so"]}, "import", "cannot import torch_npu .*libatb.so", 5),
    "abort": ({"torch_npu_import": "aborts"}, "import", "killed by SIGABRT: EH9999: Inner Error", 5),
    "tls": ({"torch_npu_import": "static-tls"}, "import", "static TLS block", 5),
}


@pytest.mark.parametrize(("knobs", "name", "message", "status"), UNFIT.values(), ids=UNFIT)
def test_an_unfit_host_is_told_as_the_collection_would(
    host: Start, tool: Tool, assert_clean: Clean, knobs: dict[str, Any], name: str, message: str, status: int
) -> None:
    ascend = host(**knobs)
    tool.inventory(ascend)
    outcome, entry = doctor(tool)
    found = check(entry, name)
    assert (outcome.status, entry["verdict"], found["verdict"]) == (status, "failure", "failure")
    assert re_search(message, found["message"])
    collected = tool.collect()
    told = collected.document["error"]["message"]
    if "SIGABRT" in message:  # a process that dies in the import has died in a run
        assert (collected.status, re_search("killed by SIGABRT: EH9999: Inner Error!$", told)) == (6, True)
    else:
        assert (collected.status, re_search(message, told)) == (status, True)
    assert_clean(ascend)


def re_search(pattern: str, text: str) -> bool:

    assert re.search(pattern, text), text
    return True


@pytest.mark.parametrize(
    ("disk", "name", "message"),
    [
        ("squashed", "output-owner", "gives files to uid 65534, this session is uid 0"),
        ("open", "output-mode", r"others may write to \(mode 772 under umask 027\)"),
        ("no-rename", "output-files", "cannot use .*: rename a file: Input/output error"),
        ("no-locks", "output-database", "SQLite does not work in .*disk I/O error|lock"),
    ],
)
def test_a_disk_that_the_parser_refuses(
    host: Start, tool: Tool, assert_clean: Clean, disk: str, name: str, message: str
) -> None:
    ascend = mounted(host, disk=disk)
    tool.inventory(ascend)
    outcome, entry = doctor(tool)
    assert outcome.status == 5
    assert re_search(message, check(entry, name)["message"])
    collected = tool.collect()
    assert (collected.status, collected.document["error"]["message"]) == (5, check(entry, name)["message"])
    assert list(ascend.workdir.iterdir()) == [], "nothing was uploaded, and nothing stays behind"
    assert_clean(ascend)


@pytest.mark.parametrize(
    ("disk", "name", "message"),
    [
        ({"disk_mb": 8}, "output-space", r"need at least 256 MiB, have \d MiB"),
        ({"disk_mb": 400, "disk_inodes": 300}, "output-inodes", r"need at least 2000, have \d+"),
    ],
)
def test_a_disk_that_is_too_small(host: Start, tool: Tool, disk: dict[str, int], name: str, message: str) -> None:
    tool.inventory(mounted(host, **disk))
    outcome, entry = doctor(tool)
    assert outcome.status == 8
    assert re_search(message, check(entry, name)["message"])
    assert tool.collect().document["error"]["message"] == check(entry, name)["message"]


def test_more_steps_need_more_space(host: Start, tool: Tool) -> None:
    tool.inventory(mounted(host, disk_mb=600))
    assert tool.collect("--dry-run").status == 0
    outcome = tool.collect("--dry-run", "--steps", "20", "--level", "2")
    assert outcome.status == 8
    assert re_search("need at least 880 MiB", outcome.document["error"]["message"])


def mounted(host: Start, **disk: Any) -> SimHost:
    try:
        return host(**disk)
    except (PermissionError, FileNotFoundError) as error:
        pytest.skip(f"no file system of its own can be mounted: {error}")


def test_where_the_work_directory_is_not_there_yet_nothing_stays(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend, entries={"ascend01": {"workdir": str(ascend.workdir / "not" / "yet")}})
    outcome, entry = doctor(tool)
    assert (outcome.status, check(entry, "output-files")["verdict"]) == (0, "ok")
    assert list(ascend.workdir.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (None, "is not there"),
        ([], "is empty"),
        (["config.json", "model.safetensors -> ../blobs/gone"], "a link that leads nowhere: model.safetensors"),
        (["config.json"], ""),
    ],
)
def test_the_models_files(host: Start, tool: Tool, files: list[str] | None, message: str) -> None:
    ascend = host(versions={"transformers": "5.24.0"})
    path = ascend.root / "models" / "m"
    for name in files or []:
        name, _, target = name.partition(" -> ")
        path.mkdir(parents=True, exist_ok=True)
        if target:
            os.symlink(target, path / name)
        else:
            (path / name).write_text("{}")
    if files == []:
        path.mkdir(parents=True)
    tool.inventory(ascend, models={"m": {"adapter": "transformers", "path": str(path)}})
    outcome, entry = doctor(tool, "--model", "m")
    found = check(entry, "model")
    assert message in found["message"]
    assert (outcome.status, found["verdict"]) == ((5, "failure") if message else (0, "ok"))
    if message:
        collected = tool.collect(model="m")
        assert (collected.status, collected.document["error"]["message"]) == (5, found["message"])
        assert not (ascend.workdir / "agent").exists(), "nothing was uploaded"


def test_the_adapters_package(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend, models={"m": {"adapter": "transformers", "config": {"model_type": "llama"}}})
    outcome, entry = doctor(tool, "--model", "m")
    found = check(entry, "model-package")
    assert (outcome.status, found["verdict"]) == (5, "failure")
    collected = tool.collect(model="m")
    assert (collected.status, collected.document["error"]["message"]) == (5, found["message"])
    assert not (ascend.workdir / "agent").exists(), "nothing was uploaded"


@pytest.mark.parametrize("name", ["runs", "agent"])
def test_what_is_in_the_way_of_a_run(host: Start, tool: Tool, name: str) -> None:
    ascend = host()
    (ascend.workdir / name).write_text("")
    tool.inventory(ascend)
    outcome, entry = doctor(tool)
    found = check(entry, "output-writable")
    assert (outcome.status, found["verdict"]) == (5, "failure")
    assert f"{name} is not a directory" in found["message"]
    collected = tool.collect()
    assert (collected.status, collected.document["error"]["message"]) == (5, found["message"])
    assert [path.name for path in ascend.workdir.iterdir()] == [name]


def test_many_hosts_one_of_which_is_not_there(host: Start, tool: Tool) -> None:
    tool.inventory(host(), entries={"ascend02": {"address": "127.0.0.1", "port": 1}})
    outcome = tool("doctor", "--host", "ascend02,ascend01", "--json")
    assert outcome.status == 3
    gone_away, fit = outcome.document["hosts"]
    assert [(c["id"], c["verdict"]) for c in gone_away["checks"]] == [("connect", "failure")]
    assert "connection refused" in gone_away["checks"][0]["message"]
    assert gone_away["environment"] == {}
    assert fit["verdict"] != "failure"


def test_what_is_asked_wrongly_is_told_before_connecting(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    for arguments in ([], ["--host", "nobody"], ["--host", "ascend01", "--model", "none"]):
        outcome = tool("doctor", *arguments, "--json")
        assert outcome.status == 2, arguments
        assert outcome.document["error"]["kind"] == "UsageError"


def test_secrets_are_masked(host: Start, tool: Tool) -> None:
    tool.inventory(host(env={"HF_TOKEN": VALUE}), entries={"ascend01": {"env": {"PROXY": f"http://me:{VALUE}@proxy"}}})
    outcome, entry = doctor(tool)
    assert VALUE not in outcome.out + outcome.err
    assert entry["environment"]["variables"]["HF_TOKEN"] == "***"  # noqa: S105
    assert entry["environment"]["variables"]["PROXY"] == "http://***@proxy"


def test_an_import_that_hangs_goes_with_the_doctor(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host(torch_npu_import="hangs")
    tool.inventory(ascend)
    process = tool.start("doctor", "--host", "ascend01")
    until = time.monotonic() + 30
    while not any(b"import torch, torch_npu" in command_line(pid) for pid in ascend.processes()):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert gone(ascend.processes, patience_s=10)


def test_the_steps_of_the_login_and_their_times(host: Start, tool: Tool, client_home: Path) -> None:
    gate, ascend = host("gate"), host()
    (client_home / ".ssh" / "config").write_text(
        f"Host gate\n  HostName {gate.address}\n  Port {gate.port}\n  User {gate.user}\n"
        f"  IdentityFile {gate.identity_file}\n  UserKnownHostsFile {gate.known_hosts}\n"
    )
    tool.inventory(ascend, entries={"ascend01": {"jump": "gate"}})
    outcome, entry = doctor(tool)
    assert outcome.status == 0, outcome.out
    steps = [check(entry, name) for name in ("connect", "login", "first-output")]
    assert all(step["seconds"] > 0 for step in steps)
    assert "gate > " in steps[0]["message"]


def test_the_systems_ssh_tells_the_login_as_one(host: Start, tool: Tool) -> None:
    tool.inventory(host(), entries={"ascend01": {"transport": "openssh"}})
    outcome, entry = doctor(tool)
    assert (outcome.status, [found["id"] for found in entry["checks"]]) == (0, [n for n in IDS if n != "login"])


def test_a_refused_login_and_a_slow_one(host: Start, tool: Tool) -> None:
    ascend = host(accept_key=False)
    tool.inventory(ascend)
    outcome, entry = doctor(tool)
    assert (outcome.status, [(c["id"], c["verdict"]) for c in entry["checks"]]) == (3, [("login", "failure")])
    ascend.set_state(accept_key=True, rc="sleep 5.2\n")
    outcome, entry = doctor(tool)
    assert (outcome.status, check(entry, "first-output")["verdict"]) == (0, "warning")
