"""Where a device backend hooks in: torch itself knows no device, it only tells what ran on which."""

from __future__ import annotations

from typing import Any, Callable, Optional, Sequence

from ._types import device


class Backend:
    """What torch asks of a device; ``torch_npu`` replaces the one instance below."""

    def launch(self, name: str, where: device, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """An operator ran on ``where``; ``inputs`` and ``outputs`` are its tensors."""

    def allocate(self, where: device, nbytes: int) -> Any:
        """The storage of a new tensor; the memory is held as long as the returned object lives."""

    def synchronize(self) -> None:
        """Wait for the device, as every read of a value on the host does."""

    def annotate(self, name: str) -> Optional[Callable[[], None]]:
        """Begin a named range of the host; what is returned ends it."""

    def resolve(self, where: device) -> device:
        """``npu`` -> ``npu:<current>``, checked; raises RuntimeError for a device that is not there."""
        raise RuntimeError("PyTorch is not linked with support for {} devices".format(where.type))


backend = Backend()


def install(new: Backend) -> None:
    global backend
    backend = new


class record_function:
    """``torch.profiler.record_function``: a named host range in the profile."""

    def __init__(self, name: str, args: Optional[str] = None) -> None:
        self._name = name
        self._end: Optional[Callable[[], None]] = None

    def __enter__(self) -> record_function:
        self._end = backend.annotate(self._name)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._end is not None:
            self._end()
            self._end = None

    def __call__(self, func: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with record_function(self._name):
                return func(*args, **kwargs)

        return wrapper
