"""Operators that only look at a tensor in another way (no kernel), and those that move elements (a kernel)."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

from . import _values
from ._tensor import Tensor, launched, run, shape_of, wrap
from ._types import bool_, count, int64
from ._values import Values


def _fitted(x: Tensor, shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """``shape`` with its -1 replaced."""
    if -1 in shape:
        rest = count(tuple(n for n in shape if n != -1))
        if shape.count(-1) > 1:
            raise RuntimeError("only one dimension can be inferred")
        if rest and x.numel() % rest == 0:
            shape = tuple(x.numel() // rest if n == -1 else n for n in shape)
    if count(shape) != x.numel() or -1 in shape:
        raise RuntimeError("shape '{}' is invalid for input of size {}".format(list(shape), x.numel()))
    return shape


def view(x: Tensor, *shape: Any) -> Tensor:
    if len(shape) == 1 and type(shape[0]).__name__ == "dtype":
        return x._view(x._shape, None) if shape[0].itemsize == x.dtype.itemsize else x.to(shape[0])
    return x._view(_fitted(x, shape_of(shape)), x._data)


def reshape(x: Tensor, *shape: Any) -> Tensor:
    return view(x.contiguous(), *shape)


def view_as(x: Tensor, other: Tensor) -> Tensor:
    return view(x, other._shape)


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    if not x._shape:
        return view(x, 1)
    first, last = wrap(start_dim, x.ndim), wrap(end_dim, x.ndim)
    return reshape(x, x._shape[:first] + (count(x._shape[first : last + 1]),) + x._shape[last + 1 :])


def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    dim = wrap(dim, x.ndim)
    return view(x, x._shape[:dim] + tuple(sizes) + x._shape[dim + 1 :])


def permute(x: Tensor, *dims: Any) -> Tensor:
    order = [wrap(d, x.ndim) for d in shape_of(dims)]
    if sorted(order) != list(range(x.ndim)):
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            "ordering of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}".format(x.ndim, len(order))
        )
    shape = [x._shape[d] for d in order]
    strides = _values.strides_of(x._shape)
    same = order == list(range(x.ndim))
    data = _values.gather(x._data, shape, [strides[d] for d in order])
    return x._view(shape, data, x._contiguous and same)


def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    order = list(range(x.ndim))
    if order:
        dim0, dim1 = wrap(dim0, x.ndim), wrap(dim1, x.ndim)
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return permute(x, order)


def t(x: Tensor) -> Tensor:
    if x.ndim > 2:
        raise RuntimeError("t() expects a tensor with <= 2 dimensions, but self is {}D".format(x.ndim))
    return transpose(x, 0, 1) if x.ndim == 2 else x


def unsqueeze(x: Tensor, dim: int) -> Tensor:
    dim = wrap(dim, x.ndim + 1)
    return x._view(x._shape[:dim] + (1,) + x._shape[dim:], x._data, x._contiguous)


def squeeze(x: Tensor, dim: Any = None) -> Tensor:
    if dim is None:
        dims = range(x.ndim)
    else:
        dims = [wrap(d, x.ndim) for d in ((dim,) if isinstance(dim, int) else dim)]
    return x._view([n for d, n in enumerate(x._shape) if n != 1 or d not in dims], x._data, x._contiguous)


def expand(x: Tensor, *sizes: Any) -> Tensor:
    target = list(shape_of(sizes))
    lead = len(target) - x.ndim
    if lead < 0:
        raise RuntimeError(
            "expand(torch.FloatTensor{{{}}}, size={}): the number of sizes provided ({}) must be greater or equal to "
            "the number of dimensions in the tensor ({})".format(list(x._shape), target, len(target), x.ndim)
        )
    wanted = list(target)
    for d, n in enumerate(x._shape):
        if target[lead + d] == -1:
            target[lead + d] = n
        elif n not in (1, target[lead + d]):
            raise RuntimeError(
                "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension "
                "{}.  Target sizes: {}.  Tensor sizes: {}".format(target[lead + d], n, lead + d, wanted, list(x._shape))
            )
    same = tuple(target) == x._shape
    return x._view(target, _values.broadcast(x._data, x._shape, target), x._contiguous and same)


def expand_as(x: Tensor, other: Tensor) -> Tensor:
    return expand(x, other._shape)


def broadcast_to(x: Tensor, shape: Any) -> Tensor:
    return expand(x, shape)


def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    dim = wrap(dim, x.ndim)
    if start < 0 or start + length > x._shape[dim]:
        raise RuntimeError("start ({}) + length ({}) exceeds dimension size ({}).".format(start, length, x._shape[dim]))
    return index(x, (slice(None),) * dim + (slice(start, start + length),))


def select(x: Tensor, dim: int, at: int) -> Tensor:
    return index(x, (slice(None),) * wrap(dim, x.ndim) + (at,))


def unbind(x: Tensor, dim: int = 0) -> Tuple[Tensor, ...]:
    dim = wrap(dim, x.ndim)
    return tuple(select(x, dim, i) for i in range(x._shape[dim]))


def split(x: Tensor, split_size: Any, dim: int = 0) -> Tuple[Tensor, ...]:
    dim = wrap(dim, x.ndim)
    whole = x._shape[dim]
    if isinstance(split_size, int):
        sizes = [min(split_size, whole - at) for at in range(0, whole, split_size)]
    else:
        sizes = list(split_size)
        if sum(sizes) != whole:
            raise RuntimeError(
                "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {}), but "
                "got split_sizes={}".format(whole, dim, sizes)
            )
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(narrow(x, dim, at, size) for at, size in zip(starts, sizes))


def chunk(x: Tensor, chunks: int, dim: int = 0) -> Tuple[Tensor, ...]:
    return split(x, max(1, -(-x._shape[wrap(dim, x.ndim)] // chunks)), dim)


# --- indexing ---


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
    from ._ops_make import tensor
    from ._ops_math import broadcast_shapes

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
    if isinstance(value, Tensor):
        from ._ops_math import broadcast_shapes

        if broadcast_shapes(target._shape, value._shape) != target._shape:
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
    tensor = isinstance(value, Tensor)
    fresh = _values.broadcast(value._data if tensor else [value], value._shape if tensor else (), target._shape)
    fresh = _values.cast(fresh, x.dtype)
    if spots is None or fresh is None:
        return None
    values = list(x._data)
    for spot, one in zip(spots, fresh):
        values[spot] = one
    return values


# --- moving elements ---


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    tensors = [one for one in tensors if one._shape != (0,)] or list(tensors)
    if not tensors:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors")
    first = tensors[0]
    dim = wrap(dim, first.ndim)
    for number, one in enumerate(tensors):
        for d, (a, b) in enumerate(zip(first._shape, one._shape)):
            if (d != dim and a != b) or one.ndim != first.ndim:
                raise RuntimeError(
                    "Sizes of tensors must match except in dimension {}. Expected size {} but got size {} for tensor "
                    "number {} in the list.".format(dim, a, b, number)
                )
    shape = first._shape[:dim] + (sum(one._shape[dim] for one in tensors),) + first._shape[dim + 1 :]
    data: Values = None
    if _values.keep(shape) and all(one._data is not None for one in tensors):
        outer, inner = count(shape[:dim]), count(shape[dim + 1 :])
        data = []
        for i in range(outer):
            for one in tensors:
                width = one._shape[dim] * inner
                data.extend(one._data[i * width : (i + 1) * width])
    return run("cat", list(tensors), shape, first.dtype, data)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    first = tensors[0]
    for number, one in enumerate(tensors):
        if one._shape != first._shape:
            raise RuntimeError(
                "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {}".format(
                    list(first._shape), list(one._shape), number
                )
            )
    return cat([unsqueeze(one, dim) for one in tensors], wrap(dim, first.ndim + 1))


def repeat(x: Tensor, *sizes: Any) -> Tensor:
    times = shape_of(sizes)
    if len(times) < x.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    padded = (1,) * (len(times) - x.ndim) + x._shape
    shape = tuple(n * k for n, k in zip(padded, times))
    data: Values = None
    if x._data is not None and _values.keep(shape):
        strides = _values.strides_of(padded)
        wide = [v for pair in zip(times, padded) for v in pair]
        data = _values.gather(x._data, wide, [s for stride in strides for s in (0, stride)])
    return run("repeat", [x], shape, x.dtype, data)


def repeat_interleave(x: Tensor, repeats: int, dim: Optional[int] = None) -> Tensor:
    if dim is None:
        x, dim = flatten(x), 0
    dim = wrap(dim, x.ndim)
    wide = unsqueeze(x, dim + 1)
    spread = expand(wide, wide._shape[: dim + 1] + (repeats,) + wide._shape[dim + 2 :])
    shape = x._shape[:dim] + (x._shape[dim] * repeats,) + x._shape[dim + 1 :]
    return run("repeat_interleave", [x], shape, x.dtype, spread._data)


def roll(x: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    return run("roll", [x], x._shape, x.dtype)


def flip(x: Tensor, dims: Any) -> Tensor:
    return run("flip", [x], x._shape, x.dtype)


def index_select(x: Tensor, dim: int, at: Tensor) -> Tensor:
    dim = wrap(dim, x.ndim)
    return run("index_select", [x, at], x._shape[:dim] + (at.numel(),) + x._shape[dim + 1 :], x.dtype)


def gather(x: Tensor, dim: int, at: Tensor) -> Tensor:
    wrap(dim, x.ndim)
    return run("gather", [x, at], at._shape, x.dtype)


def scatter_(x: Tensor, dim: int, at: Tensor, source: Any) -> Tensor:
    x._data = None
    launched("scatter_", [at], [x])
    return x


def index_copy_(x: Tensor, dim: int, at: Tensor, source: Tensor) -> Tensor:
    x._data = None
    launched("index_copy_", [at, source], [x])
    return x


def one_hot(x: Tensor, num_classes: int) -> Tensor:
    return run("one_hot", [x], x._shape + (num_classes,), int64)


VIEWS = (
    "view reshape view_as flatten unflatten permute transpose t unsqueeze squeeze expand expand_as broadcast_to "
    "narrow select unbind split chunk"
).split()
MOVES = "repeat repeat_interleave roll flip index_select gather scatter_ index_copy_".split()
FUNCTIONS = (
    "reshape flatten unflatten permute transpose t unsqueeze squeeze broadcast_to narrow select unbind split chunk "
    "cat stack repeat_interleave roll flip index_select gather"
).split()
