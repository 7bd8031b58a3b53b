"""The layers that language models and diffusion pipelines are made of."""

from __future__ import annotations

import math
from typing import Any, Callable

from .. import _ops_make as make
from .._tensor import UNKNOWN, Parameter, Tensor
from . import functional as F
from .module import Module


def _parameter(*shape: int, device: Any = None, dtype: Any = None) -> Parameter:
    return Parameter(make.empty(*shape, device=device, dtype=dtype))


class Identity(Module):
    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        return x


class Linear(Module):
    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = _parameter(out_features, in_features, device=device, dtype=dtype)
        self.bias = _parameter(out_features, device=device, dtype=dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Embedding(Module):
    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: Any = None, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.weight = _parameter(num_embeddings, embedding_dim, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        return F.embedding(x, self.weight, self.padding_idx)


class _Norm(Module):
    def __init__(self, shape: Any, eps: Any, affine: bool, bias: bool, device: Any, dtype: Any) -> None:
        super().__init__()
        self.normalized_shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.eps = eps
        sizes = self.normalized_shape
        self.weight = _parameter(*sizes, device=device, dtype=dtype) if affine else None
        self.bias = _parameter(*sizes, device=device, dtype=dtype) if affine and bias else None


class LayerNorm(_Norm):
    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
                 device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(_Norm):
    def __init__(self, normalized_shape: Any, eps: Any = None, elementwise_affine: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__(normalized_shape, eps, elementwise_affine, False, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(_Norm):
    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__(num_channels, eps, affine, True, device, dtype)
        self.num_groups = num_groups

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)


class BatchNorm2d(_Norm):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
                 device: Any = None, dtype: Any = None) -> None:  # fmt: skip
        super().__init__(num_features, eps, affine, True, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, None, None, self.weight, self.bias)


class _Convolution(Module):
    n = 2

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # fmt: skip
        super().__init__()
        kernel = F._pair(kernel_size, self.n)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.weight = _parameter(out_channels, in_channels // groups, *kernel, device=device, dtype=dtype)
        self.bias = _parameter(out_channels, device=device, dtype=dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self.n - 1]
        return convolve(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv1d(_Convolution):
    n = 1


class Conv2d(_Convolution):
    n = 2


class Conv3d(_Convolution):
    n = 3


def _layer(name: str, call: Callable[..., Any], *defaults: Any) -> type:
    """A layer without parameters: its constructor arguments go behind the input of ``call``."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self)
        self._args, self._kwargs = args or defaults, kwargs

    def forward(self: Any, x: Tensor, *more: Any) -> Tensor:
        return call(x, *more, *self._args, **self._kwargs)

    return type(name, (Module,), {"__init__": __init__, "forward": forward})


SiLU = _layer("SiLU", lambda x, *_, **__: F.silu(x))
GELU = _layer("GELU", lambda x, *_, **__: F.gelu(x))
ReLU = _layer("ReLU", lambda x, *_, **__: F.relu(x))
Sigmoid, Tanh, Mish = _layer("Sigmoid", F.sigmoid), _layer("Tanh", F.tanh), _layer("Mish", F.mish)
Softmax = _layer("Softmax", F.softmax, -1)
AvgPool2d, MaxPool2d = _layer("AvgPool2d", F.avg_pool2d), _layer("MaxPool2d", F.max_pool2d)
AdaptiveAvgPool2d = _layer("AdaptiveAvgPool2d", F.adaptive_avg_pool2d)
Flatten = _layer("Flatten", lambda x, *a: x.flatten(*a), 1)
CrossEntropyLoss, MSELoss = _layer("CrossEntropyLoss", F.cross_entropy), _layer("MSELoss", F.mse_loss)


class Upsample(Module):
    def __init__(self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", **_: Any) -> None:
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, self.size, self.scale_factor, self.mode)


class Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training)


class init:
    """``torch.nn.init``: values are not kept, so every scheme just returns its tensor."""

    def __getattr__(self, name: str) -> Any:
        if not name.endswith("_"):
            raise AttributeError(UNKNOWN.format("nn.init." + name))
        return lambda tensor, *_, **__: tensor

    @staticmethod
    def calculate_gain(nonlinearity: str, param: Any = None) -> float:
        return math.sqrt(2.0) if nonlinearity == "relu" else 1.0
