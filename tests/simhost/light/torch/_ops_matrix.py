"""Matrix products."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from ._ops_math import binary, broadcast_shapes
from ._tensor import Tensor, run
from ._types import count, dtype

_IN_CPP = {"float32": "float", "float64": "double", "int64": "long int", "int32": "int", "bool": "bool"}


def _same_type(a: Tensor, b: Tensor) -> dtype:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            "expected m1 and m2 to have the same dtype, but got: {} != {}".format(
                *(_IN_CPP.get(t.dtype.name, "c10::" + t.dtype.label) for t in (a, b))
            )
        )
    return a.dtype


def _cannot(a: Sequence[int], b: Sequence[int]) -> RuntimeError:
    return RuntimeError(
        "mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})".format(count(tuple(a[:-1])), a[-1], *b[-2:])
    )


def mm(a: Tensor, b: Tensor) -> Tensor:
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError("{} must be a matrix".format("self" if a.ndim != 2 else "mat2"))
    if a._shape[1] != b._shape[0]:
        raise _cannot(a._shape, b._shape)
    return run("mm", [a, b], (a._shape[0], b._shape[1]), _same_type(a, b))


def bmm(a: Tensor, b: Tensor) -> Tensor:
    if a.ndim != 3 or b.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if a._shape[0] != b._shape[0] or a._shape[2] != b._shape[1]:
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: [{}, {}] but got: [{}, {}].".format(
                a._shape[0], a._shape[2], *b._shape[:2]
            )
        )
    return run("bmm", [a, b], (a._shape[0], a._shape[1], b._shape[2]), _same_type(a, b))


def matmul(a: Tensor, b: Tensor) -> Tensor:
    if not a._shape or not b._shape:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are {}D and {}D".format(a.ndim, b.ndim)
        )
    left = (1,) + a._shape if a.ndim == 1 else a._shape
    right = b._shape + (1,) if b.ndim == 1 else b._shape
    if left[-1] != right[-2]:
        raise _cannot(left, right)
    shape = broadcast_shapes(left[:-2], right[:-2]) + (left[-2], right[-1])
    if a.ndim == 1:
        shape = shape[:-2] + shape[-1:]
    if b.ndim == 1:
        shape = shape[:-1]
    return run("bmm" if max(a.ndim, b.ndim) > 2 and b.ndim > 2 else "mm", [a, b], shape, _same_type(a, b))


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    if x._shape[-1] != weight._shape[1]:
        raise _cannot(x._shape, (weight._shape[1], weight._shape[0]))
    inputs = [x, weight] if bias is None else [x, weight, bias]
    return run(
        "linear" if bias is None else "addmm", inputs, x._shape[:-1] + (weight._shape[0],), _same_type(x, weight)
    )


def outer(a: Tensor, b: Tensor) -> Tensor:
    return binary("mul", a.unsqueeze(1), b.unsqueeze(0))


def einsum(equation: str, *operands: Any) -> Tensor:
    """Any product of named dimensions (no ellipsis, no repeated name within one operand)."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not right and "->" not in equation:
        names = "".join(terms)
        right = "".join(sorted(n for n in set(names) if names.count(n) == 1))
    sizes = {}
    for term, operand in zip(terms, operands):
        if len(term) != operand.ndim:
            raise RuntimeError(
                "einsum(): the number of subscripts in the equation ({}) does not match the number of dimensions "
                "({}) for operand".format(len(term), operand.ndim)
            )
        for name, size in zip(term, operand._shape):
            if sizes.setdefault(name, size) != size:
                raise RuntimeError(
                    "einsum(): subscript {} has size {} for operand 1 which does not broadcast with previously seen "
                    "size {}".format(name, size, sizes[name])
                )
    name = "bmm" if len(operands) > 1 else "sum"
    return run(name, list(operands), tuple(sizes[n] for n in right), operands[0].dtype)
