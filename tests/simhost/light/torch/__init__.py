"""A light stand-in of torch for the simulated Ascend host: shapes, dtypes and devices, no numbers.

It runs ordinary model code (a Llama in plain torch, a diffusion loop, small scripts), tells the device backend which
operator ran on which tensors, and starts in milliseconds. Values are kept only for small tensors. What it does not
have raises an AttributeError that names the stand-in, so that nobody mistakes it for torch.

Pure Python, standard library only, 3.8 and later. Like the real one it loads its device backend on import, and like
the real one that fails when CANN's ``set_env.sh`` has not been sourced.
"""

from __future__ import annotations

import math as _math
import os as _os
import sys as _sys
from types import ModuleType as _ModuleType
from types import SimpleNamespace as _Namespace
from typing import Any

import simulated_host as _simulated_host

from . import _launch, _modes, _ops_index, _ops_make, _ops_math, _ops_matrix, _ops_shape, _values
from ._compile import compile as compile
from ._tensor import UNKNOWN as _UNKNOWN
from ._tensor import Parameter as _Parameter
from ._tensor import Tensor as Tensor
from ._types import Size as Size
from ._types import device as device
from ._types import dtype as dtype
from ._types import finfo as finfo
from ._types import get_default_dtype as get_default_dtype
from ._types import iinfo as iinfo
from ._types import public_dtypes as _public_dtypes
from ._types import set_default_device as set_default_device
from ._types import set_default_dtype as set_default_dtype

__version__ = _simulated_host.version("torch", "2.13.0+light")

_here = globals()


class OutOfMemoryError(RuntimeError):
    """The device has no memory left for a tensor."""


def _attach() -> None:
    """Put every operator where torch has it: in the module, on the class, or both, and its in-place form."""

    def method(name: str, func: Any) -> None:
        setattr(Tensor, name, func)

    def both(name: str, func: Any) -> None:
        _here[name] = func
        method(name, func)

    for name in _ops_make.FUNCTIONS:
        _here[name] = getattr(_ops_make, name)
    for name in _ops_make.METHODS:
        method(name, getattr(_ops_make, name))
    for name in _ops_shape.FUNCTIONS:
        _here[name] = getattr(_ops_shape, name)
    for name in _ops_shape.VIEWS + _ops_shape.MOVES:
        method(name, getattr(_ops_shape, name))
    for name in _values.UNARY:
        both(name, _bound(_ops_math.unary, name))
    for name in _values.BINARY:
        both(name, _bound(_ops_math.binary, name))
    for name in ("add", "sub", "div", "clamp", "masked_fill", "sum", "mean", "prod", "all", "any", "amax", "amin",
                 "var", "std", "norm", "argmax", "argmin", "topk", "multinomial", "cumsum", "cumprod", "softmax",
                 "log_softmax", "tril", "triu", "allclose", "equal"):  # fmt: skip
        both(name, getattr(_ops_math, name))
    for name in ("mm", "bmm", "matmul", "outer"):
        both(name, getattr(_ops_matrix, name))
    both("max", _ops_math.max_)
    both("min", _ops_math.min_)
    _here["where"], _here["einsum"] = _ops_math.where, _ops_matrix.einsum
    _here["broadcast_shapes"] = lambda *shapes: Size(_ops_math.broadcast_shapes(*shapes))
    for alias, name in (("mul", "multiply"), ("sub", "subtract"), ("div", "true_divide"), ("clamp", "clip"),
                        ("cat", "concat"), ("bitwise_not", "invert")):  # fmt: skip
        _here[name] = _here[alias]
    for name, of in _public_dtypes():
        _here[name] = of
    for name in ("float", "half", "bfloat16", "double", "long", "int", "bool", "short"):
        method(name, _ops_make._caster(_here[name]))
    for name in ("add", "sub", "mul", "div", "pow", "neg", "exp", "sqrt", "rsqrt", "clamp", "masked_fill", "relu",
                 "sigmoid", "tanh", "tril", "triu", "eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or",
                 "logical_not", "cumsum", "round", "floor", "ceil"):  # fmt: skip
        method(name + "_", _ops_math.in_place(name + "_", getattr(Tensor, name)))
    _operators()


