"""The simulated ``npu-smi``: ``info``, ``info -m``, ``info -l``, and ``info -t usages | proc-mem | health``."""

from __future__ import annotations

import sys
import time

from . import chips, driver, lists, tables, view

MAX_ROWS_IN_TABLE = 8  # a chip; the driver itself tells no more than 32
MAX_ROWS = 32
LIBRARY = (
    "npu-smi: error while loading shared libraries: libdrvdsmi_host.so: cannot open shared object file: "
    "No such file or directory"
)
FAILURES = {
    -8005: "dcmi module initialize failed. ret is -8005",
    -8020: "dcmi model initialized failed, because the device is used. ret is -8020",
    -9005: "npu get board type failed. ret is -9005",
}


def main(directory: str, arguments: list[str]) -> int:
    """Answer a command line; the exit status."""
    state = driver.read_state(directory)
    how = state["npu_smi"]
    time.sleep(how["delay"])
    if how["library_missing"]:
        sys.stderr.write(LIBRARY + "\n")
        return 127
    text, status = answer(directory, state, arguments)
    text = how["before"] + text + how["after"]
    if how["hangs"] is not None:
        _hang(text, how["hangs"])
    sys.stdout.write(text)
    return status


def _hang(text: str, lines: int) -> None:
    """Print so many lines, and then wait for ever, deaf to polite signals."""
    import signal  # which takes longer to import than all the rest

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdout.write("".join(text.splitlines(True)[:lines]))
    sys.stdout.flush()
    while True:
        time.sleep(3600)


def answer(directory: str, state: dict, arguments: list[str]) -> tuple[str, int]:
    """(text, exit status) of a command line.  A failure's status is its code modulo 256."""
    how = state["npu_smi"]
    if how["fails"]:
        return "".join(FAILURES[code] + "\n" for code in how["fails"]), how["fails"][-1] % 256
    instead = how["text"]
    if isinstance(instead, dict):
        instead = instead.get(" ".join(arguments))
    if instead is not None:
        return instead, how["status"]
    refused = "Error parameter of %s\n" % " ".join(arguments), 1
    chip = chips.CHIPS[state["chip"]]
    layout = chips.layout(chip, state["driver_version"])
    dies, devices = view.dies(directory, state, layout)
    if arguments == ["info"]:
        printed = [die._replace(processes=die.processes[:MAX_ROWS_IN_TABLE]) for die in dies]
        return tables.info(layout, printed, state["tool_version"], state["driver_version"]), 0
    if arguments == ["info", "-m"]:
        logic, phy = [device.logic for device in devices], [device.phy for device in devices]
        return lists.device_mapping(layout, dies, logic, phy), 0
    if arguments == ["info", "-l"]:
        count = "Card Count" if chip.name == "310" else "Total Count"
        return lists.listing([die for die in dies if not die.orphan], count, chip.product), 0
    if arguments[:1] != ["info"]:
        return refused
    options = dict(zip(arguments[1::2], arguments[2::2]))
    if len(arguments) % 2 == 0 or not {"-t", "-i"} <= set(options) <= {"-t", "-i", "-c"}:
        return refused
    if "-c" in options and not layout.chips:  # Atlas A5
        return refused
    return _of_one(layout, dies, options["-t"], options["-i"], options.get("-c")) or refused


def _of_one(
    layout: tables.Layout, dies: list[tables.Die], what: str, npu: str, chip: str | None
) -> tuple[str, int] | None:
    """``-t <what> -i <npu> [-c <chip>]``; None for what is not known."""
    there = [die for die in dies if str(die.npu) == npu and not die.orphan]
    asked = [die for die in there if chip is None or str(die.chip) == chip]
    chips_asked = len(there) if chip is None else None
    if what not in ("usages", "proc-mem", "health") or not npu.isdigit():
        return None
    if not asked:
        return lists.dead_slot(int(npu), what), 1
    if what == "usages":
        return lists.usages(layout, int(npu), asked, chips_asked), 0
    if what == "health":
        return lists.health(layout, int(npu), asked, chips_asked), 0
    told = [die._replace(processes=die.processes[:MAX_ROWS]) for die in asked]
    return lists.proc_mem(layout, int(npu), told), 0
