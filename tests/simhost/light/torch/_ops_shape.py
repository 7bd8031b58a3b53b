"""Operators that only look at a tensor in another way (no kernel), and those that move elements (a kernel)."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from . import _values
from ._ops_index import index
from ._tensor import Tensor, launched, run, shape_of, wrap
from ._types import count, int64
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
