"""Everything that can be wrong: one clear error, its exit code, and nothing left anywhere."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import LLAMA, Outcome, Tool
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]


def one_error(outcome: Outcome, status: int, *, message: str, remedy: str) -> dict[str, Any]:
    """The contract: one line what is wrong, one line what to do, the same in --json, no traceback."""
    assert outcome.status == status, outcome.err
    lines = outcome.err.splitlines()
    (said,) = [line for line in lines if line.startswith("error: ")]
    assert re.search(message, said), said
    assert re.search(remedy, lines[lines.index(said) + 1]), lines[-1]
    assert "Traceback" not in said
    error = outcome.document["error"]
    assert set(error) == {"kind", "message", "remedy", "stage", "host"}
    assert re.search(message, error["message"])
    return error  # type: ignore[no-any-return]


# --- the command line and the inventory -------------------------------------------------------------------------------


def test_unknown_host(tool: Tool, assert_clean: Clean) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1"}})
    one_error(tool.collect(host="ascnd01"), 2, message="ascnd01", remedy="ascend01")
    assert_clean()


def test_unknown_model(tool: Tool, assert_clean: Clean) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1"}})
    one_error(tool.collect(model="lama"), 2, message="lama", remedy="llama")
    assert_clean()


def test_no_inventory(tool: Tool) -> None:
    one_error(tool.collect(), 2, message=r"inventory\.yaml", remedy=".")


def test_broken_yaml_names_line_and_column(tool: Tool) -> None:
    (tool.directory / "inventory.yaml").write_text("all:\n  hosts:\n    ascend01: {address: [}\n")
    one_error(tool.collect(), 2, message=r"inventory\.yaml:3:\d+", remedy=".")


def test_an_unknown_key_comes_with_a_suggestion(tool: Tool) -> None:
    tool.inventory(entries={"ascend01": {"adress": "127.0.0.1"}})
    one_error(tool.collect(), 2, message=r"inventory\.yaml:\d+:\d+.*adress", remedy="address")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "3"], "3 steps are too few"),
        (["--steps", "many"], "many"),
        (["--warmup-steps", "0"], "warmup-steps 0"),
        (["--phase", "forward"], "no forward"),
        (["--phase", "train"], "train"),
        (["--level", "7"], "7"),
        (["--aic-metrics", "Pipes"], "Pipes"),
        (["--timeout", "soon"], "soon"),
        (["--no-such-option"], "no-such-option"),
        (["--device", "npu3"], "'npu3' does not name a device"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_are_refused_before_connecting(tool: Tool, arguments: list[str], message: str) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}})
    one_error(tool.collect(*arguments), 2, message=message, remedy=".")


def test_an_existing_output_directory_is_never_touched(tool: Tool) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}})
    (tool.directory / "old").mkdir()
    (tool.directory / "old" / "precious").write_text("keep")
    one_error(tool.collect("--out", "old"), 2, message="old exists already", remedy="does not exist")
    assert (tool.directory / "old" / "precious").read_text() == "keep"


def test_an_adapter_with_a_syntax_error(tool: Tool) -> None:
    (tool.directory / "mine.py").write_text("def load(device, options)\n    pass\n")
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}}, models={"mine": {"adapter": "./mine.py"}})
    one_error(tool.collect(model="mine"), 2, message=r"mine\.py.*line 1|mine\.py", remedy="mend")


# --- the connection ---------------------------------------------------------------------------------------------------


def test_unreachable_host(tool: Tool, assert_clean: Clean) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}})
    one_error(tool.collect(), 3, message="connection refused", remedy="port")
    assert_clean()


def test_a_name_that_does_not_resolve(tool: Tool) -> None:
    tool.inventory(entries={"ascend01": {"address": "no-such-host.invalid"}})
    one_error(tool.collect(), 3, message="does not resolve", remedy="address")


def test_refused_key(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host(accept_key=False)
    tool.inventory(ascend)
    one_error(tool.collect(), 3, message="refused the login.*id_ed25519", remedy="ssh -p")
    assert_clean(ascend)


def test_changed_host_key_names_file_and_line(host: Start, tool: Tool, client_home: Path, assert_clean: Clean) -> None:
    ascend = host(announce_own_key=False)
    known = client_home / ".ssh" / "known_hosts"
    known.write_text("# ours\n" + ascend.known_hosts.read_text())
    tool.inventory(entries={"ascend01": {**ascend.inventory_entry(), "host_key": None}})
    tool_inventory = tool.directory / "inventory.yaml"
    tool_inventory.write_text(tool_inventory.read_text().replace("host_key: null", "x_unused: 1"))
    one_error(tool.collect(), 3, message=r"shows the host key .*known_hosts:2 says", remedy="ssh-keygen -R")
    assert_clean(ascend)


def test_changed_pinned_host_key(host: Start, tool: Tool) -> None:
    tool.inventory(host(announce_own_key=False))
    one_error(tool.collect(), 3, message="host_key in the inventory says", remedy="pin the new key")


def test_unknown_host_key_is_refused_with_its_fingerprint(host: Start, tool: Tool) -> None:
    ascend = host()
    entry = {key: value for key, value in ascend.inventory_entry().items() if key != "host_key"}
    tool.inventory(entries={"ascend01": entry})
    one_error(tool.collect(), 3, message="not a known host.*SHA256:", remedy="host_key")


def test_an_identity_file_that_is_no_key(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend, entries={"ascend01": {"identity_file": "no_such_key"}})
    one_error(tool.collect(), 3, message="identity_file .*no_such_key cannot be read", remedy="identity_file")


def test_a_proxy_command_that_works_and_one_that_does_not(host: Start, tool: Tool, client_home: Path) -> None:
    ascend = host()
    carry = "import socket,sys,threading,os\ns=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
    carry += "def up():\n while d:=os.read(0,65536): s.sendall(d)\n s.shutdown(1)\n"
    carry += "threading.Thread(target=up,daemon=True).start()\nwhile d:=s.recv(65536): os.write(1,d)\n"
    (client_home / "carry.py").write_text(carry)
    tool.inventory(ascend)
    config = client_home / ".ssh" / "config"
    config.write_text(f"Host 127.0.0.1\n    ProxyCommand {sys.executable} {client_home}/carry.py %h %p\n")
    outcome = tool.collect("--dry-run")
    assert outcome.status == 0, outcome.err
    config.write_text("Host 127.0.0.1\n    ProxyCommand echo no way out >&2; exit 1\n")
    one_error(tool.collect(), 3, message="ProxyCommand brings no connection: no way out", remedy="try it: echo")


# --- the host's environment -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "message", "remedy"),
    [
        ({"python3": "missing"}, "no python3", "python"),
        ({"python3": "old"}, r"3\.6\.8", r"3\.8 or newer"),
        ({"runtime": None}, "has no torch and torch_npu", "python"),
        ({"msprof": False}, "msprof is not on PATH", "setup"),
        ({"set_env": False}, "msprof is not on PATH.*no set_env.sh was found", "setup"),
        ({"npu_smi": "nowhere"}, "npu-smi is not on PATH", "driver"),
        (
            {"npu_smi_text": "dcmi module initialize failed. ret is -8005\n", "npu_smi_status": 187},
            "-8005",
            "HwHiAiUser",
        ),
        ({"npu_smi_text": "something else entirely\n"}, "something else entirely", "npu-smi info"),
    ],
    ids=[
        "no-python",
        "old-python",
        "no-torch_npu",
        "no-msprof",
        "no-set_env",
        "no-npu-smi",
        "npu-smi-8005",
        "unknown-table",
    ],
)
def test_an_unfit_host(
    host: Start, tool: Tool, assert_clean: Clean, knobs: dict[str, Any], message: str, remedy: str
) -> None:
    ascend = host(**knobs)
    tool.inventory(ascend)
    one_error(tool.collect(), 5, message=message, remedy=remedy)
    assert not (ascend.workdir / "agent").exists(), "nothing was uploaded"
    assert_clean(ascend)


def test_setup_that_is_not_there(host: Start, tool: Tool) -> None:
    tool.inventory(host(), entries={"ascend01": {"setup": ["/opt/nowhere/set_env.sh"]}})
    one_error(tool.collect(), 5, message="/opt/nowhere/set_env.sh", remedy="path")


def test_a_setup_script_that_ends_the_shell(host: Start, tool: Tool) -> None:
    ascend = host()
    (ascend.home / "my_env.sh").write_text("exit 3\n")
    tool.inventory(ascend, entries={"ascend01": {"setup": ["~/my_env.sh"]}})
    one_error(tool.collect(), 5, message=f"{ascend.home}/my_env.sh ended the shell", remedy="must not call exit")


def test_paths_on_the_host_may_begin_at_home(host: Start, tool: Tool) -> None:
    ascend = host()
    (ascend.home / "python").write_text('#!/bin/sh\nexec python3 "$@"\n')
    (ascend.home / "python").chmod(0o755)
    setup = ["~/Ascend/ascend-toolkit/set_env.sh"]
    tool.inventory(ascend, entries={"ascend01": {"setup": setup, "python": "~/python"}})
    outcome = tool.collect("--dry-run")
    assert outcome.status == 0, outcome.err
    facts = outcome.document["facts"]
    assert facts["python"] == f"{ascend.home}/python"
    assert facts["setup"] == [f"{ascend.home}/Ascend/ascend-toolkit/set_env.sh"]


@pytest.mark.parametrize(
    ("said", "status", "message", "remedy"),
    [
        ("bash: cannot create temp file for here-document: No space left on device", 8, "a disk of the host", "/tmp"),
        ("ImportError: libz.so.1: cannot open shared object file", 5, "survey failed .*libz.so.1", "python"),
    ],
    ids=["full", "broken"],
)
def test_a_survey_that_breaks_off(host: Start, tool: Tool, said: str, status: int, message: str, remedy: str) -> None:
    ascend = host()
    (ascend.home / "python").write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] && echo Python 3.11.4 && exit\necho '{said}' >&2; exit 1\n"
    )
    (ascend.home / "python").chmod(0o755)
    tool.inventory(ascend, entries={"ascend01": {"python": "~/python"}})
    one_error(tool.collect(), status, message=message, remedy=remedy)


def test_a_login_script_that_prints_our_output(host: Start, tool: Tool) -> None:
    ascend = host(login_noise="::collect-remote:: facts of life\n::collect-remote:: other words\n")
    tool.inventory(ascend)
    outcome = tool.collect("--dry-run")
    assert outcome.status == 0, outcome.err


def test_a_damaged_agent_is_sent_again(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend)
    (ascend.workdir / "agent").mkdir()
    name = tool.collect("--dry-run").document["agent"]["name"]
    (ascend.workdir / "agent" / name).write_bytes(b"")
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err
    assert tool.collect("--dry-run").document["agent"] == {"name": name, "upload": False}


def test_a_workdir_that_the_profiler_would_reject(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend, entries={"ascend01": {"workdir": str(ascend.workdir / "bs=8@v1")}})
    one_error(tool.collect(), 5, message="rejects paths like .*bs=8@v1", remedy="workdir")


def test_no_free_npu_gives_every_reason(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host(
        npus=2, processes=[{"logic": 0, "pid": 4711, "name": "python", "mb": 4184}], devices={1: {"used_mb": 30000}}
    )
    tool.inventory(ascend)
    one_error(tool.collect(), 4, message="NPU 0.*pid 4711 python.*NPU 1.*no visible process", remedy="wait")
    assert_clean(ascend)


def test_the_device_asked_for_is_busy(host: Start, tool: Tool) -> None:
    tool.inventory(host(processes=[{"logic": 3, "pid": 4711, "name": "python", "mb": 4184}]))
    one_error(tool.collect("--device", "3"), 4, message="NPU 3.*pid 4711", remedy="free at the moment")


def test_a_device_that_does_not_exist(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    one_error(tool.collect("--device", "16"), 2, message="16", remedy="NPU 7")


# --- the run ----------------------------------------------------------------------------------------------------------

ADAPTER = """
import os, sys, time
import torch

