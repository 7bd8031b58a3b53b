"""Operators that compute element by element, and reductions."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

from . import _values
from ._ops_make import Generator, draw
from ._tensor import Tensor, is_scalar, run, wrap
from ._types import bool_, count, dtype, get_default_dtype, int64, promote
from ._values import Values

Shape = Tuple[int, ...]

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or")
TESTS = ("isfinite", "isnan", "isinf", "logical_not")
TO_FLOAT = ("exp", "log", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "sigmoid")


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    out: List[int] = []
    for shape in shapes:
        for back, size in enumerate(reversed(shape)):
            if back == len(out):
                out.append(size)
            elif out[back] == 1:
                out[back] = size
            elif size not in (1, out[back]):
                raise RuntimeError(
                    "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension "
                    "{}".format(out[back], size, max(map(len, shapes)) - 1 - back)
                )
    return tuple(reversed(out))


def _scalar_type(x: Tensor, value: Any) -> dtype:
    """A Python number changes the type of a tensor only by its kind (bool < int < float)."""
    if isinstance(value, float) and not x.dtype.is_floating_point:
        return get_default_dtype()
    if isinstance(value, int) and not isinstance(value, bool) and x.dtype is bool_:
        return int64
    return x.dtype


def _pair_type(a: Any, b: Any) -> dtype:
    if is_scalar(b):
        return _scalar_type(a, b)
    if is_scalar(a):
        return _scalar_type(b, a)
    if a.dtype is b.dtype:
        return a.dtype
    same_kind = a.dtype.is_floating_point == b.dtype.is_floating_point
    if same_kind and bool(a._shape) != bool(b._shape):
        return a.dtype if a._shape else b.dtype
    return promote(a.dtype, b.dtype)


def binary(name: str, a: Any, b: Any) -> Tensor:
    """Broadcast, promote, compute; ``a`` or ``b`` may be a Python number."""
    compute = _values.BINARY[name]
    if is_scalar(a) or is_scalar(b):
        x = b if is_scalar(a) else a
        shape, inputs = x._shape, [x]
        values = None
        if x._data is not None:
            if is_scalar(a):
                values = _values.each(lambda v: compute(a, v), x._data)
            else:
                values = _values.each(lambda v: compute(v, b), x._data)
    elif isinstance(a, Tensor) and isinstance(b, Tensor):
        shape, inputs, values = broadcast_shapes(a._shape, b._shape), [a, b], None
        if a._data is not None and b._data is not None:
            left = _values.broadcast(a._data, a._shape, shape)
            values = _values.each(compute, left, _values.broadcast(b._data, b._shape, shape))
    else:
        raise TypeError("unsupported operand type(s) for {}: {} and {}".format(name, type(a), type(b)))
    if name in COMPARISONS:
        of = bool_
    else:
        of = _pair_type(a, b)
        if name == "div" and not of.is_floating_point:
            of = get_default_dtype()
    return run(name + ".Tensor", inputs, shape, of, _values.cast(values, of))


def unary(name: str, x: Tensor) -> Tensor:
    of = bool_ if name in TESTS else x.dtype
    if name in TO_FLOAT and not of.is_floating_point:
        of = get_default_dtype()
    values = _values.each(_values.UNARY[name], x._data)
    if values is None and name in ("isnan", "isinf") and _values.keep(x._shape):
        values = [False] * x.numel()
    return run(name, [x], x._shape, of, _values.cast(values, of))


def add(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    return binary("add", a, b if alpha == 1 else b * alpha)


def sub(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    return binary("sub", a, b if alpha == 1 else b * alpha)


def div(a: Any, b: Any, *, rounding_mode: Optional[str] = None) -> Tensor:
    return binary("floor_divide" if rounding_mode == "floor" else "div", a, b)


def clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    values = x._data
    if is_scalar(min):
        values = _values.each(lambda v: v if v > min else min, values)
    if is_scalar(max):
        values = _values.each(lambda v: v if v < max else max, values)
    return run("clamp", [x], x._shape, x.dtype, _values.cast(values, x.dtype))


def where(condition: Tensor, a: Any = None, b: Any = None) -> Tensor:
    tensors = [t for t in (condition, a, b) if isinstance(t, Tensor)]
    shape = broadcast_shapes(*(t._shape for t in tensors))
    of = _pair_type(a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else get_default_dtype()
    lists = [
        _values.broadcast(t._data, t._shape, shape) if isinstance(t, Tensor) else _values.broadcast([t], (), shape)
        for t in (condition, a, b)
    ]
    values = _values.each(lambda c, x, y: x if c else y, *lists)
    return run("where", tensors, shape, of, _values.cast(values, of))


def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    shape = broadcast_shapes(x._shape, mask._shape)
    fill = value.item() if isinstance(value, Tensor) else value
    values = _values.each(
        lambda v, m: fill if m else v,
        _values.broadcast(x._data, x._shape, shape),
        _values.broadcast(mask._data, mask._shape, shape),
    )
    return run("masked_fill", [x, mask], shape, x.dtype, _values.cast(values, x.dtype))


def _dims(x: Tensor, dim: Any) -> List[int]:
    if dim is None or dim == ():
        return list(range(x.ndim))
    return sorted({wrap(d, x.ndim) for d in ((dim,) if isinstance(dim, int) else dim)})


def _reduced(x: Tensor, dims: Sequence[int], keepdim: bool) -> Shape:
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(x._shape))
    return tuple(n for d, n in enumerate(x._shape) if d not in dims)


def _reduce(name: str, compute: Any, result: Optional[dtype] = None, floating: bool = False) -> Any:
    def reduce(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
        of = dtype or result or x.dtype
        if floating and not of.is_floating_point:
            raise RuntimeError(
                "{}(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
                "Got: {}".format(name, x.dtype.label)
            )
        if name == "sum" and dtype is None and not of.is_floating_point:
            of = int64
        dims = _dims(x, dim)
        rows = _values.groups(x._data, x._shape, dims)
        values = None if rows is None else _values.each(compute, rows)
        shape = _reduced(x, dims, keepdim)
        if values is None and name == "any" and x.dtype is bool_ and _values.keep(shape):
            values = [False] * count(shape)  # nobody computed it: no NaN, no end-of-text token
        return run(name, [x], shape, of, _values.cast(values, of))

    reduce.__name__ = name
    return reduce


sum = _reduce("sum", lambda row: math.fsum(row))
mean = _reduce("mean", lambda row: math.fsum(row) / len(row), floating=True)
prod = _reduce("prod", lambda row: math.prod(row))
all = _reduce("all", lambda row: bool(min(row, default=True)), bool_)
any = _reduce("any", lambda row: bool(max(row, default=False)), bool_)
amax = _reduce("amax", max)
amin = _reduce("amin", min)


def _spread(name: str, root: bool) -> Any:
    def spread(
        x: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, correction: Any = None
    ) -> Tensor:
        free = (1 if unbiased else 0) if correction is None else correction

        def one(row: Sequence[float]) -> float:
            middle = math.fsum(row) / len(row)
            found = math.fsum((v - middle) ** 2 for v in row) / (len(row) - free)
            return math.sqrt(found) if root else found

        dims = _dims(x, dim)
        rows = _values.groups(x._data, x._shape, dims)
        values = None if rows is None else _values.each(one, rows)
        return run(name, [x], _reduced(x, dims, keepdim), x.dtype, values)

    return spread


var, std = _spread("var", False), _spread("std", True)


def norm(x: Tensor, p: float = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    dims = _dims(x, dim)
    rows = _values.groups(x._data, x._shape, dims)
    values = None if rows is None else _values.each(lambda row: math.fsum(abs(v) ** p for v in row) ** (1 / p), rows)
    return run("norm", [x], _reduced(x, dims, keepdim), x.dtype, values)


class _ValuesIndices(tuple):
    """The named pair that max, min, topk and sort return."""

    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])


def _pick(row: Sequence[Any], best: Any) -> int:
    return max(range(len(row)), key=lambda i: row[i]) if best is max else min(range(len(row)), key=lambda i: row[i])


def _arg(name: str, best: Any) -> Any:
    def arg(x: Tensor, dim: Optional[int] = None, keepdim: bool = False) -> Tensor:
        dims = _dims(x, dim)
        shape = _reduced(x, dims, keepdim)
        width = count(tuple(x._shape[d] for d in dims))
        if not width:
            raise IndexError("{}(): Expected reduction dim to be specified for input.numel() == 0.".format(name))
        rows = _values.groups(x._data, x._shape, dims)
        if rows is not None:
            values: Values = [_pick(row, best) for row in rows]
        else:
            # Nobody computed the logits: any index serves, as long as it is one, and a seed gives the same again.
            values = [draw().randrange(width) for _ in range(count(shape))] if _values.keep(shape) else None
        return run(name, [x], shape, int64, values)

    return arg


argmax, argmin = _arg("argmax", max), _arg("argmin", min)


def _extreme(name: str, best: Any, whole: Any, arg: Any) -> Any:
    def extreme(x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, Tensor):
            return binary("maximum" if best is max else "minimum", x, dim)
        if dim is None:
            return whole(x)
        return _ValuesIndices((whole(x, dim, keepdim), arg(x, dim, keepdim)))

    return extreme


max_, min_ = _extreme("max", max, amax, argmax), _extreme("min", min, amin, argmin)


def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    dim = wrap(dim, x.ndim)
    if k > x._shape[dim]:
        raise RuntimeError("selected index k out of range")
    shape = x._shape[:dim] + (k,) + x._shape[dim + 1 :]
    values = run("topk", [x], shape, x.dtype)
    indices = Tensor(shape, int64, values.device)
    if _values.keep(shape):
        indices._data = [draw().randrange(x._shape[dim]) for _ in range(count(shape))]
    return _ValuesIndices((values, indices))


def multinomial(
    x: Tensor, num_samples: int, replacement: bool = False, *, generator: Optional[Generator] = None
) -> Tensor:
    shape = x._shape[:-1] + (num_samples,)
    values = [draw(generator).randrange(x._shape[-1]) for _ in range(count(shape))] if _values.keep(shape) else None
    return run("multinomial", [x], shape, int64, values)


def _running(name: str, compute: Any) -> Any:
    def accumulate(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
        wrap(dim, x.ndim)
        of = dtype or (x.dtype if x.dtype.is_floating_point else int64)
        values: Values = None
        if x._data is not None and x.ndim == 1:
            values = [compute(x._data[: i + 1]) for i in range(len(x._data))]
        return run(name, [x], x._shape, of, _values.cast(values, of))

    return accumulate


cumsum, cumprod = _running("cumsum", math.fsum), _running("cumprod", math.prod)


def softmax(x: Tensor, dim: Any = -1, dtype: Any = None) -> Tensor:
    wrap(dim, x.ndim)
    return run("softmax", [x], x._shape, dtype or x.dtype)


def log_softmax(x: Tensor, dim: Any = -1, dtype: Any = None) -> Tensor:
    wrap(dim, x.ndim)
    return run("log_softmax", [x], x._shape, dtype or x.dtype)


def allclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    broadcast_shapes(a._shape, b._shape)
    if a._data is None or b._data is None:
        return True
    return bool((abs_(a - b) <= abs_(b) * rtol + atol).all())


def abs_(x: Tensor) -> Tensor:
    return unary("abs", x)


def equal(a: Tensor, b: Tensor) -> bool:
    return a._shape == b._shape and bool((a == b).all())


def _triangle(name: str) -> Any:
    def keep_part(x: Tensor, diagonal: int = 0) -> Tensor:
        values: Values = None
        if x._data is not None:
            rows, columns = x._shape[-2:]
            # How far right of the main diagonal each element sits.
            offsets = (i % columns - i // columns % rows for i in range(len(x._data)))
            inside = [at <= diagonal if name == "tril" else at >= diagonal for at in offsets]
            values = _values.cast([v if ok else 0 for v, ok in zip(x._data, inside)], x.dtype)
        return run(name, [x], x._shape, x.dtype, values)

    return keep_part


tril, triu = _triangle("tril"), _triangle("triu")


def in_place(name: str, compute: Any) -> Any:
    """``x.add_(y)``: the operator, then its result in place of ``x``."""

    def change(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        out = compute(x, *args, **kwargs)
        if out._shape != x._shape:
            raise RuntimeError(
                "output with shape {} doesn't match the broadcast shape {}".format(list(x._shape), list(out._shape))
            )
        if out.dtype is not x.dtype:
            if out.dtype.is_floating_point and not x.dtype.is_floating_point:
                raise RuntimeError(
                    "result type {} can't be cast to the desired output type {}".format(out.dtype.label, x.dtype.label)
                )
            out.dtype, out._data = x.dtype, _values.cast(out._data, x.dtype)
        x._become(out)
        return x

    change.__name__ = name
    return change
