"""Values of small tensors, as flat lists in row-major order.

The stand-in is shape-only, but loops and checks in users' scripts read a few values (positions, token ids, masks,
flags). Tensors of up to ``KEEP`` elements keep them where that is cheap; everything else is "unknown" (None).
"""

from __future__ import annotations

import math
import operator
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ._types import Number, count, dtype

KEEP = 512

Values = Optional[List[Any]]


def keep(shape: Tuple[int, ...]) -> bool:
    return count(shape) <= KEEP


def unknown(of: dtype) -> Number:
    """What a value reads as when nobody computed it: finite, true, in range."""
    if of.name == "bool":
        return True
    return 0.5 if of.is_floating_point else 0


def cast(values: Values, to: dtype) -> Values:
    if values is None:
        return None
    if to.name == "bool":
        return [bool(v) for v in values]
    if to.is_floating_point:
        return [float(v) for v in values]
    try:
        return [int(v) for v in values]
    except (OverflowError, ValueError):  # inf and nan have no integer
        return None


def strides_of(shape: Sequence[int]) -> List[int]:
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    return strides


def gather(values: Values, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Values:
    """The elements of a view given by shape, strides and offset over ``values``."""
    if values is None or not keep(tuple(shape)):
        return None
    positions = [offset]
    for size, stride in zip(shape, strides):
        positions = [p + i * stride for p in positions for i in range(size)]
    return [values[p] for p in positions]


def broadcast(values: Values, shape: Sequence[int], to: Sequence[int]) -> Values:
    lead = len(to) - len(shape)
    strides = [0] * lead + [s if n != 1 else 0 for n, s in zip(shape, strides_of(shape))]
    return gather(values, to, strides)


def _divide(a: Number, b: Number) -> float:
    try:
        return a / b
    except ZeroDivisionError:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a)


BINARY: Dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divide,
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
    "pow": operator.pow,
    "maximum": max,
    "minimum": min,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
}

UNARY: Dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg,
    "abs": abs,
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1.0 / math.sqrt(a),
    "reciprocal": lambda a: 1.0 / a,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "sigmoid": lambda a: 1.0 / (1.0 + math.exp(-a)),
    "relu": lambda a: a if a > 0 else a * 0,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "isfinite": math.isfinite,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "logical_not": operator.not_,
    "bitwise_not": lambda a: (not a) if isinstance(a, bool) else ~a,
}


def each(func: Callable[..., Any], *lists: Values) -> Values:
    """``func`` over the lists in step; unknown where an operand is unknown or the arithmetic has no answer."""
    known = [one for one in lists if one is not None]
    if len(known) != len(lists):
        return None
    try:
        return [func(*row) for row in zip(*known)]
    except (ValueError, ZeroDivisionError, OverflowError, TypeError):
        return None


def groups(values: Values, shape: Sequence[int], dims: Sequence[int]) -> Optional[List[List[Any]]]:
    """One list per element of the reduced shape, holding the elements along ``dims``."""
    if values is None:
        return None
    strides = strides_of(shape)
    kept = [d for d in range(len(shape)) if d not in dims]
    outer = gather(list(range(len(values))), [shape[d] for d in kept], [strides[d] for d in kept])
    inner = gather(list(range(len(values))), [shape[d] for d in dims], [strides[d] for d in dims])
    if outer is None or inner is None:
        return None
    return [[values[o + i] for i in inner] for o in outer]


def nested(values: List[Any], shape: Sequence[int]) -> Any:
    """Flat values as the nested lists of ``Tensor.tolist``."""
    if not shape:
        return values[0]
    if len(shape) == 1:
        return list(values)
    step = count(tuple(shape[1:]))
    return [nested(values[i * step : (i + 1) * step], shape[1:]) for i in range(shape[0])]


def flatten(data: Any) -> Tuple[Tuple[int, ...], List[Any]]:
    """Shape and flat values of nested sequences; raises ValueError when they are ragged."""
    if not isinstance(data, (list, tuple)):
        return (), [data]
    shape: Tuple[int, ...] = ()
    flat: List[Any] = []
    for i, item in enumerate(data):
        inner, values = flatten(item)
        if i and inner != shape:
            raise ValueError(
                "expected sequence of length {} at dim 1 (got {})".format(shape[0] if shape else 1, len(values))
            )
        shape = inner
        flat.extend(values)
    return (len(data),) + shape, flat
