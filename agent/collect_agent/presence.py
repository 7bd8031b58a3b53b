"""Who is on the run's devices: our own process, as proof, and strangers, who disturb what is measured.

Looked at right after the load and when the window has closed, beside the run and never inside a step.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, Iterable, List, Sequence, Set

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
        """What was seen, in order: {"when", "own": [pid], "strangers": [{"pid", "name", "memory_mb", "label"}]}, or
        {"when", "error"} where npu-smi did not tell."""
        self._pool.shutdown(wait=True)
        return [future.result() for future in self._seen.values()]

    def _look(self, when: str) -> Dict[str, Any]:
        own = set(process.of_run(self._run_id))
        try:
            seen = npu.look()
            devices = npu.interpret(seen)
        except Failure as failure:
            return {"when": when, "error": failure.message}
        own |= set(process.of_run(self._run_id))
        logic_ids = {device["logic"] for device in self.devices}
        return {"when": when, **split([d for d in devices if d.logic in logic_ids], own, seen["in_container"])}


def split(devices: Iterable[npu.Device], own: Set[int], in_container: bool) -> Dict[str, Any]:
    """The processes on `devices`, ours and others'. Pure.

    A container may show ids of another namespace: where none is ours, at most one a device is taken for ours, because
    somebody has to be the process that we know to be there.
    """
    rows = [(device, row) for device in devices for row in device.processes]
    ours = sorted({row.pid for _, row in rows if row.pid in own})
    others = [(device, row) for device, row in rows if row.pid not in own]
    if in_container and not ours and len(others) <= len({device.logic for device, _ in others}):
        others = []
    return {
        "own": ours,
        "strangers": [
            {"pid": row.pid, "name": row.name, "memory_mb": row.memory_mb, "label": device.label}
            for device, row in others
        ],
    }


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
