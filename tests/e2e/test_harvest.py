"""What the profiler did not parse is parsed by us; what cannot be is never published as complete, and never lost."""

from __future__ import annotations

import json
import os
import signal
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]

# The process of the model is made one in which the profiler misbehaves; ours for parsing is another.
ADAPTER = """
import os
import torch

def load(device, options):
    {what}
    return torch.ones(4, 4).to(device)

def forward(state):
    return state @ state
"""
DAEMON = "import multiprocessing; multiprocessing.current_process()._config['daemon'] = True"
NO_MSPROF = "os.environ['PATH'] = '/usr/bin:/bin'"
DATABASE = "import torch_npu; torch_npu.profiler.ExportType.Text = torch_npu.profiler.ExportType.Db"
OPEN_MODES = "os.umask(0)"
GIVES_AWAY = (
    "import atexit, glob; "
    "atexit.register(lambda: [os.chown(path, 65534, -1) for path in glob.glob('../profile/*/*/PROF*')])"
)


def fault(name: str) -> str:
    """A fault of the profiler in the model's process alone."""
    return f"os.environ['SIMHOST_LIGHT_FAULTS'] = {name!r}"


# What async_mode leaves to a child, in a program that ends without waiting for it.
ORPHAN = """
    import atexit, functools, multiprocessing, torch_npu
    torch_npu.profiler.tensorboard_trace_handler = functools.partial(
        torch_npu.profiler.tensorboard_trace_handler, async_mode=True)
    atexit.register(os._exit, 0)
    os.environ['SIMHOST_LIGHT_FAULTS'] = 'slow_parse=2'
""".strip()


def model(tool: Tool, host: SimHost, what: str) -> None:
    (tool.directory / "odd.py").write_text(ADAPTER.format(what=what))
    tool.inventory(host, models={"odd": {"adapter": "./odd.py"}})


def manifest_of(tool: Tool, document: dict[str, Any]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((tool.directory / document["directory"] / "manifest.json").read_text())
    return loaded


def check(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [check for check in manifest["checks"] if check["id"] == name]
    return dict(found)


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return tar.getnames()


def run_of(host: SimHost) -> Path:
    (run,) = (host.workdir / "runs").iterdir()
    return run


def copies(run_id: str) -> list[Path]:
    places = {Path(p) for p in ("/dev/shm", "/tmp", "/var/tmp", os.environ.get("TMPDIR", "/tmp"))}
    return [path for place in places for path in place.glob(f"collect_remote_{run_id}*")]


@pytest.mark.parametrize(
    "what",
    [
        DAEMON,
        NO_MSPROF,
        DATABASE,
        fault("export_fails"),
        fault("truncated_trace"),
        fault("short_write"),
        fault("kill_at_parse"),
        OPEN_MODES + "; " + fault("strict_modes"),
    ],
    ids=[
        "daemon",
        "no-msprof",
        "database-only",
        "export-fails",
        "truncated",
        "short-write",
        "killed",
        "others-may-write",
    ],
)
def test_what_the_profiler_did_not_parse(host: Start, tool: Tool, what: str) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "strict_modes"} if "strict_modes" in what else {})
    model(tool, ascend, what)
    outcome = tool.collect(model="odd")
    assert outcome.status == 0, outcome.err
    manifest = manifest_of(tool, outcome.document)
    (profile,) = manifest["profiles"]
    assert profile["parsed"]["how"] == "offline"
    assert [attempt["how"] for attempt in profile["parsed"]["tried"]] == ["online"]
    assert check(manifest, "parsed")["message"].startswith("by an offline parse")
    assert manifest["verdict"] == "valid"
    assert list((ascend.workdir / "runs").iterdir()) == []


@pytest.mark.torch_npu
@pytest.mark.parametrize("what", [DAEMON, NO_MSPROF], ids=["daemon", "no-msprof"])
def test_what_the_real_profiler_did_not_parse(host: Start, tool: Tool, ascend_runtime: str, what: str) -> None:
    model(tool, host(runtime=ascend_runtime), what)
    outcome = tool.collect(model="odd")
    assert outcome.status == 0, outcome.err
    assert manifest_of(tool, outcome.document)["profiles"][0]["parsed"]["how"] == "offline"


def test_what_was_parsed_by_the_profiler_itself(host: Start, tool: Tool) -> None:
    model(tool, host(), "pass")
    outcome = tool.collect(model="odd")
    (profile,) = manifest_of(tool, outcome.document)["profiles"]
    assert (profile["parsed"]["how"], profile["parsed"]["tried"]) == ("online", [])


