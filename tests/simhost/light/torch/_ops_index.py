"""``x[key]`` and ``x[key] = value``: slices and numbers make a view; tensors, lists and assignment need a kernel."""

from __future__ import annotations

from typing import Any, List, Tuple

from . import _values
from ._ops_make import tensor
from ._ops_math import broadcast_shapes
from ._tensor import Tensor, launched, run
from ._types import bool_, int64
from ._values import Values


def _bound(i: int, size: int, dim: int) -> int:
    if not -size <= i < size:
        raise IndexError("index {} is out of bounds for dimension {} with size {}".format(i, dim, size))
    return i % size


def _normal(x: Tensor, key: Any) -> List[Any]:
    """The key as a list with one entry a dimension (besides None), the ellipsis spelled out."""
    parts = list(key) if isinstance(key, tuple) else [key]
    used = sum(
        p.ndim if isinstance(p, Tensor) and p.dtype is bool_ else 1
        for p in parts
        if p is not None and p is not Ellipsis
    )
    if used > x.ndim:
        raise IndexError("too many indices for tensor of dimension {}".format(x.ndim))
    rest: List[Any] = [slice(None)] * (x.ndim - used)
    for i, part in enumerate(parts):
        if part is Ellipsis:
            return parts[:i] + rest + [p for p in parts[i + 1 :] if p is not Ellipsis]
    return parts + rest


def index(x: Tensor, key: Any) -> Tensor:
    if isinstance(key, Tensor) and not key._shape and not key.dtype.is_floating_point and key.dtype is not bool_:
        key = key.item()
    parts = _normal(x, key)
    if any(isinstance(p, (Tensor, list, bool)) for p in parts):
        return _advanced(x, parts)
    shape: List[int] = []
    strides: List[int] = []
    offset, dim, whole = 0, 0, True
    own = _values.strides_of(x._shape)
    for part in parts:
        if part is None:
            shape.append(1)
            strides.append(0)
            continue
        size, stride = x._shape[dim], own[dim]
        if isinstance(part, slice):
            start, stop, step = part.indices(size)
            if step < 1:
                raise ValueError("step must be greater than zero")
            length = max(0, -(-(stop - start) // step))
            # Only a cut of the outermost dimension leaves the elements side by side.
            whole = whole and (length == size or not any(n != 1 for n in shape))
            shape.append(length)
            strides.append(stride * step)
            offset += start * stride
        else:
            offset += _bound(int(part), size, dim) * stride
        dim += 1
    return x._view(shape, _values.gather(x._data, shape, strides, offset), x._contiguous and whole)


def _count_true(mask: Tensor) -> int:
    return mask.numel() // 2 if mask._data is None else sum(map(bool, mask._data))


def _advanced(x: Tensor, parts: List[Any]) -> Tensor:
    """Index tensors broadcast together and stand where the first of them stood (or in front, when apart)."""
    indices = [tensor(p, device=x.device) if isinstance(p, list) else p for p in parts]
    shape: List[int] = []
    picked: List[Tuple[int, ...]] = []
    spots: List[int] = []
    dim = 0
    inputs = [x]
    for part in indices:
        if isinstance(part, Tensor) and part.dtype is bool_:
            if part._shape != x._shape[dim : dim + part.ndim]:
                raise IndexError(
                    "The shape of the mask {} at index 0 does not match the shape of the indexed tensor {} at index "
                    "0".format(list(part._shape), list(x._shape))
                )
            picked.append((_count_true(part),))
        elif isinstance(part, Tensor):
            picked.append(part._shape)
        elif isinstance(part, slice):
            shape.append(len(range(*part.indices(x._shape[dim]))))
        elif part is None:
            shape.append(1)
            continue
        else:
            _bound(int(part), x._shape[dim], dim)
            picked.append(())
        if isinstance(part, Tensor):
            inputs.append(part)
        if not isinstance(part, slice):
            spots.append(len(shape))
        dim += part.ndim if isinstance(part, Tensor) and part.dtype is bool_ else 1
    front = spots[0] if all(s == spots[0] for s in spots) else 0
    out = tuple(shape[:front]) + broadcast_shapes(*picked) + tuple(shape[front:])
    data: Values = None
    if x.ndim == 1 and len(indices) == 1 and x._data is not None and indices[0]._data is not None:
        chosen = indices[0]
        if chosen.dtype is bool_:
            data = [v for v, keep in zip(x._data, chosen._data) if keep]
        elif all(-len(x._data) <= i < len(x._data) for i in chosen._data):
            data = [x._data[i] for i in chosen._data]
    host = [t for t in inputs if t.device == x.device]
    return run("index", host, out, x.dtype, data)


def set_index(x: Tensor, key: Any, value: Any) -> None:
    target = index(x, key)
    if isinstance(value, Tensor) and broadcast_shapes(target._shape, value._shape) != target._shape:
        raise RuntimeError(
            "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}".format(
                list(value._shape), list(target._shape)
            )
        )
    x._data = _written(x, key, target, value)
    if x._base is not None:
        x._base._data = None
    launched("copy_", [value] if isinstance(value, Tensor) and value.device == x.device else [], [target])


def _written(x: Tensor, key: Any, target: Tensor, value: Any) -> Values:
    """The values of ``x`` after ``x[key] = value``; unknown unless everything about it is known."""
    if x._data is None or not _values.keep(target._shape):
        return None
    spots = index(Tensor(x._shape, int64, data=list(range(x.numel()))), key)._data
    given, shape = (value._data, value._shape) if isinstance(value, Tensor) else ([value], ())
    fresh = _values.broadcast(given, shape, target._shape)
    fresh = _values.cast(fresh, x.dtype)
    if spots is None or fresh is None:
        return None
    values = list(x._data)
    for spot, one in zip(spots, fresh):
        values[spot] = one
    return values
