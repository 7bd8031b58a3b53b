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
from . import _paths


class Raw(NamedTuple):
    """One window, times in ns since the epoch."""

    pid: int
    calls: List[Call]
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
    signatures: Dict[Signature, int] = {}
    calls = [[signatures.setdefault(c.signature, len(signatures))] + list(c[1:]) for c in recorder.calls]
    table = [list(s) for s in signatures]
    if host:
        folder = os.path.join(profile, "FRAMEWORK")
        _paths.make_directory(folder)
        offset = time.time_ns() - now_ns()
        content = {
            "pid": os.getpid(),
            "offset_ns": offset,
            "signatures": table,
            "calls": calls,
            "marks": recorder.marks,
        }
        _paths.write(os.path.join(folder, "torch.op_range"), json.dumps(content))
        if recorder.with_memory:
            _paths.write(os.path.join(folder, "torch.memory_usage"), json.dumps(recorder.memory))
    if cann:
        content = {"pid": os.getpid(), "signatures": table, "calls": calls}
        path = os.path.join(cann, "device_{}".format(device), "data", "stars_soc.data.{}.slice_0".format(device))
        _paths.write(path, json.dumps(content))


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
    marks: List[Mark] = []
    memory: List[Memory] = []
    calls: List[Call] = []
    pid = 0
    offset = _offset(cann) if cann else 0
    if framework:
        with open(os.path.join(framework, "torch.op_range")) as file:
            content = json.load(file)
        offset = offset or content["offset_ns"]
        pid = content["pid"]
        calls = _calls(content, offset)
        marks = [Mark(m[0], m[1] + offset, m[2] + offset, m[3]) for m in content["marks"]]
        path = os.path.join(framework, "torch.memory_usage")
        if os.path.exists(path):
            with open(path) as file:
                memory = [Memory(row[0] + offset, *row[1:]) for row in json.load(file)]
    elif cann and os.path.exists(_device_file(cann)):
        with open(_device_file(cann)) as file:
            content = json.load(file)
        pid = content["pid"]
        calls = _calls(content, offset)
    return Raw(pid, calls, marks, memory, bool(framework), bool(cann))
