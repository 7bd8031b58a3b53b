"""The simulated device: a clock for its one stream, its memory, and the tap that the profiler listens to.

Operators return at once; the device works them off in its own time, which ``kernels`` invents from the shapes.
Whoever reads a value or synchronises waits (really sleeps) until the stream is done. Nothing here is a measurement.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch._launch
from torch._types import device

from . import _driver
from ._errors import acl_error, error_line
from ._faults import fault

LAUNCH_LATENCY_NS = 2_000
KERNEL_GAP_NS = 20
COMPILE_NS = 2_000_000  # the first call of an operator takes so much longer on the host ...
COMPILE_BUDGET_NS = 20_000_000  # ... until a process has spent this much
SEGMENT = 2 << 20
PUBLISH_BYTES = 64 << 20

_clock = time.CLOCK_MONOTONIC_RAW


def now_ns() -> int:
    """CLOCK_MONOTONIC_RAW, the clock of everything that is recorded."""
    return time.clock_gettime_ns(_clock)


def load_kernels() -> Any:
    """The package ``tests/simhost/kernels``, shared by both runtimes, loaded by its place beside this one."""
    name = "torch_npu._kernels"
    if name not in sys.modules:
        here = os.path.dirname(os.path.realpath(__file__))
        place = os.path.join(os.path.dirname(os.path.dirname(here)), "kernels")
        path = os.path.join(place, "__init__.py")
        spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=[place])
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


class Signature(NamedTuple):
    """An operator with the shapes and types it ran on; two calls with the same one take the same time."""

    name: str
    inputs: Tuple[Tuple[Tuple[int, ...], str], ...]
    outputs: Tuple[Tuple[Tuple[int, ...], str], ...]


class Call(NamedTuple):
    """One operator on the device; times in ns of CLOCK_MONOTONIC_RAW."""

    signature: Signature
    start_ns: int
    end_ns: int
    kernel_start_ns: int
    kernel_ns: int
    thread_id: int
    device: int
    stack: Tuple[str, ...]


class Mark(NamedTuple):
    """A named range of the host (``record_function``, ``ProfilerStep#N``)."""

    name: str
    start_ns: int
    end_ns: int
    thread_id: int


class Memory(NamedTuple):
    """One allocation (positive) or release (negative) and what the process held after it, in bytes."""

    time_ns: int
    nbytes: int
    address: int
    allocated: int
    reserved: int
    name: str
    device: int


class Recorder:
    """What ran between the start and the stop of a window."""

    def __init__(self, with_stack: bool, with_memory: bool) -> None:
        self.with_stack = with_stack
        self.with_memory = with_memory
        self.calls: List[Call] = []
        self.marks: List[Mark] = []
        self.memory: List[Memory] = []

    def name_allocations(self, name: str) -> None:
        """An operator allocates its results before it runs: what has no name yet is its."""
        for at in range(len(self.memory) - 1, -1, -1):
            if self.memory[at].name:
                break
            self.memory[at] = self.memory[at]._replace(name=name)


class Storage:
    """Memory of one tensor; gone with the last reference to it."""

    __slots__ = ("nbytes", "index")

    def __init__(self, nbytes: int, index: int) -> None:
        self.nbytes = nbytes
        self.index = index
        state.claim(nbytes, index, id(self))

    def __del__(self) -> None:
        state.release(self.nbytes, self.index, id(self))


class State:
    """This process and its devices (visible indices)."""

    def __init__(self) -> None:
        self.index = 0
        self.opened: List[int] = []
        self.bad_fork = False
        self.stream_end_ns = 0
        self.allocated: Dict[int, int] = {}
        self.reserved: Dict[int, int] = {}
        self.peak: Dict[int, int] = {}
        self.published = -1
        self.compiled: set = set()
        self.compile_left_ns = COMPILE_BUDGET_NS
        self.recorder: Optional[Recorder] = None
        self.durations: Dict[Signature, int] = {}
        self._visible: Optional[List[_driver.Chip]] = None

    @property
    def visible(self) -> List[_driver.Chip]:
        """The devices of this process; the environment is read once, when somebody first asks."""
        if self._visible is None:
            self._visible = _driver.visible(_driver.chips())
        return self._visible

    def open(self, index: int) -> None:
        """Use a device; the first use makes this process one of its holders."""
        if index in self.opened:
            return
        if self.bad_fork:
            raise RuntimeError(
                "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use the "
                "'spawn' start method"
            )
        code = fault("device_fails")
        if code is not None:
            raise acl_error(
                "aclrtSetDevice",
                int(code or 507033),
                "Failed to start the device.",
                "EL0003: [PID: {}] open device {} failed, runtime result = {}.".format(
                    os.getpid(), index, code or 507033
                ),
            )
        if not 0 <= index < len(self.visible):
            raise acl_error(
                "aclrtSetDevice",
                107001,
                "Invalid device ID.\n        Check whether the device ID is valid.",
                "EE1001: [PID: {}] The argument is invalid.Reason: Set device failed, invalid device, set device={}, "
                "valid device range is [0, {})".format(os.getpid(), index, len(self.visible)),
            )
        if self.visible[index].soc not in _driver.SOC_VERSIONS:
            raise RuntimeError("Unsupported soc version: {}".format(self.visible[index].soc))
        if not self.opened:
            _driver.leave_files()
        self.opened.append(index)
        self.allocated.setdefault(index, 0)
        self.reserved.setdefault(index, 0)
        self.publish()

    def held_mb(self, index: int) -> int:
        return _driver.CONTEXT_MB + (self.reserved[index] + (1 << 20) - 1 >> 20)

    def publish(self) -> None:
        _driver.hold({self.visible[index].phy: self.held_mb(index) for index in self.opened})
        self.published = sum(self.reserved.values())

    def free_bytes(self, index: int) -> int:
        chip = self.visible[index]
        used = chip.idle_used_mb + _driver.held_by_others(chip.phy) + self.held_mb(index)
        return max(0, (chip.total_mb - used) << 20)

    # --- memory ---

    def claim(self, nbytes: int, index: int, address: int) -> None:
        size = (nbytes + 511) & ~511
        need = self.allocated[index] + size - self.reserved[index]
        if need > 0:
            grow = -(-need // SEGMENT) * SEGMENT
            grown = sum(self.reserved.values()) + grow - self.published > PUBLISH_BYTES
            if grown and grow > self.free_bytes(index):
                raise self._exhausted(nbytes, index)
            self.reserved[index] += grow
            if grown:
                self.publish()
        self.allocated[index] += size
        self.peak[index] = max(self.peak.get(index, 0), self.allocated[index])
        self._remember(size, address, index)

    def release(self, nbytes: int, index: int, address: int) -> None:
        size = (nbytes + 511) & ~511
        self.allocated[index] -= size
        self._remember(-size, address, index)

    def _remember(self, size: int, address: int, index: int) -> None:
        recorder = self.recorder
        if recorder is not None and recorder.with_memory:
            held = self.allocated[index], self.reserved[index]
            recorder.memory.append(Memory(now_ns(), size, address, *held, "", index))

    def _exhausted(self, nbytes: int, index: int) -> RuntimeError:
        def text(n: int) -> str:
            return "{:.2f} GiB".format(n / 2**30) if n >= 2**30 else "{:.2f} MiB".format(n / 2**20)

        return torch.OutOfMemoryError(  # type: ignore[no-any-return]
            "NPU out of memory. Tried to allocate {} (NPU {}; {} total capacity; {} already allocated; {} current "
            "active; {} free; {} reserved in total by PyTorch) If reserved memory is >> allocated memory try setting "
            "max_split_size_mb to avoid fragmentation.{}".format(
                text(nbytes),
                index,
                text(self.visible[index].total_mb << 20),
                text(self.allocated[index]),
                text(self.allocated[index]),
                text(self.free_bytes(index)),
                text(self.reserved[index]),
                error_line("PTA", "acl"),
            )
        )

    # --- work ---

    def duration_ns(self, signature: Signature) -> int:
        found = self.durations.get(signature)
        if found is None:
            kernels = load_kernels()
            kind = kernels.kind_of(signature.name)
            inputs, outputs = ([kernels.Tensor(*t) for t in side] for side in signature[1:])
            found = kernels.estimate_ns(kind, kernels.flops_of(kind, inputs, outputs), inputs, outputs)
            self.durations[signature] = found
        return found

    def compile(self, name: str) -> None:
        if name not in self.compiled:
            self.compiled.add(name)
            cost = min(COMPILE_NS, self.compile_left_ns)
            self.compile_left_ns -= cost
            if cost > 0:
                time.sleep(cost / 1e9)

    def synchronize(self) -> None:
        left = self.stream_end_ns - now_ns()
        if left > 0:
            time.sleep(left / 1e9)


def _stack() -> Tuple[str, ...]:
    """The caller's frames outside of the stand-ins, innermost first, as "file(line): function"."""
    frames: List[str] = []
    frame: Any = sys._getframe(2)
    while frame is not None and len(frames) < 32:
        name = frame.f_globals.get("__name__", "")
        if name not in ("torch", "torch_npu") and not name.startswith(("torch_npu.", "torch._")):
            frames.append("{}({}): {}".format(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(frames)


class NpuBackend(torch._launch.Backend):
    def launch(self, name: str, where: device, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        start = now_ns()
        signature = Signature(
            name,
            tuple([(t._shape, t.dtype.name) for t in inputs if t.device.type == "npu"]),
            tuple([(t._shape, t.dtype.name) for t in outputs]),
        )
        state.compile(name)
        kernel_ns = state.duration_ns(signature)
        recorder = state.recorder
        if recorder is not None and recorder.with_memory:
            recorder.name_allocations(name)
        stack = _stack() if recorder is not None and recorder.with_stack else ()
        end = now_ns()
        kernel_start = max(end + LAUNCH_LATENCY_NS, state.stream_end_ns + KERNEL_GAP_NS)
        state.stream_end_ns = kernel_start + kernel_ns
        if recorder is not None:
            recorder.calls.append(
                Call(signature, start, end, kernel_start, kernel_ns, _thread_id(), where.index or 0, stack)
            )

    def allocate(self, where: device, nbytes: int) -> Storage:
        return Storage(nbytes, where.index or 0)

    def synchronize(self) -> None:
        state.synchronize()

    def annotate(self, name: str) -> Optional[Callable[[], None]]:
        recorder = state.recorder
        if recorder is None:
            return None
        start = now_ns()

        def end() -> None:
            if state.recorder is recorder:
                recorder.marks.append(Mark(name, start, now_ns(), _thread_id()))

        return end

    def resolve(self, where: device) -> device:
        index = state.index if where.index is None else where.index
        state.open(index)
        return device("npu", index)


def _thread_id() -> int:
    return threading.get_native_id()


state = State()
