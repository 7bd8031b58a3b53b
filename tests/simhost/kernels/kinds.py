"""Which kernel CANN chooses for an operator of torch, and what it calls it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Kind(NamedTuple):
    type: str
    core: str
    api: str
    middle: str  # the second part of the kernel's name


# aten base name -> CANN's operator type, for those whose type is not simply the name in camel case.
_TYPES = {
    "mm": "MatMulV2", "addmm": "MatMulV2", "matmul": "MatMulV2", "linear": "MatMulV2", "bmm": "BatchMatMulV2",
    "baddbmm": "BatchMatMulV2", "dot": "Dot", "mv": "MatMulV2", "addmv": "MatMulV2",
    "conv1d": "Conv2D", "conv2d": "Conv2D", "conv3d": "Conv3D", "convolution": "Conv2D",
    "convolution_overrideable": "Conv2D", "convolution_backward": "Conv2DBackpropInput",
    "convolution_backward_overrideable": "Conv2DBackpropInput",
    "scaled_dot_product_attention": "FlashAttentionScore", "npu_fusion_attention": "FlashAttentionScore",
    "softmax": "SoftmaxV2", "log_softmax": "LogSoftmaxV2", "layer_norm": "LayerNormV4",
    "native_layer_norm": "LayerNormV4", "native_group_norm": "GroupNorm", "embedding": "GatherV2",
    "index_select": "GatherV2", "index": "Index", "gather": "GatherElements", "cat": "ConcatD",
    "stack": "Pack",
    "mean": "ReduceMean", "sum": "ReduceSum", "amax": "ReduceMax", "amin": "ReduceMin", "all": "ReduceAll",
    "any": "ReduceAny", "max": "ArgMaxWithValue", "min": "ArgMinWithValue", "argmax": "ArgMaxV2",
    "argmin": "ArgMin", "topk": "TopKV2", "silu": "Swish", "clone": "Identity", "copy": "TensorMove",
    "to_copy": "Cast", "contiguous": "Transpose", "arange": "Range", "where": "SelectV2", "fill": "Fill",
    "zero": "ZerosLike", "zeros": "ZerosLike", "ones": "OnesLike", "div": "RealDiv", "eq": "Equal",
    "ne": "NotEqual", "ge": "GreaterEqual", "gt": "Greater", "le": "LessEqual", "lt": "Less",
    "masked_fill": "MaskedFill", "normal": "DSARandomNormal", "randn": "DSARandomNormal",
    "uniform": "DSARandomUniform", "rand": "DSARandomUniform", "bernoulli": "DSAGenBitMask",
    "random": "DSARandomUniform", "randint": "DSARandomUniform", "cumsum": "Cumsum",
    "multinomial": "MultinomialWithReplacement",
    "upsample_nearest2d": "ResizeNearestNeighborV2", "adaptive_avg_pool2d": "AdaptiveAvgPool3d",
    "max_pool2d_with_indices": "MaxPoolWithArgmaxV1", "threshold_backward": "ReluGrad", "gelu": "Gelu",
}  # fmt: skip
_MATMUL_TYPES = {"MatMulV2": "MatMulCommon", "BatchMatMulV2": "BatchMatMulNode"}
_CUBE_TYPES = {"MatMulV2", "BatchMatMulV2", "Conv2D", "Conv3D", "Conv2DBackpropInput"}
_AI_CPU_NAMES = {"unique2", "unique_dim", "multinomial", "histc", "bincount", "searchsorted", "linalg_svd",
                 "linalg_eigh", "linalg_qr", "cholesky"}  # fmt: skip


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_") if part)


@lru_cache(maxsize=None)
def kind_of(name: str) -> Kind:
    """The kernel that CANN would choose for an aten operator, by its name alone."""
    base = name.split("::")[-1].split(".")[0]
    in_place = base.endswith("_") and not base.endswith("__")
    plain = base.strip("_")
    type_ = _TYPES.get(plain) or _camel(plain)
    api = "aclnn" + ("Inplace" if in_place else "") + _camel(plain)
    if type_ in _CUBE_TYPES:
        return Kind(type_, "AI_CORE", api, _MATMUL_TYPES.get(type_, type_))
    if "attention" in plain:
        return Kind("FlashAttentionScore", "MIX_AIC", "aclnnFlashAttentionScore", "FlashAttentionScore")
    if type_.startswith("DSA"):
        return Kind(type_, "DSA_SQE", api, type_)
    if plain in _AI_CPU_NAMES:
        return Kind(type_, "AI_CPU", api, type_ + "AiCpu")
    family = type_[:-2] if type_[-2:] in ("V2", "V3", "V4") else type_
    return Kind(type_, "AI_VECTOR_CORE", api, family + "AiCore")
