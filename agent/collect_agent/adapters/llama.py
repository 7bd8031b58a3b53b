"""A small Llama in plain torch with random weights: for hosts without transformers, for a first look.

Options (defaults in `DEFAULTS`): layers, hidden, intermediate, heads, kv_heads, vocab, batch, prompt_tokens
(tokens), dtype (bfloat16, float16, float32). Architecture: RMSNorm, rotary embedding, grouped-query attention,
SwiGLU.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional

DEFAULTS: dict[str, Any] = {
    "layers": 2,
    "hidden": 256,
    "intermediate": 688,
    "heads": 8,
    "kv_heads": 4,
    "vocab": 1000,
    "batch": 1,
    "prompt_tokens": 64,
    "dtype": "bfloat16",
}


class RMSNorm(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(size))

    def forward(self, x: Any) -> Any:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotary(position: int, length: int, size: int, device: Any) -> tuple[Any, Any]:
    """cos and sin of the rotary embedding for `length` positions from `position` on, each (length, size)."""
    inverse = 1.0 / (10000.0 ** (torch.arange(0, size, 2, device=device).float() / size))
    angles = torch.outer(torch.arange(position, position + length, device=device).float(), inverse)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Any, cos: Any, sin: Any) -> Any:
    """Apply the rotary embedding to x of shape (batch, heads, length, size)."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos.to(x.dtype) + turned * sin.to(x.dtype)


class Layer(torch.nn.Module):
    def __init__(self, o: dict[str, Any]) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = o["heads"], o["kv_heads"], o["hidden"] // o["heads"]
        self.attention_norm, self.mlp_norm = RMSNorm(o["hidden"]), RMSNorm(o["hidden"])
        kv = self.kv_heads * self.size
        self.q = torch.nn.Linear(o["hidden"], o["hidden"], bias=False)
        self.k = torch.nn.Linear(o["hidden"], kv, bias=False)
        self.v = torch.nn.Linear(o["hidden"], kv, bias=False)
        self.o = torch.nn.Linear(o["hidden"], o["hidden"], bias=False)
        self.gate = torch.nn.Linear(o["hidden"], o["intermediate"], bias=False)
        self.up = torch.nn.Linear(o["hidden"], o["intermediate"], bias=False)
        self.down = torch.nn.Linear(o["intermediate"], o["hidden"], bias=False)

    def forward(self, x: Any, cos: Any, sin: Any, past: Any) -> tuple[Any, Any]:
        batch, length, hidden = x.shape
        y = self.attention_norm(x)
        q = self.q(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k(y).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        v = self.v(y).view(batch, length, self.kv_heads, self.size).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if past is not None:
            k, v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        groups = self.heads // self.kv_heads
        scores = q @ k.repeat_interleave(groups, dim=1).transpose(2, 3) * self.size**-0.5
        if length > 1:
            mask = torch.full((length, length), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
            scores = scores + mask
        weights = functional.softmax(scores.float(), dim=-1).to(x.dtype)
        attended = (weights @ v.repeat_interleave(groups, dim=1)).transpose(1, 2).reshape(batch, length, hidden)
        x = x + self.o(attended)
        y = self.mlp_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), (k, v)


class Llama(torch.nn.Module):
    def __init__(self, o: dict[str, Any]) -> None:
        super().__init__()
        self.size = o["hidden"] // o["heads"]
        self.embed = torch.nn.Embedding(o["vocab"], o["hidden"])
        self.layers = torch.nn.ModuleList([Layer(o) for _ in range(o["layers"])])
        self.norm = RMSNorm(o["hidden"])
        self.head = torch.nn.Linear(o["hidden"], o["vocab"], bias=False)

    def forward(self, tokens: Any, cache: Any) -> tuple[Any, Any]:
        """tokens (batch, length), (k, v) of every layer or None -> last logits (batch, vocab), new cache."""
        position = cache[0][0].shape[2] if cache else 0
        x = self.embed(tokens)
        cos, sin = rotary(position, tokens.shape[1], self.size, x.device)
        past = cache or [None] * len(self.layers)
        new = []
        for layer, kept in zip(self.layers, past):
            x, kv = layer(x, cos, sin, kept)
            new.append(kv)
        return self.head(self.norm(x[:, -1])), new


class State:
    def __init__(self, model: Llama, prompt: Any) -> None:
        self.model, self.prompt = model, prompt
        self.cache: Any = None
        self.token: Any = None

    def step(self, tokens: Any, cache: Any) -> Any:
        logits, self.cache = self.model(tokens, cache)
        self.token = logits.argmax(-1, keepdim=True)
        return logits


def load(device: str, options: dict[str, Any]) -> State:
    o = {**DEFAULTS, **options}
    if o["hidden"] % o["heads"] or o["heads"] % o["kv_heads"]:
        raise ValueError("llama: hidden must be a multiple of heads, and heads of kv_heads")
    torch.manual_seed(0)
    model = Llama(o).to(getattr(torch, o["dtype"])).to(device).eval()
    prompt = torch.randint(0, o["vocab"], (o["batch"], o["prompt_tokens"])).to(device)
    return State(model, prompt)


def prefill(state: State) -> Any:
    """The whole prompt through a fresh cache."""
    return state.step(state.prompt, None)


def decode(state: State) -> Any:
    """One more token for every sequence of the batch."""
    return state.step(state.token, state.cache)


def forward(state: State) -> Any:
    """One whole pass over the prompt, for who wants no split: what a prefill does."""
    return prefill(state)


def check(output: Any) -> None:
    if not bool(torch.isfinite(output.float()).all()):
        raise ValueError("the logits are not finite")