def load(device, options):
    return torch.ones(4, 4).to(device)

calls = []

def forward(state):
    calls.append(1)
    if len(calls) == {at}:
        {what}
    return state @ state
"""
RAISES = "raise RuntimeError('out of luck')"
HANGS = "print('here it hangs', flush=True); time.sleep(600)"
DIES = "os.kill(os.getpid(), 6)"
EXITS = "os._exit(0)"
IGNORES = "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
FORKS = (
    "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True); raise RuntimeError('left a child')"
)


def faulty(tool: Tool, host: SimHost, what: str, at: int = 1) -> None:
    (tool.directory / "faulty.py").write_text(ADAPTER.format(what=what, at=at))
    tool.inventory(host, models={"faulty": {"adapter": "./faulty.py"}})


@pytest.mark.parametrize("at", [1, 2, 5], ids=["precheck", "warm-up", "window"])
def test_a_model_that_raises(host: Start, tool: Tool, assert_clean: Clean, at: int) -> None:
    ascend = host()
    faulty(tool, ascend, RAISES, at)
    outcome = tool.collect(model="faulty")
    one_error(outcome, 6, message=r"the model raised RuntimeError: out of luck \(adapter.py:\d+\)", remedy="log")
    assert "    | RuntimeError: out of luck" in outcome.err, "the end of the host's log is shown"
    assert_clean(ascend)


def test_a_model_that_leaves_a_child_behind(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    faulty(tool, ascend, FORKS)
    one_error(tool.collect(model="faulty"), 6, message="left a child", remedy="log")
    assert_clean(ascend)


@pytest.mark.parametrize("what", [HANGS, IGNORES], ids=["sleeps", "ignores-sigterm"])
def test_a_model_that_hangs(host: Start, tool: Tool, assert_clean: Clean, what: str) -> None:
    ascend = host()
    faulty(tool, ascend, what, at=3)
    outcome = tool.collect("--timeout", "2s", model="faulty")
    one_error(outcome, 6, message="not finished after 2 s", remedy="--timeout")
    assert_clean(ascend)


def test_a_model_that_kills_its_process(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    faulty(tool, ascend, DIES, at=4)
    one_error(tool.collect(model="faulty"), 6, message="killed by SIGABRT", remedy="run.log")
    assert_clean(ascend)


def test_exit_status_0_proves_nothing(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    faulty(tool, ascend, EXITS, at=5)
    one_error(tool.collect(model="faulty"), 7, message="profiler was never stopped", remedy=".")
    assert_clean(ascend)


def test_a_failed_run_without_data_keeps_its_log_only(host: Start, tool: Tool) -> None:
    ascend = host()
    faulty(tool, ascend, "open('big', 'wb').write(b'x' * 1000000); " + RAISES)
    assert tool.collect(model="faulty").status == 6
    (run,) = (ascend.workdir / "runs").iterdir()
    assert {path.name for path in run.iterdir()} - {"followed"} == {"plan.json", "events.jsonl", "run.log"}


@pytest.mark.parametrize("then", ["time.sleep(60)", "os._exit(0)"], ids=["goes-on", "ends"])
def test_a_model_that_removes_its_run(host: Start, tool: Tool, assert_clean: Clean, then: str) -> None:
    ascend = host()
    faulty(tool, ascend, "import shutil; shutil.rmtree(os.path.dirname(os.getcwd())); " + then, at=3)
    outcome = tool.collect(model="faulty")
    one_error(outcome, 6, message="the directory of the run was removed while it was going on", remedy="model")
    assert_clean(ascend)
    assert list((ascend.workdir / "runs").iterdir()) == []


def test_a_model_that_removes_its_log(host: Start, tool: Tool) -> None:
    ascend = host()
    faulty(tool, ascend, "print('said before'); os.unlink('../run.log'); print('said after')", at=3)
    outcome = tool.collect(model="faulty")
    assert outcome.status == 0, outcome.err
    log = (tool.directory / outcome.document["directory"] / "run.log").read_text()
    assert "said before\nsaid after\n" in log


FORGES = r"""
for line in (b'junk', b'{"stage": "end", "status": "done", "files": []}', b'{"stage": "load", "seq": 1000, "time": 0}'):
            os.write(int(os.environ["COLLECT_REMOTE_EVENTS"]), line + b'\n')
