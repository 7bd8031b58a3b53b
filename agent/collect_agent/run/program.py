"""The plan's program: its environment, its start on the leased devices, and what it reports.

A user's model runs in it and can write to the pipe what it likes: only what has the form of a report is taken for one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from typing import Any, BinaryIO, Dict, Iterator, Optional

from .. import events
from ..npu import lease
from . import family, process, together
from .ranks import Ranks
from .rundir import RunDir

TICK_S, BEAT_S = 0.5, 5.0
# torch_npu.profiler becomes a no-op when one of these is set (torch_npu 2.13.0).
HARMFUL_VARIABLES = ("PROFILING_MODE", "PROFILER_SAMPLECONFIG")
# Of a job that the session belongs to: torch_npu would take its rank for ours, and hide its own warnings.
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")
# What has been compiled, for the next run as well: CANN puts it into ~/atc_data otherwise, the others into ~ and /tmp.
CACHE_VARIABLES = ("ASCEND_CACHE_PATH", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
# The most that a pipe of an ordinary user holds (/proc/sys/fs/pipe-max-size), and far more than a report has.
PIPE_BYTES = 1 << 20

_STEP = {"window": str, "kind": str, "step": int, "of": int, "seconds": float}
# The fields of a report by its stage. Those of `import` come one by one, the others all at once.
REPORTS: Dict[str, Dict[str, Any]] = {
    "import": {
        "versions": {"torch": str, "torch_npu": str},
        "device": {"count": int, "name": str, "memory_free_bytes": int, "memory_total_bytes": int, "pid": int},
    },
    "load": {},
    "loaded": {},
    "precheck": {},
    "warmup": _STEP,
    "profile": dict(_STEP, recompiles=(int, type(None))),  # None: nobody has counted
    "parse": {"window": str},
    "recorded": {"window": str},
    "error": {"kind": str, "message": str, "remedy": str, "entry": str},
}


class Program:
    """The running program, the pipe on which it reports, and a gate for each of its ranks."""

    def __init__(self, popen: "subprocess.Popen[bytes]", pipe: BinaryIO, gates: Dict[int, int]) -> None:
        """`gates`: our ends of them, by rank."""
        self.popen, self.pipe, self._gates = popen, pipe, list(gates.values())
        self.ranks = Ranks(list(gates))

    def let_go_on(self) -> None:
        """It waits for this after a report of a stage that is a gate (`events.GATES`)."""
        for gate in self._gates:
            with contextlib.suppress(BrokenPipeError):
                os.write(gate, b"\n")

    def close(self) -> None:
        self.pipe.close()
        for gate in self._gates:
            os.close(gate)


def environment(run: RunDir, plan: Dict[str, Any], held: lease.Leases) -> Dict[str, str]:
    """For every program that imports torch_npu: nothing in the inventory's `env` can undo what the run stands on.

    What CANN and Python would leave in the home and in the user's directories goes to the run's and the agent's own.
    """
    result = dict(os.environ, **plan["env"])
    for name in (*HARMFUL_VARIABLES, *RANK_VARIABLES, events.PIPE_VARIABLE, events.GATE_VARIABLE):
        result.pop(name, None)
    result["PYTHONUNBUFFERED"] = result["PYTHONDONTWRITEBYTECODE"] = "1"
    result["ASCEND_WORK_PATH"] = run.work  # CANN's logs, kernel_meta, ...; a profiler with a directory keeps to its own
    for name in CACHE_VARIABLES:
        result.setdefault(name, os.path.dirname(os.path.abspath(sys.argv[0])))
    result[process.RUN_VARIABLE] = run.id
    # Ascending, or CANN refuses them all (and torch.npu.is_available() quietly says no).
    ids = sorted(int(device["inside" if "inside" in device else "logic"]) for device in held.devices)
    result["ASCEND_RT_VISIBLE_DEVICES"] = ",".join(map(str, ids))
    return result


def start(run: RunDir, plan: Dict[str, Any], held: lease.Leases, port: int) -> Program:
    """Start the plan's program on the leased device, and no other; it inherits the lease and dies with us.

    port: where its processes find each other, on this host or on the first of the job's.
    """
    readable, writable = os.pipe()
    ranks = plan["expected"]["ranks"]
    gates, openers = zip(*(os.pipe() for _ in ranks))
    names = {
        "python": sys.executable,
        "agent": os.path.abspath(sys.argv[0]),
        "run": run.path,
        "port": port,
        "master_addr": plan["node"]["master_addr"] if plan["node"] else "127.0.0.1",
    }
    told = {events.PIPE_VARIABLE: str(writable), events.GATE_VARIABLE: ",".join(map("{}:{}".format, ranks, gates))}
    popen = subprocess.Popen(
        [part.format(**names) for part in plan["argv"]],
        cwd=run.work,
        env=dict(environment(run, plan, held), **together.environment(plan["node"], port), **told),
        stdin=subprocess.DEVNULL,
        pass_fds=(writable, *gates, *held.descriptors),
        preexec_fn=family.die_with_parent,
    )
    for descriptor in (writable, *gates):
        os.close(descriptor)
    return Program(popen, os.fdopen(readable, "rb"), dict(zip(ranks, openers)))


def reports(program: Program) -> Iterator[events.Event]:
    """What the program reports until it has ended (a child that it left behind may hold the pipe open, and write).

    Failure when some of its ranks have ended, and the others wait for them.
    """
    rest = b""
    last: events.Event = {"stage": ""}
    heard = told = time.monotonic()
    while True:
        ended = program.popen.poll() is not None
        if select.select([program.pipe], [], [], 0 if ended else TICK_S)[0]:
            data = os.read(program.pipe.fileno(), PIPE_BYTES)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            rest = rest if len(rest) < PIPE_BYTES else b""
            for event in filter(None, map(program.ranks.hear, filter(None, map(report, lines)))):
                last, heard = event, time.monotonic()
                told = heard
                yield event
        elif not ended:
            program.ranks.miss()
            if last["stage"] == "parse" and time.monotonic() - told >= BEAT_S:
                told = time.monotonic()
                yield dict(last, seconds=round(told - heard))  # the parser itself only turns its cursor
        if ended:
            return


def report(line: bytes) -> Optional[events.Event]:
    """One line of the pipe as an event with the fields of its stage and no others; None when it is no report. Pure."""
    try:
        told = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    stage = told.get("stage") if isinstance(told, dict) else None
    known = REPORTS.get(stage) if isinstance(stage, str) else None
    if known is None:
        return None
    fields = {name: shape for name, shape in known.items() if name in told or stage != "import"}
    fields.update({"rank": int} if "rank" in told else {})
    return dict(_picked(told, fields), stage=stage) if _fits(told, fields) else None


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(_fits(value.get(name), part) for name, part in shape.items())
    return isinstance(value, shape)


def _picked(value: Any, shape: Any) -> Any:
    return {name: _picked(value[name], part) for name, part in shape.items()} if isinstance(shape, dict) else value
