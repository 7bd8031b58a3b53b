"""The shape-only tensor: shape, dtype, device, and the values of small ones where they are known.

Operators live in the ``_ops_*`` files and are attached to the class by ``torch/__init__.py``.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence, Tuple

from . import _launch, _values
from ._types import CPU, Size, bool_, count, device, dtype, float32, int64
from ._values import Values

UNKNOWN = "the light stand-in of torch has no {}"


class Tensor:
    __slots__ = ("_shape", "dtype", "device", "_data", "_contiguous", "_storage", "requires_grad", "_base", "grad")

    def __init__(
        self,
        shape: Sequence[int],
        of: dtype = float32,
        where: device = CPU,
        data: Values = None,
        storage: Any = None,
        base: Optional[Tensor] = None,
        contiguous: bool = True,
    ) -> None:
        self._shape = tuple(shape)
        self.dtype = of
        self.device = where
        self._data = data
        self._contiguous = contiguous
        self._base = base
        self.requires_grad = False
        self.grad = None
        if storage is None and where.type == "npu":
            storage = _launch.backend.allocate(where, count(self._shape) * of.itemsize)
        self._storage = storage

    # --- what a tensor says about itself ---

    @property
    def shape(self) -> Size:
        return Size(self._shape)

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def data(self) -> Tensor:
        return self

    @data.setter
    def data(self, other: Tensor) -> None:
        self._become(other)

    @property
    def is_npu(self) -> bool:
        return self.device.type == "npu"

    @property
    def is_cuda(self) -> bool:
        return False

    @property
    def is_meta(self) -> bool:
        return self.device.type == "meta"

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    def size(self, dim: Optional[int] = None) -> Any:
        return self.shape if dim is None else self._shape[wrap(dim, self.ndim)]

    def dim(self) -> int:
        return len(self._shape)

    def numel(self) -> int:
        return count(self._shape)

    nelement = numel

    def element_size(self) -> int:
        return self.dtype.itemsize

    def is_contiguous(self) -> bool:
        return self._contiguous

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def get_device(self) -> int:
        return -1 if self.device.index is None else self.device.index

    def data_ptr(self) -> int:
        return id(self._storage if self._storage is not None else self)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        self.requires_grad = requires_grad
        return self

    def detach(self) -> Tensor:
        return self.view_as_self()

    def backward(self, gradient: Optional[Tensor] = None) -> None:
        """One kernel and no gradients: what was computed is not remembered."""
        if gradient is None and self.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        run("ones_like", [self], self._shape, self.dtype)

    # --- values on the host ---

    def _host_values(self) -> list:
        if self.device.type == "meta":
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        if self.device.type == "npu":
            _launch.backend.synchronize()
        if self._data is None:
            return [_values.unknown(self.dtype)] * self.numel()
        return self._data

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError("a Tensor with {} elements cannot be converted to Scalar".format(self.numel()))
        return self._host_values()[0]

    def tolist(self) -> Any:
        return _values.nested(self._host_values(), self._shape)

    def __bool__(self) -> bool:
        if self.numel() != 1:
            kind = "no values" if not self.numel() else "more than one value"
            raise RuntimeError("Boolean value of Tensor with {} is ambiguous".format(kind))
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    __index__ = __int__

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of a 0-d tensor")
        return self._shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self._shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter([self[i] for i in range(self._shape[0])])

    def __hash__(self) -> int:
        return id(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self._shape else str(self)

    def __repr__(self) -> str:
        text = "..." if self._data is None else str(_values.nested(self._data, self._shape))
        parts = [text]
        if self._data is None:
            parts.append("size={}".format(self._shape))
        if self.device.type != "cpu":
            parts.append("device='{}'".format(self.device))
        if self.dtype not in (float32, int64, bool_):
            parts.append("dtype={}".format(self.dtype))
        return "tensor({})".format(", ".join(parts))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(UNKNOWN.format("Tensor." + name))

    # --- how operators make and change tensors ---

    def _view(self, shape: Sequence[int], data: Values, contiguous: bool = True) -> Tensor:
        base = self if self._base is None else self._base
        out = Tensor.__new__(Tensor)
        Tensor.__init__(out, shape, self.dtype, self.device, data, self._storage, base, contiguous)
        return out

    def view_as_self(self) -> Tensor:
        return self._view(self._shape, self._data, self._contiguous)

    def _become(self, other: Tensor) -> None:
        """Take over the contents of ``other``; an in-place operator also makes the values of its base unknown."""
        self._shape, self.dtype, self.device = other._shape, other.dtype, other.device
        self._data, self._contiguous, self._storage = other._data, other._contiguous, other._storage
        if self._base is not None:
            self._base._data = None


class Parameter(Tensor):
    """A tensor that ``nn.Module`` registers when it is assigned as an attribute."""

    __slots__ = ()

    def __init__(self, data: Optional[Tensor] = None, requires_grad: bool = True) -> None:
        if data is None:
            data = Tensor((0,))
        Tensor.__init__(self, data._shape, data.dtype, data.device, data._data, data._storage, None, data._contiguous)
        self.requires_grad = requires_grad

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)


def wrap(dim: int, ndim: int) -> int:
    """A dimension counted from the front; raises IndexError outside of [-ndim, ndim-1]."""
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    if not low <= dim <= high:
        raise IndexError(
            "Dimension out of range (expected to be in range of [{}, {}], but got {})".format(low, high, dim)
        )
    return dim % ndim if ndim else 0


def place(tensors: Sequence[Any]) -> device:
    """The one device of an operator's tensors; a 0-dim tensor of the host may join those of a device."""
    devices = {one.device for one in tensors if one._shape or one.device.type != "cpu"}
    if len(devices) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, {} and {}!".format(
                *sorted(devices, key=str, reverse=True)
            )
        )
    return devices.pop() if devices else CPU


def run(name: str, inputs: Sequence[Tensor], shape: Sequence[int], of: dtype, data: Values = None) -> Tensor:
    """The result of one operator: a new tensor on the device of its inputs, and a kernel there."""
    where = place(inputs)
    out = Tensor(shape, of, where, data)
    if where.type == "npu":
        _launch.backend.launch("aten::" + name, where, inputs, [out])
    return out


def launched(name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """A kernel for an operator whose results were made by hand."""
    where = outputs[0].device
    if where.type == "npu":
        _launch.backend.launch("aten::" + name, where, inputs, outputs)


def is_scalar(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def shape_of(args: Tuple[Any, ...]) -> Tuple[int, ...]:
    """``f(2, 3)`` and ``f((2, 3))`` alike."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    return tuple(int(a) for a in args)
