"""``torch_npu.npu``, also known as ``torch.npu``: devices, memory, streams and events."""

from __future__ import annotations

import os
from typing import Any, Optional, Tuple

import torch
from torch._tensor import UNKNOWN

from . import _device, _driver
from ._device import now_ns, state


def __getattr__(name: str) -> Any:
    raise AttributeError(UNKNOWN.format("npu." + name))


def _index(device: Any) -> int:
    """A visible index from an int, "npu:1", a torch.device, or None for the current one."""
    if device is None:
        return state.index
    if isinstance(device, int):
        return device
    found = torch.device(device)
    if found.type != "npu":
        raise ValueError("Expected a npu device, but got: {}".format(found))
    return state.index if found.index is None else found.index


def _opened(device: Any) -> int:
    index = _index(device)
    state.open(index)
    return index


def init() -> None:
    state.open(state.index)


_lazy_init = init


def is_initialized() -> bool:
    return bool(state.opened)


def device_count() -> int:
    return len(state.visible)


def is_available() -> bool:
    return device_count() > 0


def set_device(device: Any) -> None:
    index = _index(device)
    if index >= 0:
        state.open(index)
        state.index = index


def current_device() -> int:
    return _opened(None)


class device:
    """Context manager: another current device."""

    def __init__(self, device: Any) -> None:
        self._index = _index(device)

    def __enter__(self) -> None:
        self._before = state.index
        set_device(self._index)

    def __exit__(self, *exc: object) -> None:
        state.index = self._before


def synchronize(device: Any = None) -> None:
    """Wait for all that was launched."""
    _opened(device)
    state.synchronize()


def get_device_name(device: Any = None) -> str:
    return state.visible[_opened(device)].soc


def get_soc_version() -> int:
    return _driver.SOC_VERSIONS[state.visible[_opened(None)].soc]


class _Properties:
    def __init__(self, name: str, total_memory: int) -> None:
        self.name = name
        self.total_memory = total_memory
        self.cube_core_num, self.vector_core_num = 20, 40
        self.L2_cache_size = 192 << 20

    def __repr__(self) -> str:
        return "_NPUDeviceProperties(name='{}', total_memory={}MB, cube_core_num=20, vector_core_num=40)".format(
            self.name, self.total_memory >> 20
        )


def get_device_properties(device: Any = None) -> _Properties:
    chip = state.visible[_opened(device)]
    return _Properties(chip.soc, chip.total_mb << 20)


def mem_get_info(device: Any = None) -> Tuple[int, int]:
    """Free and total bytes of a device, other processes included."""
    index = _opened(device)
    return state.free_bytes(index), state.visible[index].total_mb << 20


def memory_allocated(device: Any = None) -> int:
    return state.allocated.get(_index(device), 0)


def memory_reserved(device: Any = None) -> int:
    return state.reserved.get(_index(device), 0)


def max_memory_allocated(device: Any = None) -> int:
    return state.peak.get(_index(device), 0)


def reset_peak_memory_stats(device: Any = None) -> None:
    state.peak[_index(device)] = memory_allocated(device)


def empty_cache() -> None:
    """Give unused segments back to the device."""
    for index in state.opened:
        state.reserved[index] = -(-state.allocated[index] // _device.SEGMENT) * _device.SEGMENT
    if state.opened:
        state.publish()


class Stream:
    """The stand-in has one stream a process; every Stream is that one."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = torch.device("npu", _index(device))

    def synchronize(self) -> None:
        state.synchronize()

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        return now_ns() >= state.stream_end_ns

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def current_stream(device: Any = None) -> Stream:
    return Stream(device)


default_stream = current_stream


def stream(one: Any) -> Any:
    return one if one is not None else Stream()


class Event:
    """A point on the device's clock."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._time_ns: Optional[int] = None

    def record(self, stream: Any = None) -> None:
        self._time_ns = max(now_ns(), state.stream_end_ns)

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return self._time_ns is None or now_ns() >= self._time_ns

    def synchronize(self) -> None:
        state.synchronize()

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds to ``end``."""
        if self._time_ns is None or end._time_ns is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end._time_ns - self._time_ns) / 1e6


def manual_seed(seed: int) -> None:
    torch.manual_seed(seed)


manual_seed_all = manual_seed


def is_bf16_supported() -> bool:
    return True


def set_compile_mode(jit_compile: bool = False) -> None:
    """Accepted; the stand-in has one way to compile."""


def _after_fork() -> None:
    """A forked child may not use a device that its parent has opened."""
    state.recorder = None
    state.bad_fork = bool(state.opened)
    state.opened = []


os.register_at_fork(after_in_child=_after_fork)
