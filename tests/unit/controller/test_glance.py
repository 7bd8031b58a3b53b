"""The glance sees what the agent's own look sees, or leaves it to the survey: by bash itself."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collect_agent.events import MARK
from collect_agent.npu.interpret import interpret
from collect_agent.npu.look import look
from collect_remote.survey.glance import LONGEST_S, functions, understood
from collect_remote.survey.script import FUNCTIONS
from container_traces import TRACES
from harness import gone
from npu_smi_tables import LAYOUTS, MAPPING, Die, Layout, info, mapping

SAYS = f"{FUNCTIONS}\n{functions()}\ncr_mark='{MARK}'\ncr_driver\n"
IDS = [(str(number), "0", str(number), "Ascend 910B3") for number in (1, 7)]


@pytest.fixture
def npu_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put an npu-smi on PATH: shell lines for `info`, and for `info -m`."""

    def install(table: str, ids: str) -> None:
        program = tmp_path / "bin" / "npu-smi"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\ncase "$*" in\ninfo) {table} ;;\n"info -m") {ids} ;;\nesac\n')
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)

    return install


@pytest.fixture
def holder() -> Iterator[int]:
    """The pid of a process that npu-smi may list."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process.pid
        process.kill()


def glanced(script: str = "cr_glance", wait_s: float = 0.0) -> list[str]:
    """What bash prints; its input is open for `wait_s`, or to its end."""
    command = ["bash", "--norc", "--noprofile", "-c", f"{SAYS}{script}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        if wait_s:
            time.sleep(wait_s)
            shell.stdin.close()
        return shell.stdout.read().split("\n")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.key)
def test_it_sees_what_the_agent_sees(
    layout: Layout, npu_smi: Callable[[str, str], None], holder: int, tmp_path: Path
) -> None:
    dies = [Die(1, processes=((holder, "sleep", 900),)), Die(7)]
    (tmp_path / "info").write_text(info(layout, dies))
    (tmp_path / "map").write_text(mapping(IDS, MAPPING))
    npu_smi(f"cat {tmp_path}/info", f"cat {tmp_path}/map")
    seen, wanted = understood(glanced()), look(5.0)
    assert seen is not None
    assert interpret(seen.npu) == interpret(wanted)
    assert seen.npu["in_container"] == wanted["in_container"]
    assert seen.npu["owners"].get(str(holder)) == wanted["owners"].get(str(holder))
    assert seen.visible_devices is None


def test_a_preset_choice_is_seen_also_when_it_is_empty(
    npu_smi: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    npu_smi("echo Bus-Id", ":")
    for value in ("", "1,2"):
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", value)
        seen = understood(glanced())
        assert seen is not None
        assert seen.visible_devices == value


@pytest.mark.parametrize(("path", "content", "found"), TRACES)
def test_a_container_is_known_as_the_agent_knows_it(path: str, content: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(content)
    assert glanced(f"cr_in_container '{tmp_path}' && echo inside")[0] == ("inside" if found else "")


@pytest.mark.parametrize(
    "table",
    ["echo no table", "echo Bus-Id; exit 3", "exit 0", "echo dcmi module initialize failed. ret is -8005; exit 187"],
)
def test_what_is_no_table_is_left_to_the_survey(table: str, npu_smi: Callable[[str, str], None]) -> None:
    npu_smi(table, "echo 1")
    assert understood(glanced()) is None


def test_one_that_takes_too_long_is_ended(npu_smi: Callable[[str, str], None], tmp_path: Path) -> None:
    npu_smi(f"echo $$ >> {tmp_path}/pids; exec sleep 60", f"echo $$ >> {tmp_path}/pids; exec sleep 60")
    limited = functions().replace(f'cr_guard "$1" {LONGEST_S}', 'cr_guard "$1" 1')
    assert limited != functions()
    assert understood(glanced(f"{limited}\ncr_guarded cr_glance")) is None
    pids = (tmp_path / "pids").read_text().split()
    assert gone(lambda: [int(pid) for pid in pids if Path("/proc", pid).exists()])


def test_no_npu_smi_is_left_to_the_survey() -> None:
    assert understood(glanced("PATH=/nowhere; cr_glance")) is None


@pytest.mark.parametrize("hangs", ["info", "-m"])
def test_one_that_hangs_ends_with_its_reader(hangs: str, npu_smi: Callable[[str, str], None], tmp_path: Path) -> None:
    hang = f"echo $$ >> {tmp_path}/pids; exec sleep 60"
    npu_smi(hang if hangs == "info" else "echo Bus-Id", hang if hangs == "-m" else ":")
    started = time.monotonic()
    assert understood(glanced("cr_guarded cr_glance", wait_s=0.5)) is None
    assert time.monotonic() - started < 8
    pids = (tmp_path / "pids").read_text().split()
    assert gone(lambda: [int(pid) for pid in pids if Path("/proc", pid).exists()])
