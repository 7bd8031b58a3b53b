"""``torch.nn.functional``: the operators that models call by name."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

from .. import _ops_math as _math
from .._ops_math import log_softmax, softmax
from .._ops_matrix import linear
from .._ops_shape import one_hot
from .._tensor import UNKNOWN, Tensor, run, wrap
from .._types import float32

__all__ = ["linear", "log_softmax", "one_hot", "softmax"]


def __getattr__(name: str) -> Any:
    raise AttributeError(UNKNOWN.format("nn.functional." + name))


def _activation(name: str) -> Any:
    def activate(x: Tensor, *_: Any, **__: Any) -> Tensor:
        return run(name, [x], x._shape, x.dtype)

    activate.__name__ = name
    return activate


silu, gelu, elu, leaky_relu = (_activation(n) for n in ("silu", "gelu", "elu", "leaky_relu"))
mish, softplus, logsigmoid, hardswish = (_activation(n) for n in ("mish", "softplus", "logsigmoid", "hardswish"))


def relu(x: Tensor, inplace: bool = False) -> Tensor:
    return _math.unary("relu", x)


def sigmoid(x: Tensor) -> Tensor:
    return _math.unary("sigmoid", x)


def tanh(x: Tensor) -> Tensor:
    return _math.unary("tanh", x)


def dropout(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    return run("native_dropout", [x], x._shape, x.dtype) if training and p else x


def normalize(x: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    return x / _math.norm(x, p, dim, True).clamp(eps)


def embedding(indices: Tensor, weight: Tensor, padding_idx: Optional[int] = None) -> Tensor:
    if indices.dtype.is_floating_point:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            "torch.{}Tensor instead (while checking arguments for embedding)".format(indices.dtype.label)
        )
    return run("embedding", [weight, indices], indices._shape + weight._shape[1:], weight.dtype)


def _normalised(x: Tensor, shape: Sequence[int]) -> None:
    if tuple(x._shape[-len(shape) :]) != tuple(shape):
        raise RuntimeError(
            "Given normalized_shape={0}, expected input with shape [*, {1}], but got input of size{2}".format(
                list(shape), ", ".join(map(str, shape)), list(x._shape)
            )
        )


def layer_norm(x: Tensor, normalized_shape: Sequence[int], weight: Optional[Tensor] = None,
               bias: Optional[Tensor] = None, eps: float = 1e-5) -> Tensor:  # fmt: skip
    _normalised(x, normalized_shape)
    return run("layer_norm", [t for t in (x, weight, bias) if t is not None], x._shape, x.dtype)


def rms_norm(x: Tensor, normalized_shape: Sequence[int], weight: Optional[Tensor] = None, eps: Any = None) -> Tensor:
    _normalised(x, normalized_shape)
    return run("rms_norm", [t for t in (x, weight) if t is not None], x._shape, x.dtype)


def group_norm(x: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
               eps: float = 1e-5) -> Tensor:  # fmt: skip
    if x._shape[1] % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape {} and "
            "num_groups={}".format(list(x._shape), num_groups)
        )
    return run("native_group_norm", [t for t in (x, weight, bias) if t is not None], x._shape, x.dtype)


def batch_norm(x: Tensor, mean: Any, var: Any, weight: Any = None, bias: Any = None, *_: Any, **__: Any) -> Tensor:
    return run("native_batch_norm", [t for t in (x, weight, bias) if t is not None], x._shape, x.dtype)


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, scale: Optional[float] = None,
                                 enable_gqa: bool = False) -> Tensor:  # fmt: skip
    heads, groups = (t._shape[-3] if t.ndim > 2 else 1 for t in (query, key))
    if query._shape[-1] != key._shape[-1] or key._shape[-2] != value._shape[-2]:
        raise RuntimeError(
            "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}".format(
                query._shape[-1], key._shape[-1], query.ndim - 1
            )
        )
    if heads != groups and not (enable_gqa and heads % groups == 0):
        raise RuntimeError(
            "The size of tensor a ({}) must match the size of tensor b ({}) at non-singleton dimension {}".format(
                heads, groups, query.ndim - 3
            )
        )
    if attn_mask is not None:
        _math.broadcast_shapes(attn_mask._shape, query._shape[:-1] + (key._shape[-2],))
    inputs = [t for t in (query, key, value, attn_mask) if t is not None]
    shape = query._shape[:-1] + (value._shape[-1],)
    return run("scaled_dot_product_attention", inputs, shape, query.dtype)


def _pair(value: Any, n: int = 2) -> Tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else tuple(value)


def _windows(size: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any = 1) -> Tuple[int, ...]:
    n = len(size)
    rows = zip(size, _pair(kernel, n), _pair(stride, n), _pair(padding, n), _pair(dilation, n))
    out = tuple((a + 2 * p - d * (k - 1) - 1) // s + 1 for a, k, s, p, d in rows)
    if min(out) < 1:
        raise RuntimeError(
            "Calculated padded input size per channel: {}. Kernel size: {}. Kernel size can't be greater than actual "
            "input size".format(tuple(size), _pair(kernel, n))
        )
    return out


def _convolution(name: str, n: int) -> Any:
    def convolve(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
        kernel = weight._shape[2:]
        if x.ndim != n + 2 or x._shape[1] != weight._shape[1] * groups:
            raise RuntimeError(
                "Given groups={}, weight of size {}, expected input{} to have {} channels, but got {} channels "
                "instead".format(groups, list(weight._shape), list(x._shape), weight._shape[1] * groups, x._shape[1])
            )
        if padding == "same":
            padding = tuple(k // 2 for k in kernel)
        shape = (x._shape[0], weight._shape[0]) + _windows(x._shape[2:], kernel, stride, padding, dilation)
        return run(name, [t for t in (x, weight, bias) if t is not None], shape, x.dtype)

    convolve.__name__ = name
    return convolve


conv1d, conv2d, conv3d = _convolution("conv1d", 1), _convolution("conv2d", 2), _convolution("conv3d", 3)


def _pool(name: str) -> Any:
    def pool(x: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, **_: Any) -> Tensor:
        shape = _windows(x._shape[-2:], kernel_size, kernel_size if stride is None else stride, padding)
        return run(name, [x], x._shape[:-2] + shape, x.dtype)

    pool.__name__ = name
    return pool


avg_pool2d, max_pool2d = _pool("avg_pool2d"), _pool("max_pool2d_with_indices")


def adaptive_avg_pool2d(x: Tensor, output_size: Any) -> Tensor:
    return run("adaptive_avg_pool2d", [x], x._shape[:-2] + _pair(output_size), x.dtype)


def interpolate(x: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", **_: Any) -> Tensor:
    n = x.ndim - 2
    if size is None:
        scales = (scale_factor,) * n if isinstance(scale_factor, (int, float)) else scale_factor
        size = [int(a * s) for a, s in zip(x._shape[2:], scales)]
    return run("upsample_{}2d".format(mode), [x], x._shape[:2] + _pair(size, n), x.dtype)


def pad(x: Tensor, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Tensor:
    shape = list(x._shape)
    for i in range(len(pad) // 2):
        shape[-1 - i] += pad[2 * i] + pad[2 * i + 1]
    return run("constant_pad_nd", [x], shape, x.dtype)


def _loss(name: str) -> Any:
    def loss(x: Tensor, target: Tensor, *_: Any, reduction: str = "mean", **__: Any) -> Tensor:
        shape = () if reduction != "none" else target._shape
        return run(name, [x, target], shape, x.dtype if x.dtype.is_floating_point else float32)

    loss.__name__ = name
    return loss


cross_entropy, mse_loss, nll_loss, l1_loss = (
    _loss(n) for n in ("cross_entropy_loss", "mse_loss", "nll_loss", "l1_loss")
)


def cosine_similarity(a: Tensor, b: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    dim = wrap(dim, a.ndim)
    return run("cosine_similarity", [a, b], a._shape[:dim] + a._shape[dim + 1 :], a.dtype)
