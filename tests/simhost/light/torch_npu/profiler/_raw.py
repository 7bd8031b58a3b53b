"""Raw data of one window: what the profiler leaves in FRAMEWORK and PROF_*, and how the parser reads it back.

Places and names are those of torch_npu and CANN (2.13.0, 8.3); the contents are JSON of our own, since only this
parser reads them. Two files have the real form, because their clock offset is what ties host and device together:
``host/start_info`` and ``device_<n>/start_info.<n>``.
"""

from __future__ import annotations

import json
import os
import random
import time
from typing import Any, Dict, List, NamedTuple

from .._device import Call, Mark, Memory, Recorder, Signature, now_ns
from .._faults import fault
from . import _paths


class Raw(NamedTuple):
    """One window, times in ns since the epoch."""

    pid: int
    calls: List[Call]  # as the host saw them; empty without FRAMEWORK
    tasks: List[Call]  # as the device saw them; empty without PROF_*
    marks: List[Mark]
    memory: List[Memory]
    host: bool  # FRAMEWORK is there
    device: bool  # PROF_* is there


def create_cann_directory(profile: str, device: int) -> str:
    """What aclprofInit makes: ``PROF_000001_<17 digits>_<letters>`` with a host and a device part."""
    letters = "".join(random.choice("ABCDEFGHIJKLMNOPQR") for _ in range(16))
    seconds = time.time()
    digits = time.strftime("%Y%m%d%H%M%S", time.localtime(seconds)) + "{:03d}".format(int(seconds * 1000) % 1000)
    top = os.path.join(profile, "PROF_000001_{}_{}".format(digits, letters))
    info = json.dumps({"collectionTimeBegin": str(time.time_ns() // 1000), "clockMonotonicRaw": str(now_ns())})
    for part, name in (("host", "start_info"), ("device_{}".format(device), "start_info.{}".format(device))):
        # Not by makedirs(mode): CANN's directories follow the umask.
        os.makedirs(os.path.join(top, part, "data"))
        _paths.write(os.path.join(top, part, name), info)
    return top


def dump(profile: str, recorder: Recorder, host: bool, cann: str, device: int) -> None:
    """Write what was recorded; ``cann`` is "" when the device part is not wanted."""
    content: Dict[str, Any] = {"pid": os.getpid(), "offset_ns": time.time_ns() - now_ns()}
    if host:
        folder = os.path.join(profile, "FRAMEWORK")
        _paths.make_directory(folder)
        content["marks"] = recorder.marks
        _paths.write(os.path.join(folder, "torch.op_range"), json.dumps(dict(content, **_packed(recorder.calls))))
        if recorder.with_memory:
            _paths.write(os.path.join(folder, "torch.memory_usage"), json.dumps(recorder.memory))
    if cann:
        lost = fault("lost_head_step")
        tasks = recorder.calls if lost is None else _without_head(recorder, whole=lost == "all")
        path = os.path.join(cann, "device_{}".format(device), "data", "stars_soc.data.{}.slice_0".format(device))
        _paths.write(path, json.dumps(dict(content, **_packed(tasks))))


def _packed(calls: List[Call]) -> Dict[str, Any]:
    """Calls with their signatures, of which there are few, in a table of its own."""
    signatures: Dict[Signature, int] = {}
    rows = [[signatures.setdefault(c.signature, len(signatures))] + list(c[1:]) for c in calls]
    return {"signatures": [list(s) for s in signatures], "calls": rows}


def _without_head(recorder: Recorder, whole: bool) -> List[Call]:
    """The device's part without that of the first step, or without its first half: collecting began too late."""
    steps = [mark for mark in recorder.marks if mark.name.startswith("ProfilerStep#")]
    if not steps:
        return recorder.calls
    head = [call for call in recorder.calls if steps[0].start_ns <= call.start_ns <= steps[0].end_ns]
    return recorder.calls[len(head) if whole else len(head) // 2 :]


def _offset(cann: str) -> int:
    with open(os.path.join(cann, "host", "start_info")) as file:
        info = json.load(file)
    return int(info["collectionTimeBegin"]) * 1000 - int(info["clockMonotonicRaw"])


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _calls(content: Dict[str, Any], offset: int) -> List[Call]:
    signatures = [Signature(*_tuples(row)) for row in content["signatures"]]
    out = []
    for index, start, end, kernel_start, kernel_ns, thread, device, stack in content["calls"]:
        out.append(
            Call(
                signatures[index],
                start + offset,
                end + offset,
                kernel_start + offset,
                kernel_ns,
                thread,
                device,
                tuple(stack),
            )
        )
    return out


def _device_file(cann: str) -> str:
    part = _paths.subdirectory(cann, r"^device_\d")
    return os.path.join(part, "data", "stars_soc.data.{}.slice_0".format(part.rsplit("_", 1)[1])) if part else ""


def load(profile: str) -> Raw:
    """Read a directory back; raises OSError, KeyError or ValueError when the raw data are damaged."""
    framework, cann = _paths.framework_directory(profile), _paths.cann_directory(profile)
    content: Dict[str, Any] = {"pid": 0}
    calls: List[Call] = []
    tasks: List[Call] = []
    marks: List[Mark] = []
    memory: List[Memory] = []
    offset = _offset(cann) if cann else 0
    path = _device_file(cann) if cann else ""
    if os.path.exists(path):
        with open(path) as file:
            content = json.load(file)
        tasks = _calls(content, offset)
    if framework:
        with open(os.path.join(framework, "torch.op_range")) as file:
            content = json.load(file)
        offset = offset or content["offset_ns"]
        calls = _calls(content, offset)
        marks = [Mark(m[0], m[1] + offset, m[2] + offset, m[3]) for m in content["marks"]]
        path = os.path.join(framework, "torch.memory_usage")
        if os.path.exists(path):
            with open(path) as file:
                memory = [Memory(row[0] + offset, *row[1:]) for row in json.load(file)]
    return Raw(content["pid"], calls, tasks, marks, memory, bool(framework), bool(cann))
