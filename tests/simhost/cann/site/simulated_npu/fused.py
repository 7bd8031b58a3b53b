"""Fused operators of torch_npu that models call by name (`torch_npu.npu_rms_norm` and its like), as formulas.

Each takes and returns CPU tensors and has the arguments and defaults of torch_npu's schema, as far as they are
supported. An operator that is not here fails on the simulated device as on one whose CANN does not have it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.nn import functional

EVERYTHING = 2147483647


def rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tuple[Tensor, Tensor]:
    exact = input.float()
    rstd = torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + epsilon)
    return (exact * rstd * gamma.float()).to(input.dtype), rstd


def rms_norm_backward(dy: Tensor, input: Tensor, gamma: Tensor, rstd: Tensor) -> Tuple[Tensor, Tensor]:
    normed = input.float() * rstd
    grad = dy.float() * gamma.float()
    dx = rstd * (grad - normed * (grad * normed).mean(-1, keepdim=True))
    dgamma = (dy.float() * normed).reshape(-1, gamma.numel()).sum(0)
    return dx.to(input.dtype), dgamma.reshape(gamma.shape)


def add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Tuple[Tensor, Tensor, Tensor]:
    total = x1 + x2
    y, rstd = rms_norm(total, gamma, epsilon)
    return y, rstd, total


def rotary_mul(
    input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Optional[Tensor] = None
) -> Tensor:
    if rotary_mode == "half":
        first, second = input.chunk(2, -1)
        turned = torch.cat((-second, first), -1)
    else:
        turned = torch.stack((-input[..., 1::2], input[..., ::2]), -1).flatten(-2)
    return input * r1 + turned * r2


def swiglu(input: Tensor, dim: int = -1) -> Tensor:
    gate, up = input.chunk(2, dim)
    return functional.silu(gate) * up


def swiglu_backward(grad_output: Tensor, input: Tensor, dim: int = -1) -> Tensor:
    gate, up = input.chunk(2, dim)
    sigmoid = torch.sigmoid(gate)
    silu = gate * sigmoid
    return torch.cat((grad_output * up * (sigmoid + silu * (1 - sigmoid)), grad_output * silu), dim)


def geglu(self: Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False) -> Tuple[Tensor, Tensor]:
    left, right = self.chunk(2, dim)
    gate, other = (left, right) if activate_left else (right, left)
    activated = functional.gelu(gate, approximate="tanh" if approximate else "none")
    return activated * other, activated


def dropout(input: Tensor, p: float) -> Tuple[Tensor, Tensor]:
    mask = torch.rand(input.shape) >= p
    scale = 0.0 if p >= 1 else 1 / (1 - p)
    return input * mask * scale, mask.to(torch.uint8)


def dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    return grad_output * mask / scale if scale else torch.zeros_like(grad_output)


def transpose(input: Tensor, perm: Sequence[int], require_contiguous: bool = True) -> Tensor:
    return input.permute(list(perm)).contiguous()


def cross_entropy_backward(
    grad_output: Tensor,
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    pos_weight: Optional[Tensor] = None,
    reduction: int = 1,
) -> Tensor:
    """Of the binary cross entropy with logits; reduction 0 none, 1 mean, 2 sum."""
    probability = torch.sigmoid(input)
    heavy = target if pos_weight is None else target * pos_weight
    grad = (heavy + 1 - target) * probability - heavy
    grad = grad * grad_output if weight is None else grad * grad_output * weight
    return grad / input.numel() if reduction == 1 else grad


# --- attention ----------------------------------------------------------------------------------------------


def _heads(tensor: Tensor, layout: str, heads: int) -> Tensor:
    """Any layout as (batch, heads, sequence, head size)."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "BSH":
        return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)
    if layout == "SBH":
        return tensor.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
    raise NotImplementedError(f"input_layout {layout}")


def _like_layout(tensor: Tensor, layout: str) -> Tensor:
    if layout == "BNSD":
        return tensor.contiguous()
    if layout == "BSND":
        return tensor.transpose(1, 2).contiguous()
    if layout == "BSH":
        return tensor.transpose(1, 2).flatten(2)
    return tensor.permute(2, 0, 1, 3).flatten(2)


def _spread(
    query: Tensor, key: Tensor, value: Tensor, layout: str, heads: int, key_heads: int
) -> Tuple[Tensor, Tensor, Tensor]:
    """In float and with one key and value head for every query head."""
    q = _heads(query, layout, heads).float()
    k, v = (_heads(item, layout, key_heads).float() for item in (key, value))
    return q, k.repeat_interleave(heads // key_heads, 1), v.repeat_interleave(heads // key_heads, 1)


def _weights(
    q: Tensor, k: Tensor, mask: Optional[Tensor], scale: float, sparse_mode: int, bias: Optional[Tensor]
) -> Tuple[Tensor, Tensor]:
    """Softmax of the scores and log-sum-exp (batch, heads, sequence). True in a mask hides."""
    scores = q @ k.transpose(-1, -2) * scale
    if bias is not None:
        scores = scores + bias
    if sparse_mode in (2, 3):
        long, wide = scores.shape[-2:]
        start = wide - long if sparse_mode == 3 else 0
        mask = torch.ones(long, wide, dtype=torch.bool).triu(1 + start)
    if mask is not None:
        scores = scores.masked_fill(mask.bool(), float("-inf"))
    lse = scores.logsumexp(-1)
    return torch.nan_to_num(torch.exp(scores - lse.unsqueeze(-1))), lse


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: str,
    heads: int,
    key_heads: int,
    *how: Any,
) -> Tuple[Tensor, Tensor]:
    """The output in the query's layout, and log-sum-exp."""
    q, k, v = _spread(query, key, value, layout, heads, key_heads)
    weights, lse = _weights(q, k, *how)
    return _like_layout((weights @ v).to(query.dtype), layout), lse