"""


def test_a_model_that_forges_reports(host: Start, tool: Tool) -> None:
    ascend = host()
    faulty(tool, ascend, FORGES.strip(), at=2)
    outcome = tool.collect(model="faulty")
    assert outcome.status == 0, outcome.err
    assert outcome.document["phases"]["forward"]["step_kinds"] == ["forward"] * 5


def test_an_adapter_that_needs_what_is_not_there(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    (tool.directory / "mine.py").write_text("import no_such_module\ndef load(d, o): pass\ndef forward(s): pass\n")
    tool.inventory(ascend, models={"mine": {"adapter": "./mine.py"}})
    one_error(tool.collect(model="mine"), 5, message="No module named 'no_such_module'", remedy="install")
    assert_clean(ascend)


@pytest.mark.parametrize(
    ("fault", "status", "message"),
    [
        ("export_fails", 7, "kernel_details|trace_view|run failed"),
        ("truncated_trace", 7, "trace_view.json"),
        ("no_pmu", 7, "aic_"),
        ("level0", 7, "Level0"),
        ("stop_raises", 7, "."),
        ("no_profiler_info", 7, "profiler_info"),
        ("segfault_at_stop", 6, "SIGSEGV"),
    ],
)
def test_a_profiler_that_fails_silently(
    host: Start, tool: Tool, assert_clean: Clean, fault: str, status: int, message: str
) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": fault})
    tool.inventory(ascend)
    one_error(tool.collect(), status, message=message, remedy=".")
    assert_clean(ascend)
    assert list((ascend.workdir / "runs").iterdir()), "the raw data stay on the host"


# --- space ------------------------------------------------------------------------------------------------------------

FILLS = "open('filler', 'wb').write(b'x' * (400 << 20))"


def test_too_little_space_on_the_host(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = small(host, 8)
    tool.inventory(ascend)
    one_error(
        tool.collect(), 8, message=r"not enough space on the host.*need at least 256 MiB, have \d MiB", remedy="workdir"
    )
    assert_clean(ascend)


def test_the_hosts_disk_fills_up_in_the_run(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = small(host, 300)
    faulty(tool, ascend, FILLS, at=3)
    one_error(tool.collect(model="faulty"), 8, message="No space left on device", remedy="free some")
    assert_clean(ascend)


def test_the_hosts_disk_is_full_when_the_archive_is_written(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = small(host, 300)
    # The window is closed and parsed; then somebody's file takes the rest.
    faulty(tool, ascend, "import atexit; atexit.register(os.system, 'dd if=/dev/zero of=filler bs=64k 2>/dev/null')")
    one_error(tool.collect(model="faulty"), 8, message="No space left on device", remedy="workdir")
    assert_clean(ascend)


def test_a_full_disk_here(host: Start, tool: Tool, tmp_path: Path) -> None:
    ascend = host()
    tool.inventory(ascend)
    scratch = small(host, 1, name="scratch").workdir  # any small file system will do
    one_error(tool.collect("--out", str(scratch / "result")), 8, message="not enough space", remedy="--out")
    assert list(scratch.iterdir()) == []
    assert len(list((ascend.workdir / "runs").iterdir())) == 1, "the result is kept on the host"


def test_a_directory_that_may_not_be_written(tool: Tool) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}})
    (tool.directory / "file").write_text("")
    one_error(tool.collect("--out", "file/result"), 8, message="cannot write to", remedy="--out")


def small(host: Start, megabytes: int, **options: Any) -> SimHost:
    try:
        return host(disk_mb=megabytes, **options)
    except PermissionError as error:
        pytest.skip(f"a small file system cannot be mounted: {error}")


# --- judging ----------------------------------------------------------------------------------------------------------


def test_validate_what_is_not_there(tool: Tool) -> None:
    one_error(tool("validate", "nowhere", "--json"), 2, message="no nowhere", remedy="profile")


def test_validate_a_cut_archive(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    whole = Path(tool.directory / tool.collect().document["archive"]["path"]).read_bytes()
    (tool.directory / "cut.tar.gz").write_bytes(whole[:-20])
    outcome = tool("validate", "cut.tar.gz", "--json")
    assert outcome.status == 7
    assert outcome.document["verdict"] == "invalid"


def test_models_of_one_host_do_not_leak(tool: Tool) -> None:
    tool.inventory(entries={"a": {"models": {"only": LLAMA["llama"]}}, "b": {}})
    one_error(tool.collect(host="b", model="only"), 2, message="only", remedy="llama")
