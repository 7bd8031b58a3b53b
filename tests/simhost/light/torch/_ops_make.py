"""Operators that make tensors: factories, random numbers, conversion between devices and types."""

from __future__ import annotations

import math
import random
from typing import Any, Optional, Sequence

from . import _launch, _values
from ._tensor import Tensor, is_scalar, launched, run, shape_of
from ._types import CPU, bool_, count, default_device, device, dtype, get_default_dtype, int64
from ._values import Values


def _where(where: Any) -> device:
    if where is None:
        found = default_device()
    else:
        found = where if isinstance(where, device) else device(where)
    return found if found.type != "npu" else _launch.backend.resolve(found)


class Generator:
    """A stream of random numbers with a seed of its own."""

    def __init__(self, device: Any = "cpu") -> None:
        self._seed = 0
        self.device = _where(device)
        self._random = random.Random(0)

    def manual_seed(self, seed: int) -> Generator:
        self._seed = int(seed)
        self._random.seed(self._seed)
        return self

    def initial_seed(self) -> int:
        return self._seed

    def seed(self) -> int:
        return self.manual_seed(random.SystemRandom().getrandbits(63)).initial_seed()


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    return default_generator.manual_seed(seed)


def draw(generator: Optional[Generator] = None) -> random.Random:
    return (generator or default_generator)._random


def _make(name: str, shape: Sequence[int], of: dtype, where: Any, data: Values, kernel: bool = True) -> Tensor:
    out = Tensor(shape, of, _where(where), data)
    if kernel and out.numel():
        launched(name, [], [out])
    return out


