"""Asking a host about its NPUs: programs that print, fail, hang, and ask torch_npu where npu-smi is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from collect_agent.npu.device import Device
from collect_agent.npu.failures import NpuSmiBoardTypeError, NpuSmiError, NpuSmiMissingError, NpuSmiTimeoutError
from collect_agent.npu.interpret import interpret
from collect_agent.npu.judge import judge
from collect_agent.npu.look import _in_container, look
from container_traces import TRACES
from npu_smi_tables import A2, A5, MAPPING, P310, Die, dead_slot, info, listing, mapping, proc_mem, usages


@pytest.fixture
def npu_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Put an npu-smi on PATH that answers by its arguments: `npu_smi({"info": text, "info -m": ["sleep 60"]})`.

    A text is printed, lines of a list are run; anything else is an error of npu-smi's own.
    """

    def install(answers: dict[str, str | list[str]], status: int = 0) -> Path:
        lines = ["#!/bin/sh", 'case "$*" in']
        for number, (arguments, answer) in enumerate(answers.items()):
            if isinstance(answer, str):
                (tmp_path / str(number)).write_text(answer)
                answer = [f"cat {tmp_path / str(number)}", f"exit {status}"]
            lines.append(f'"{arguments}") {"; ".join(answer)} ;;')
        program = tmp_path / "bin" / "npu-smi"
        program.parent.mkdir()
        program.write_text("\n".join([*lines, "*) echo Error parameter of $*; exit 1 ;;", "esac\n"]))
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
        return program

    return install


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a torch_npu on Python's path whose devices have so many GB free of 64, as "60 4 x": x raises."""

    def install(free_gb: str) -> None:
        (tmp_path / "torch_npu.py").write_text("")
        (tmp_path / "torch.py").write_text(
            f"""
import os
class npu:
    free = "{free_gb}".split()
    def device_count(): return 1 if "ASCEND_RT_VISIBLE_DEVICES" in os.environ else len(npu.free)
    def get_device_name(logic): return "Ascend910B3"
    def mem_get_info(logic): return int(npu.free[logic]) << 30, 64 << 30
import atexit
atexit.register(print, "[W] a warning of torch_npu at its end")
"""
        )
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return install


def seen() -> tuple[Device, ...]:
    return interpret(look(5.0))


def test_a_table_and_its_map(npu_smi: Callable[..., Path]) -> None:
    told = mapping([("1", "0", "0", "Ascend 910B3"), ("7", "0", "1", "Ascend 910B3")], MAPPING)
    program = npu_smi({"info": info(A2, [Die(1), Die(7)]), "info -m": told})
    observed = look(5.0)
    assert observed["npu_smi"] == str(program)
    assert set(observed) == {"npu_smi", "in_container", "info", "mapping", "owners"}, (
        "nothing else is asked when there is a table"
    )
    assert [(device.npu, device.logic) for device in interpret(observed)] == [(1, 0), (7, 1)]


def test_no_npu_smi_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NpuSmiMissingError):
        seen()


def test_one_that_hangs_is_killed_and_named(npu_smi: Callable[..., Path], tmp_path: Path) -> None:
    hang = f"echo $$ >> {tmp_path}/pids; exec sleep 60"
    npu_smi({"info": ["echo begun", hang], "info -m": [hang]})
    before = time.monotonic()
    observed = look(2.0)
    assert time.monotonic() - before < 5
    assert observed["info"] == [124, "begun\n"]
    assert [pid for pid in (tmp_path / "pids").read_text().split() if Path("/proc", pid).exists()] == []
    with pytest.raises(NpuSmiTimeoutError):
        interpret(observed)


def test_one_whose_child_keeps_the_output_open_is_not_waited_for(npu_smi: Callable[..., Path]) -> None:
    npu_smi({"info": ["sleep 20 & echo begun"], "info -m": ""})
    before = time.monotonic()
    assert look(1.0)["info"] == [124, "begun\n"]
    assert time.monotonic() - before < 15


def test_a_map_that_hangs_leaves_the_ids_of_the_table(npu_smi: Callable[..., Path]) -> None:
    npu_smi({"info": info(P310, [Die(2144, 0, 0)]), "info -m": ["exec sleep 60"]})
    assert [device.logic for device in interpret(look(0.3))] == [0]