def _bound(func: Any, name: str) -> Any:
    def operator(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("out", None)
        return func(name, *args, **kwargs)

    operator.__name__ = name
    return operator


def _operators() -> None:
    """``+`` and friends, their reflected and their in-place forms, indexing and a few properties."""
    spelled = {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "floor_divide": "floordiv",
               "remainder": "mod", "pow": "pow", "bitwise_and": "and", "bitwise_or": "or",
               "bitwise_xor": "xor"}  # fmt: skip
    for name, spelling in spelled.items():
        func = getattr(Tensor, name)
        setattr(Tensor, "__{}__".format(spelling), func)
        setattr(Tensor, "__r{}__".format(spelling), lambda self, other, func=func: func(other, self))
        setattr(Tensor, "__i{}__".format(spelling), _ops_math.in_place(name + "_", func))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Tensor, "__{}__".format(name), getattr(Tensor, name))
    for name, func in {
        "__neg__": Tensor.neg,
        "__abs__": Tensor.abs,
        "__invert__": Tensor.bitwise_not,
        "__matmul__": _ops_matrix.matmul,
        "__getitem__": _ops_index.index,
        "__setitem__": _ops_index.set_index,
        "T": property(_ops_shape.t),
        "mT": property(lambda x: _ops_shape.transpose(x, -2, -1)),
    }.items():
        setattr(Tensor, name, func)


_attach()
for _name in ("no_grad", "inference_mode", "enable_grad", "set_grad_enabled", "is_grad_enabled", "autocast",
              "is_inference_mode_enabled", "set_num_threads", "get_num_threads", "use_deterministic_algorithms",
              "set_float32_matmul_precision", "set_num_interop_threads", "set_printoptions"):  # fmt: skip
    _here[_name] = getattr(_modes, _name)

inf, nan, pi, e = _math.inf, _math.nan, _math.pi, _math.e
strided, contiguous_format, preserve_format, channels_last = "strided", "contiguous", "preserve", "channels_last"


def is_tensor(value: Any) -> Any:
    return isinstance(value, Tensor)


def is_floating_point(value: Tensor) -> Any:
    return value.is_floating_point()


def numel(value: Tensor) -> Any:
    return value.numel()


def _module(name: str, **content: Any) -> _ModuleType:
    """A small submodule that is importable as ``torch.<name>``."""
    module = _ModuleType(__name__ + "." + name)
    module.__dict__.update(content)

    def missing(attribute: str) -> Any:
        raise AttributeError(_UNKNOWN.format(name + "." + attribute))

    module.__dict__["__getattr__"] = missing
    _sys.modules[module.__name__] = module
    return module


_false: Any = lambda *_, **__: False  # noqa: E731
_profiler = _module("autograd.profiler", record_function=_launch.record_function)
autograd = _module("autograd", profiler=_profiler, no_grad=_modes.no_grad)
profiler = _module("profiler", record_function=_launch.record_function)
backends = _module(
    "backends",
    cudnn=_Namespace(enabled=False, benchmark=False, deterministic=False),
    cuda=_Namespace(matmul=_Namespace(allow_tf32=False)),
    mps=_Namespace(is_available=_false),
)
cuda = _module("cuda", is_available=_false, device_count=lambda: 0, OutOfMemoryError=OutOfMemoryError)
version = _module("version", __version__=__version__, cuda=None, hip=None, git_version="light")

from . import _dynamo as _dynamo  # noqa: E402
from . import distributed as distributed  # noqa: E402
from . import nn as nn  # noqa: E402
from . import optim as optim  # noqa: E402

_sys.modules[__name__ + ".nn.parameter"] = _module("nn.parameter", Parameter=_Parameter)


def __getattr__(name: str) -> Any:
    raise AttributeError(_UNKNOWN.format(name))


if _os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
    try:
        import torch_npu as _torch_npu  # noqa: F401
    except Exception as _problem:
        raise RuntimeError(
            "Failed to load the backend extension: torch_npu. You can disable extension auto-loading with "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0."
        ) from _problem