def tensor(data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    if isinstance(data, Tensor):
        return data.clone() if dtype is None and device is None else data.to(device or data.device, dtype)
    shape, flat = _values.flatten(data)
    flat = [v.item() if isinstance(v, Tensor) else v for v in flat]
    if dtype is None:
        if any(isinstance(v, float) for v in flat) or not flat:
            dtype = get_default_dtype()
        else:
            dtype = bool_ if all(isinstance(v, bool) for v in flat) else int64
    values = _values.cast(flat, dtype) if _values.keep(shape) else None
    # A copy from the host, not a kernel.
    return _make("tensor", shape, dtype, device, values, kernel=False).requires_grad_(requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    if isinstance(data, Tensor):
        return data.to(device if device is not None else data.device, dtype)
    return tensor(data, dtype, device)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
    shape = shape_of((size,) if not isinstance(size, int) else ((size,),))
    value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    if dtype is None:
        dtype = bool_ if isinstance(value, bool) else int64 if isinstance(value, int) else get_default_dtype()
    values = _values.cast([value] * count(shape), dtype) if _values.keep(shape) else None
    return _make("fill_", shape, dtype, device, values)


def _factory(name: str, value: Optional[int], kernel: bool = True) -> Any:
    def make(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
             **_: Any) -> Tensor:  # fmt: skip
        shape = shape_of(sizes if size is None else (size,))
        dtype = dtype or get_default_dtype()
        known = value is not None and _values.keep(shape)
        values = _values.cast([value] * count(shape), dtype) if known else None
        return _make(name, shape, dtype, device, values, kernel).requires_grad_(requires_grad)

    make.__name__ = name
    return make


zeros = _factory("zeros", 0)
ones = _factory("ones", 1)
empty = _factory("empty", None, kernel=False)


def _random(name: str, one: Any) -> Any:
    def make(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None,
             generator: Optional[Generator] = None, **_: Any) -> Tensor:  # fmt: skip
        shape = shape_of(sizes if size is None else (size,))
        values = [one(draw(generator)) for _ in range(count(shape))] if _values.keep(shape) else None
        return _make(name, shape, dtype or get_default_dtype(), device, values)

    make.__name__ = name
    return make


randn = _random("randn", lambda source: source.gauss(0.0, 1.0))
rand = _random("rand", lambda source: source.random())


def randint(low: int, high: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
            generator: Optional[Generator] = None) -> Tensor:  # fmt: skip
    if size is None:
        low, high, size = 0, low, high
    shape = shape_of((size,))
    source = draw(generator)
    values = [source.randrange(low, high) for _ in range(count(shape))] if _values.keep(shape) else None
    return _make("randint", shape, dtype or int64, device, values)


def randperm(n: int, *, dtype: Any = None, device: Any = None, generator: Optional[Generator] = None) -> Tensor:
    values = list(range(n)) if _values.keep((n,)) else None
    if values:
        draw(generator).shuffle(values)
    return _make("randperm", (n,), dtype or int64, device, values)


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    if end is None:
        start, end = 0, start
    start, end, step = (v.item() if isinstance(v, Tensor) else v for v in (start, end, step))
    length = max(0, math.ceil((end - start) / step))
    if dtype is None:
        whole = all(isinstance(v, int) for v in (start, end, step))
        dtype = int64 if whole else get_default_dtype()
    values = _values.cast([start + i * step for i in range(length)], dtype) if _values.keep((length,)) else None
    return _make("arange", (length,), dtype, device, values)


def linspace(start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None) -> Tensor:
    gap = (end - start) / (steps - 1) if steps > 1 else 0.0
    dtype = dtype or get_default_dtype()
    values = _values.cast([start + i * gap for i in range(steps)], dtype) if _values.keep((steps,)) else None
    return _make("linspace", (steps,), dtype, device, values)


def eye(n: int, m: Optional[int] = None, *, dtype: Any = None, device: Any = None) -> Tensor:
    shape = (n, n if m is None else m)
    values = [float(i == j) for i in range(n) for j in range(shape[1])] if _values.keep(shape) else None
    return _make("eye", shape, dtype or get_default_dtype(), device, values)


def _like(make: Any) -> Any:
    def like(x: Tensor, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
        kwargs.pop("memory_format", None)
        where = x.device if device is None else device
        return make(x._shape, *args, dtype=dtype or x.dtype, device=where, **kwargs)

    return like


zeros_like, ones_like, empty_like = _like(zeros), _like(ones), _like(empty)
randn_like, rand_like, full_like = _like(randn), _like(rand), _like(full)


def _new(make: Any) -> Any:
    def new(x: Tensor, *size: Any, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:
        return make(*size, dtype=dtype or x.dtype, device=x.device if device is None else device)

    return new


new_zeros, new_ones, new_empty, new_full = _new(zeros), _new(ones), _new(empty), _new(full)


def new_tensor(x: Tensor, data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    return tensor(data, dtype or x.dtype, x.device if device is None else device)


def clone(x: Tensor, memory_format: Any = None) -> Tensor:
    return run("clone", [x], x._shape, x.dtype, x._data)


def contiguous(x: Tensor, memory_format: Any = None) -> Tensor:
    return x if x._contiguous else run("contiguous", [x], x._shape, x.dtype, x._data)


def to(x: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **_: Any) -> Tensor:
    """Another dtype is a kernel (a cast) on the device; another device is a copy over the bus, not a kernel."""
    for arg in args:
        if isinstance(arg, Tensor):
            device, dtype = arg.device, arg.dtype
        elif type(arg).__name__ == "dtype":
            dtype = arg
        elif isinstance(arg, bool) or arg is None:
            continue  # non_blocking, copy
        else:
            device = arg
    where = x.device if device is None else _where(device)
    of = dtype or x.dtype
    if where == x.device and of is x.dtype:
        return x.clone() if copy else x
    if where != x.device:
        if x.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        if x.device.type == "npu":
            _launch.backend.synchronize()
        moved = Tensor(x._shape, x.dtype, where, x._data)
        moved.requires_grad = x.requires_grad
        return moved if of is x.dtype else moved.to(of)
    return run("_to_copy", [x], x._shape, of, _values.cast(x._data, of))


def cpu(x: Tensor) -> Tensor:
    return to(x, CPU)


def npu(x: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    return to(x, "npu" if device is None else device)


def type_as(x: Tensor, other: Tensor) -> Tensor:
    return to(x, other)


def _caster(of: dtype) -> Any:
    def cast(x: Tensor) -> Tensor:
        return to(x, of)

    return cast


def _filled(x: Tensor, name: str, values: Values, inputs: Sequence[Tensor] = ()) -> Tensor:
    """An in-place overwrite of ``x``: same storage, new values."""
    x._data = values
    if x._base is not None:
        x._base._data = None
    launched(name, inputs, [x])
    return x


def fill_(x: Tensor, value: Any) -> Tensor:
    value = value.item() if isinstance(value, Tensor) else value
    return _filled(x, "fill_", _values.cast([value] * x.numel(), x.dtype) if _values.keep(x._shape) else None)


def zero_(x: Tensor) -> Tensor:
    return fill_(x, 0)


def copy_(x: Tensor, source: Any, non_blocking: bool = False) -> Tensor:
    if is_scalar(source):
        return fill_(x, source)
    from ._ops_math import broadcast_shapes

    if broadcast_shapes(x._shape, source._shape) != x._shape:
        raise RuntimeError("The size of tensor a {} must match the size of tensor b {}".format(x._shape, source._shape))
    values = _values.cast(_values.broadcast(source._data, source._shape, x._shape), x.dtype)
    return _filled(x, "copy_", values, [source] if source.device == x.device else [])


def _random_fill(name: str, one: Any) -> Any:
    def fill(x: Tensor, *args: Any, generator: Optional[Generator] = None, **_: Any) -> Tensor:
        values = None
        if _values.keep(x._shape) and x.dtype.is_floating_point:
            values = [one(draw(generator), *args) for _ in range(x.numel())]
        return _filled(x, name, values)

    return fill


normal_ = _random_fill("normal_", lambda source, mean=0.0, std=1.0: source.gauss(mean, std))
uniform_ = _random_fill("uniform_", lambda source, low=0.0, high=1.0: source.uniform(low, high))
bernoulli_ = _random_fill("bernoulli_", lambda source, p=0.5: float(source.random() < p))

METHODS = (
    "clone contiguous to cpu npu type_as fill_ zero_ copy_ normal_ uniform_ bernoulli_ "
    "new_zeros new_ones new_empty new_full new_tensor"
).split()
FUNCTIONS = (
    "tensor as_tensor full zeros ones empty randn rand randint randperm arange linspace eye zeros_like ones_like "
    "empty_like randn_like rand_like full_like clone manual_seed Generator"
).split()