def test_a_parser_that_outlives_the_program_is_waited_for(host: Start, tool: Tool) -> None:
    model(tool, host(), ORPHAN)
    outcome = tool.collect(model="odd")
    assert outcome.status == 0, outcome.err
    assert manifest_of(tool, outcome.document)["profiles"][0]["parsed"]["how"] == "online"


def test_a_child_that_is_no_parser_is_not_waited_for(host: Start, tool: Tool) -> None:
    sleeps = "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    model(tool, host(), sleeps)
    started = time.monotonic()
    outcome = tool.collect(model="odd")
    assert outcome.status == 0, outcome.err
    assert time.monotonic() - started < 60


def test_a_file_system_that_the_parser_cannot_work_on(host: Start, tool: Tool) -> None:
    """Its raw data belong to somebody else, whatever is done there: a copy is ours."""
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "strict_owners"})
    model(tool, ascend, DAEMON + "; " + GIVES_AWAY)
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    outcome = tool.collect(model="odd")
    assert outcome.status == 0, outcome.err
    manifest = manifest_of(tool, outcome.document)
    parsed = manifest["profiles"][0]["parsed"]
    assert parsed["how"] == "offline"
    assert parsed["where"] in ("/dev/shm", "/tmp", "/var/tmp", os.path.expanduser("~"))
    in_place = parsed["tried"][1]
    assert in_place["how"] == "offline"
    assert "owner is neither root nor the current user" in in_place["problem"]
    assert copies(manifest["run_id"]) == []


def test_what_cannot_be_parsed_anywhere(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "export_fails"})
    tool.inventory(ascend)
    outcome = tool.collect()
    one_error(
        outcome,
        7,
        message=r"Failed to export CANN .* \(parsed anew in vain: in place, /",
        remedy="kept on the host in .*/profile",
    )
    run = run_of(ascend)
    assert list(run.glob("profile/both/*_ascend_pt/PROF_*")), "the raw data stay on the host"
    assert copies(run.name) == []
    assert_clean(ascend)


def test_a_parser_that_the_host_kills(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "kill_at_parse"})
    tool.inventory(ascend)
    outcome = tool.collect()
    one_error(outcome, 7, message=r"the parser was killed \(SIGKILL\).*memory", remedy="kept on the host")
    assert "(parsed anew in vain: in place)" in outcome.err, "no other file system gives more memory"
    assert_clean(ascend)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("stop_raises", "the profiler was not stopped: Call step failed. Exception: Stop profiler failed"),
        ("no_prof_dir", "nothing was recorded on the device"),
    ],
)
def test_what_no_parser_can_mend(host: Start, tool: Tool, assert_clean: Clean, name: str, message: str) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": name})
    tool.inventory(ascend)
    outcome = tool.collect()
    one_error(outcome, 7, message="the profile is not valid: " + message, remedy="kept on the host in")
    assert "parsing offline" not in outcome.err
    assert_clean(ascend)


def test_a_model_that_never_was_on_the_npu(host: Start, tool: Tool, assert_clean: Clean) -> None:
    """Parsed, and nothing there: told apart from a parse that failed."""
    ascend = host()
    (tool.directory / "odd.py").write_text(ADAPTER.format(what="pass").replace(".to(device)", ""))
    tool.inventory(ascend, models={"odd": {"adapter": "./odd.py"}})
    outcome = tool.collect(model="odd")
    one_error(outcome, 7, message="no kernel ran on the NPU during the window", remedy=".")
    assert "in vain" not in outcome.err
    assert_clean(ascend)