def test_one_that_cannot_be_executed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "npu-smi"
    program.write_text("#!/nowhere/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NpuSmiMissingError):
        seen()


def test_the_drivers_libraries_are_found_and_the_language_is_plain(
    npu_smi: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    npu_smi({"info": ["echo $LC_ALL $LD_LIBRARY_PATH"], "info -m": ""})
    monkeypatch.setenv("LD_LIBRARY_PATH", "/x::/y")
    assert look(5.0)["info"] == [0, "C /x:/y\n"], "no empty entry, which would be the working directory"


@pytest.mark.parametrize("refusal", ["npu get board type failed. ret is -9005", "the device is used. ret is -8020"])
def test_where_npu_smi_is_refused_torch_npu_tells_the_memory(
    npu_smi: Callable[..., Path], torch: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, refusal: str
) -> None:
    npu_smi({"info": refusal}, status=211)
    torch("61 4 x")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1")
    idle, busy, dead = judge(seen())
    assert (idle.device.npu, idle.device.logic, idle.device.name) == (None, 0, "Ascend910B3")
    assert idle.why == "free: 3.0 GB used; known from torch_npu only, which shows no processes"
    assert idle.device.label == "NPU (logic 0)"
    assert busy.reason == "busy: 61.4 GB used and no visible process"
    assert dead.reason.startswith("unknown: torch_npu cannot ask it: invalid literal")


def test_torch_npu_is_not_asked_by_whoever_forbids_it(
    npu_smi: Callable[..., Path], torch: Callable[[str], None]
) -> None:
    npu_smi({"info": "npu get board type failed. ret is -9005"}, status=211)
    torch("61")
    observed = look(5.0, ask_torch=False)
    assert "torch" not in observed
    with pytest.raises(NpuSmiBoardTypeError):
        interpret(observed)


@pytest.mark.parametrize(("path", "content", "found"), TRACES)
def test_a_container_is_known_by_what_its_runtime_leaves(path: str, content: str, found: bool, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(content)
    assert _in_container(str(tmp_path)) == found


def test_where_torch_npu_cannot_tell_either_the_refusal_stands(npu_smi: Callable[..., Path]) -> None:
    npu_smi({"info": "npu get board type failed. ret is -9005"}, status=211)
    with pytest.raises(NpuSmiBoardTypeError):
        seen()


def test_single_forms_stand_in_for_a_missing_table_and_free_nothing(npu_smi: Callable[..., Path]) -> None:
    idle, held = Die(0), Die(3, processes=((4711, "python", 900),))
    npu_smi(
        {
            "info": "This command is not supported.\n",
            "info -l": listing([idle, held, Die(5), Die(6)], "Total Count", ""),
            "info -t usages -i 0": usages(A2, 0, [idle], 1),
            "info -t proc-mem -i 0": proc_mem(A2, 0, [idle]),
            "info -t usages -i 3": usages(A2, 3, [held], 1),
            "info -t proc-mem -i 3": proc_mem(A2, 3, [held]),
            "info -t usages -i 5": dead_slot(5, "usages"),
        }
    )
    verdicts = judge(seen())
    assert [(v.device.npu, v.device.chip, v.device.memory_total_mb) for v in verdicts] == [
        (0, 0, 65536),
        (3, 0, 65536),
        (5, 0, None),
        (6, None, None),
    ]
    assert [verdict.reason for verdict in verdicts] == [
        "unknown: only `npu-smi info -t usages` speaks of it, without its health, 5 % of its memory used",
        "busy: pid 4711 python, 0.9 GB",
        "unknown: Failed to query npu chip: 0 info.",
        "unknown: it does not answer",
    ]


def test_single_forms_of_a5_have_no_chips(npu_smi: Callable[..., Path]) -> None:
    die = Die(2, memory=(5413, 131072))
    npu_smi(
        {
            "info": "\n",
            "info -l": "\tTotal Count : 1\n\n\tNPU ID : 2\n",
            "info -t usages -i 2": usages(A5, 2, [die]),
            "info -t proc-mem -i 2": proc_mem(A5, 2, [die]),
        }
    )
    (device,) = seen()
    assert (device.npu, device.chip, device.memory_total_mb, device.processes) == (2, None, 131072, ())


def test_what_is_neither_a_table_nor_a_list_is_quoted(npu_smi: Callable[..., Path]) -> None:
    npu_smi({"info": "something else entirely\n"})
    with pytest.raises(NpuSmiError, match="something else entirely"):
        seen()


def test_a_crash_without_a_word_is_told(npu_smi: Callable[..., Path]) -> None:
    npu_smi({"info": ["kill -SEGV $$"], "info -m": ""})
    with pytest.raises(NpuSmiError, match=r"printed nothing \(killed by SIGSEGV\)"):
        seen()