def _pieces(lengths: Sequence[int]) -> Sequence[slice]:
    return [slice(start, end) for start, end in zip([0, *lengths[:-1]], lengths)]


def _key_heads(query: Tensor, key: Tensor, heads: int, layout: str) -> int:
    if layout in ("BSH", "SBH"):
        return heads * key.shape[-1] // query.shape[-1]
    return key.shape[1 if layout in ("BNSD", "TND") else 2]


def fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    pse: Optional[Tensor] = None,
    padding_mask: Optional[Tensor] = None,
    atten_mask: Optional[Tensor] = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = EVERYTHING,
    next_tockens: int = EVERYTHING,
    inner_precise: int = 0,
    prefix: Optional[Sequence[int]] = None,
    actual_seq_qlen: Optional[Sequence[int]] = None,
    actual_seq_kvlen: Optional[Sequence[int]] = None,
    sparse_mode: int = 0,
    *unused: Any,
) -> Tuple[Any, ...]:
    key_heads = _key_heads(query, key, head_num, input_layout)
    if input_layout == "TND":
        hidden = sparse_mode if atten_mask is not None else 0
        done = [
            _attend(
                query[None, ours],
                key[None, theirs],
                value[None, theirs],
                "BSND",
                head_num,
                key_heads,
                None,
                scale,
                hidden,
                None,
            )
            for ours, theirs in zip(_pieces(actual_seq_qlen or []), _pieces(actual_seq_kvlen or []))
        ]
        out, lse = torch.cat([item[0][0] for item in done]), torch.cat([item[1][0].T for item in done])
    else:
        how = (atten_mask, scale, sparse_mode, pse)
        out, lse = _attend(query, key, value, input_layout, head_num, key_heads, *how)
    wide = lse.unsqueeze(-1).expand(*lse.shape, 8).contiguous()
    return out, wide, torch.ones_like(wide), torch.empty(0, dtype=query.dtype), 0, 0, 0


def fusion_attention_grad(
    query: Tensor, key: Tensor, value: Tensor, dy: Tensor, head_num: int, input_layout: str, **options: Any
) -> Tuple[Tensor, ...]:
    key_heads = _key_heads(query, key, head_num, input_layout)
    scale = options.get("scale_value", 1.0)
    q, k, v = _spread(query, key, value, input_layout, head_num, key_heads)
    mask, mode = options.get("atten_mask"), options.get("sparse_mode", 0)
    weights, _ = _weights(q, k, mask, scale, mode, options.get("pse"))
    grad = _heads(dy, input_layout, head_num).float()
    d_weights = grad @ v.transpose(-1, -2)
    d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdim=True)) * scale
    grads = []
    for like, full, heads in (
        (query, d_scores @ k, head_num),
        (key, d_scores.transpose(-1, -2) @ q, key_heads),
        (value, weights.transpose(-1, -2) @ grad, key_heads),
    ):
        summed = full.unflatten(1, (heads, -1)).sum(2)
        grads.append(_like_layout(summed.to(like.dtype), input_layout))
    nothing = torch.empty(0, dtype=query.dtype)
    return (*grads, nothing, nothing)


def prompt_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    atten_mask: Optional[Tensor] = None,
    pse_shift: Optional[Tensor] = None,
    num_heads: int = 1,
    scale_value: float = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    **unused: Any,
) -> Tensor:
    key_heads = num_key_value_heads or num_heads
    args = (input_layout, num_heads, key_heads, atten_mask, scale_value, sparse_mode, pse_shift)
    return _attend(query, key, value, *args)[0]


def fused_infer_attention(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float = 1.0, **options: Any
) -> Tuple[Tensor, Tensor]:
    if options.get("block_table") is not None:
        raise NotImplementedError("block_table")
    out = prompt_attention(query, key, value, scale_value=scale, **options)
    return out, torch.zeros(1)


IMPLEMENTATIONS: Dict[str, Callable[..., Any]] = {
    "npu_rms_norm": rms_norm,
    "npu_rms_norm_backward": rms_norm_backward,
    "npu_add_rms_norm": add_rms_norm,
    "npu_rotary_mul": rotary_mul,
    "npu_swiglu": swiglu,
    "npu_swiglu_backward": swiglu_backward,
    "npu_geglu": geglu,
    "npu_silu": functional.silu,
    "npu_gelu": functional.gelu,
    "npu_fast_gelu": functional.gelu,
    "npu_linear": functional.linear,
    "npu_bmmV2": lambda input, mat2, output_sizes: torch.matmul(input, mat2),
    "npu_transpose": transpose,
    "npu_format_cast": lambda input, acl_format, **unused: input,
    "_npu_dropout": dropout,
    "npu_dropout_backward": dropout_backward,
    "npu_binary_cross_entropy_with_logits_backward": cross_entropy_backward,
    "npu_fusion_attention": fusion_attention,
    "npu_fusion_attention_grad": fusion_attention_grad,
    "npu_prompt_flash_attention": prompt_attention,
    "npu_incre_flash_attention": prompt_attention,
    "npu_fused_infer_attention_score": fused_infer_attention,
}