def test_the_log_has_no_turning_cursor(host: Start, tool: Tool) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "slow_parse=3"})
    model(tool, ascend, DAEMON)
    outcome = tool.collect(model="odd")
    assert outcome.status == 0, outcome.err
    log = (tool.directory / outcome.document["directory"] / "run.log").read_bytes()
    assert b"\b" not in log
    assert b"|" not in log
    assert b"All profiling data parsed" in log
    tool.inventory(ascend)
    outcome = tool.collect()
    assert b"\b" not in (tool.directory / outcome.document["directory"] / "run.log").read_bytes()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_run_that_ends_while_it_is_parsed(host: Start, tool: Tool, assert_clean: Clean, how: str) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "slow_parse=60"})
    model(tool, ascend, DAEMON)
    process = tool.start("--host", "ascend01", "--model", "odd", "--json")
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "parsing offline" in line:
                break
        run = run_of(ascend)
        if how == "stop":
            assert tool("stop", run.name, "--host", "ascend01").status == 0
        else:
            os.kill(json.loads((run / "pid.json").read_text())["pid"], signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert json.loads(out)["error"]["kind"] == ("Interrupted" if how == "stop" else "RunFailed")
    assert gone(ascend.processes)
    assert list(run.glob("profile/forward/*_ascend_pt/PROF_*"))
    assert_clean(ascend)


def test_a_copy_goes_with_a_run_that_is_killed(host: Start, tool: Tool, assert_clean: Clean) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may give files away")
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "strict_owners,slow_parse=2"})
    model(tool, ascend, DAEMON + "; " + GIVES_AWAY)
    process = tool.start("--host", "ascend01", "--model", "odd", "--json")
    try:
        until = time.monotonic() + 60
        run_id = ""
        while not (run_id and copies(run_id)) and time.monotonic() < until:
            time.sleep(0.02)
            run_id = next((path.name for path in ascend.workdir.glob("runs/2*")), "")
        assert copies(run_id)
        os.kill(json.loads((run_of(ascend) / "pid.json").read_text())["pid"], signal.SIGKILL)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "supervisor of the run died" in json.loads(out)["error"]["message"]
    assert copies(run_id) == []
    assert_clean(ascend)


def test_raw_data_on_request(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend)
    outcome = tool.collect("--keep-raw")
    assert outcome.status == 0, outcome.err
    archive = tool.directory / outcome.document["archive"]["path"]
    assert any("/PROF_" in name for name in names(archive))
    assert any("/FRAMEWORK/" in name for name in names(archive))
    assert tool("validate", str(archive)).status == 0


@pytest.mark.parametrize("out", [None, "here/it/is"])
def test_salvage_brings_what_there_is(host: Start, tool: Tool, out: str | None) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "export_fails"})
    tool.inventory(ascend)
    outcome = tool.collect("--salvage", *(["--out", out] if out else []))
    one_error(outcome, 7, message="the profile is not valid", remedy="brought to .*profile_l1.partial.tar.gz")
    (archive,) = tool.directory.rglob("*.tar.gz")
    assert archive.name == "profile_l1.partial.tar.gz"
    with tarfile.open(archive) as tar:
        inside = json.load(tar.extractfile("profile_l1/manifest.json"))  # type: ignore[arg-type]
    assert inside["verdict"] == "invalid"
    assert inside["profiles"][0]["parsed"]["how"] == "not at all"
    assert any(name.endswith("profiler_info.json") for name in names(archive))
    beside = json.loads((archive.parent / "manifest.json").read_text())
    assert beside["verdict"] == "invalid"
    assert tool("validate", str(archive)).status == 7

    # Not under the name of a result, and the host has still everything.
    if out:
        assert archive.parent == tool.directory / out
    else:
        assert archive.parent.name == run_of(ascend).name + ".partial"
        assert [path.name for path in archive.parent.parent.iterdir()] == [archive.parent.name]
    assert list(run_of(ascend).glob("profile/both/*_ascend_pt/PROF_*"))
    assert gone(ascend.processes)


def test_a_partial_result_is_attached_to(host: Start, tool: Tool) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "export_fails"})
    tool.inventory(ascend)
    run = tool.collect("--salvage", "--detach").document["run_id"]
    for brought in ("brought to .*profile_l1.partial.tar.gz", r"is in profiles/\S+\.partial already"):
        outcome = tool("attach", run, "--host", "ascend01", "--json")
        one_error(outcome, 7, message="the profile is not valid", remedy=brought)
    assert [path.name for path in (tool.profiles / "ascend01" / "llama").iterdir()] == [run + ".partial"]
    assert not (tool.profiles / ".incoming").exists()


def test_salvage_changes_nothing_of_a_good_run(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    outcome = tool.collect("--salvage")
    assert outcome.status == 0, outcome.err
    assert outcome.document["archive"]["path"].endswith("/profile_l1.tar.gz")


def test_every_rank_is_parsed(host: Start, tool: Tool) -> None:
    model(tool, host(), DAEMON)
    outcome = tool.collect("--devices", "2", model="odd")
    assert outcome.status == 0, outcome.err
    parsed = {p["rank"]: p["parsed"]["how"] for p in manifest_of(tool, outcome.document)["profiles"]}
    assert parsed == {0: "offline", 1: "offline"}
