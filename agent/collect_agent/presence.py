"""Who is on the run's devices: our own process, as proof, and strangers, who disturb what is measured.

Looked at right after the load and when the window has closed, beside the run and never inside a step.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, List, Sequence, Set

from . import npu, process
from .failure import Failure

MOMENTS = {"precheck": "loaded", "parse": "recorded"}


class Watch:
    """Looks at the devices of one run in a thread of its own, when a stage is entered that is a moment to do so."""

    def __init__(self, run_id: str, devices: Sequence[Dict[str, Any]]) -> None:
        self._run_id, self.devices = run_id, list(devices)
        self._pool = ThreadPoolExecutor(1)
        self._seen: Dict[str, Future[Dict[str, Any]]] = {}

    def enter(self, stage: str) -> None:
        if stage in MOMENTS and stage not in self._seen:
            self._seen[stage] = self._pool.submit(self._look, MOMENTS[stage])

    def seen(self) -> List[Dict[str, Any]]:
        """What was seen, in order: see `tell`."""
        self._pool.shutdown(wait=True)
        return tell([future.result() for future in self._seen.values()])

    def _look(self, when: str) -> Dict[str, Any]:
        own = set(process.of_run(self._run_id))
        try:
            seen = npu.look()
            devices = npu.interpret(seen)
        except Failure as failure:
            return {"when": when, "error": failure.message}
        own |= set(process.of_run(self._run_id))
        logic_ids = {device["logic"] for device in self.devices}
        return {
            "when": when,
            "own": own,
            "foreign_pids": seen["in_container"],
            "rows": [(d.label, row) for d in devices if d.logic in logic_ids for row in d.processes],
        }


def tell(moments: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """{"when", "own": [pid], "strangers": [{"pid", "name", "memory_mb", "label"}]} of every moment, or {"when",
    "error"} where npu-smi did not tell. Pure.

    In a container npu-smi may show ids of the host's namespace. Where it never shows one of ours, the process that is
    on each device right after our load is taken for ours, because we know that one of ours is there.
    """
    looked = [moment for moment in moments if "error" not in moment]
    own = {pid for moment in looked for pid in moment["own"]}
    matched = any(_is_own(row, own) for moment in looked for _, row in moment["rows"])
    if not matched and looked and looked[0]["foreign_pids"]:
        first = looked[0]["rows"]
        if len(first) == len({label for label, _ in first}):
            own |= {row.pid for _, row in first}
    return [_told(moment, own) for moment in moments]


def _told(moment: Dict[str, Any], own: Set[int]) -> Dict[str, Any]:
    if "error" in moment:
        return moment
    return {
        "when": moment["when"],
        "own": sorted({row.pid for _, row in moment["rows"] if _is_own(row, own)}),
        "strangers": [
            {"pid": row.pid, "name": row.name, "memory_mb": row.memory_mb, "label": label}
            for label, row in moment["rows"]
            if not _is_own(row, own)
        ],
    }


def _is_own(row: npu.Process, own: Set[int]) -> bool:
    return row.pid in own or row.container_pid in own


def check(seen: Sequence[Dict[str, Any]], *, allow_shared: bool) -> Dict[str, Any]:
    """The check `device-shared`, from what was seen. Pure."""
    strangers = {(row["pid"], row["name"], row["label"]) for moment in seen for row in moment.get("strangers", ())}
    if strangers:
        who = ", ".join(
            "pid {} {} on {}".format(pid, name or "(name hidden)", label) for pid, name, label in sorted(strangers)
        )
        verdict, message = "warn" if allow_shared else "fail", "the device was shared during the run: " + who
    elif any("error" in moment for moment in seen) or not seen:
        verdict, message = "warn", "npu-smi did not tell who else was on the device"
    elif not any(moment["own"] for moment in seen):
        verdict, message = "pass", "nobody else was on the device, as far as this container sees"
    else:
        verdict, message = "pass", "nobody else was on the device, after the load and after the window"
    remedy = "collect again when the other has left, or accept it with --allow-shared" if verdict == "fail" else ""
    return {"id": "device-shared", "verdict": verdict, "message": message, "remedy": remedy}
