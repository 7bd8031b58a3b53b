"""The shape-only tensors against the real torch: same shapes, types, small values and errors for the same expressions.

Each side evaluates all expressions in one process of its own. Without a real torch it is still seen that the stand-in
has an answer to each.
"""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIGHT = ROOT / "tests" / "simhost" / "light"
ASCEND = Path(os.environ.get("COLLECT_REMOTE_ASCEND_VENV", ROOT / ".venv" / "ascend")) / "bin" / "python"

SETUP = """
i = torch.arange(12).reshape(3, 4)
v = torch.tensor([3, 1, 2])
x = torch.ones(2, 3, 4)
w = torch.full((4, 5), 2.0)
h = torch.ones(2, 3, dtype=torch.bfloat16)
m = torch.tensor([True, False, True])
q = torch.zeros(2, 4, 6, 8)
kv = torch.zeros(2, 2, 6, 8)
img = torch.zeros(1, 4, 8, 8)
s = torch.tensor(2.5)
"""

# Values are compared where they are whole numbers or flags.
VALUES = """
i + 1
i * i
i - v[:, None]
i / 2
i // 5
i % 5
i ** 2
1 - i
2 / (i + 1)
-i
i.sum()
i.sum(0)
i.sum(-1, keepdim=True)
i.float().mean()
i.max()
i.max(1).values
i.max(dim=1)[1]
i.argmax(-1)
i.argmin()
i.amax(0)
i > 4
(i > 4).any()
(i >= 0).all()
i == i.t().reshape(3, 4)
i[1]
i[1, 2]
i[-1, 1:]
i[:, ::2]
i[..., None]
i[None]
i[:, 0][m]
v[v > 1]
v[torch.tensor([0, 0, 2])]
i.t()
i.T
i.transpose(0, 1)
i.permute(1, 0)
i.view(2, 6)
i.reshape(-1)
i.reshape(2, -1, 2)
i.flatten()
i.unflatten(1, (2, 2))
i.unsqueeze(1)
i.unsqueeze(-1).squeeze(-1)
v.expand(2, 3)
v.repeat(2)
v.repeat(2, 2)
v.repeat_interleave(2)
i.repeat_interleave(2, dim=1)
torch.cat((i, i), 0)
torch.cat((i, i), dim=-1)
torch.stack((v, v), 1)
i.split(2, dim=1)[1]
i.split([1, 3], dim=1)[1]
i.chunk(2)[0]
i.narrow(1, 1, 2)
i.select(0, 2)
torch.where(i > 4, i, 0)
torch.where(m, v, -v)
i.masked_fill(i > 4, 0)
i.float().triu(1)
torch.tril(i)
torch.outer(v, v)
i.cumsum(0).shape
v.cumsum(0)
v.float().cumprod(0)
torch.ones(size=(2,))
torch.arange(2, 10, 3)
torch.arange(3.0)
torch.full((2, 2), 7)
torch.zeros(3)
torch.ones(2, 2, dtype=torch.int32)
torch.zeros_like(i)
torch.full_like(i, 3)
torch.eye(2)
torch.tensor([[1, 2], [3, 4]])
torch.tensor([1.0, 2.0])
torch.tensor(True)
torch.isfinite(torch.tensor([1.0, float("inf")]))
torch.isnan(torch.tensor([1.0, float("nan")]))
i.clamp(2, 5)
i.clamp(min=3)
torch.maximum(v, torch.tensor(2))
v & 1
~m
m | ~m
m & m
v.tolist()
v[0].item()
len(i)
int(v.max())
bool((v > 0).all())
[row.tolist() for row in i]
i.size(-1)
i.dim()
i.numel()
i.to(torch.float16).to(torch.int64)
i.float().long()
v.bool()
i.new_zeros(2)
torch.equal(i, i)
torch.allclose(i.float(), i.float())
torch.einsum("ij,kj->ik", i.float(), i.float()).shape
v.add(1)
v.clone().add_(1)
v.clone().mul_(v)
v.clone().fill_(9)
i.is_contiguous(), i.t().is_contiguous(), i[:, 1:].is_contiguous(), i[1:].is_contiguous()
"""

SHAPES = """
i.float() @ torch.ones(4, 2)
i[v - 1]
x @ w
x.matmul(torch.ones(2, 4, 6))
torch.bmm(x, torch.ones(2, 4, 6))
torch.mm(w, w.t())
torch.ones(4) @ w
w @ torch.ones(5)
torch.ones(4) @ torch.ones(4)
x + s
h + s
h + 1
h * 2.5
h + h.float()
h + torch.ones(2, 3, dtype=torch.float16)
i + s
i * 1.5
m + 1
h / 2
i / i
x.softmax(-1)
F.softmax(x.float(), dim=-1)
x.std(-1)
x.var((0, 1))
x.norm(dim=-1, keepdim=True)
x.exp().sqrt().rsqrt().cos().sin().tanh().sigmoid()
F.silu(x)
F.gelu(x)
F.linear(x, w.t())
F.linear(x, w.t(), torch.ones(5))
F.embedding(i, torch.ones(20, 6))
F.layer_norm(x, (4,), torch.ones(4), torch.ones(4))
F.rms_norm(x, (4,))
F.group_norm(img, 2)
F.scaled_dot_product_attention(q, q, q, is_causal=True)
F.scaled_dot_product_attention(q, kv, kv, enable_gqa=True)
F.scaled_dot_product_attention(q, q, q, attn_mask=torch.ones(6, 6, dtype=torch.bool))
F.conv2d(img, torch.ones(6, 4, 3, 3), padding=1, stride=2)
F.conv1d(torch.ones(1, 4, 9), torch.ones(2, 4, 3))
F.interpolate(img, scale_factor=2.0)
F.avg_pool2d(img, 2)
F.pad(img, (1, 1, 2, 0))
F.cross_entropy(torch.ones(3, 5), v)
F.mse_loss(x, x)
F.one_hot(v, 4)
F.normalize(x, dim=-1)
torch.topk(x, 2).indices
x.topk(2, dim=1).values
torch.multinomial(torch.ones(3, 5), 2)
torch.einsum("bij,jk->bik", x, w)
torch.einsum("bij,bkj->bik", x, x)
torch.randn(2, 3)
torch.rand((2, 3))
torch.randint(0, 5, (2, 3))
torch.randint(5, (2,))
torch.randn_like(h)
torch.linspace(0, 1, 5)
torch.empty(2, 3, dtype=torch.float16)
x.half()
x.bfloat16().dtype
x.to(dtype=torch.float64)
x.type_as(h)
i.mT
x[:, -1]
x[..., :2]
x[:, None, :, None]
x[0, [0, 2]]
x[:, v - 1, 0]
x[torch.tensor([[0, 1], [1, 0]])]
x.index_select(2, torch.tensor([0, 1]))
x.gather(2, torch.zeros(2, 3, 1, dtype=torch.int64))
x.permute(2, 0, 1)
x.transpose(-1, -2)
x.broadcast_to((5, 2, 3, 4))
x.unbind(1)[0]
x.roll(1, 0)
x.flip(0)
torch.concat([x, x], -1)
nn.Linear(4, 7)(x)
nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 2))(x)
nn.LayerNorm(4)(x)
nn.RMSNorm(4)(x)
nn.Embedding(20, 6)(i)
nn.Conv2d(4, 6, 3, padding=1)(img)
nn.GroupNorm(2, 4)(img)
nn.Dropout(0.5)(x)
nn.Linear(4, 7).half().weight
sorted(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)).state_dict())
sum(p.numel() for p in nn.ModuleList([nn.Linear(2, 3), nn.Embedding(4, 5)]).parameters())
[n for n, _ in nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU())).named_modules()]
nn.Linear(2, 3).eval().training
torch.broadcast_shapes((2, 1), (3,))
torch.finfo(torch.bfloat16).min
torch.finfo(torch.float16).max
torch.iinfo(torch.int32).max
torch.get_default_dtype()
torch.Size([2, 3]).numel()
"""

ERRORS = """
x @ torch.ones(3, 3)
torch.mm(w, w)
torch.bmm(x, x)
x + torch.ones(5)
i.view(5, 2)
i.reshape(5, -1)
torch.cat((x, torch.ones(2, 9, 5)), 1)
torch.stack((v, i[0]))
v.expand(2, 4)
i.split([1, 1], 1)
i[5]
i[0, 0, 0]
i.unsqueeze(5)
i.sum(3)
v[torch.tensor([True, False])]
i.mean()
bool(v)
i.item()
len(s)
F.linear(x, w)
F.embedding(x, w)
F.layer_norm(x, (3,))
F.conv2d(img, torch.ones(6, 3, 3, 3))
F.scaled_dot_product_attention(q, kv, kv)
torch.topk(v, 5)
torch.tensor([[1, 2], [3]])
h @ torch.ones(3, 2)
torch.device("npu:x")
v.add_(0.5)
v.add_(torch.ones(2, 3, dtype=torch.int64))
nn.Linear(4, 7)(torch.ones(3))
nn.Linear(2, 2).load_state_dict({})
"""

EVALUATE = """
import json, sys
import torch
import torch.nn as nn
import torch.nn.functional as F

def plain(value):
    if isinstance(value, torch.Tensor):
        return ["tensor", list(value.shape), str(value.dtype)]
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (bool, int, float, str)):
        return value
    return str(value)

answers = {}
for line in json.load(sys.stdin):
    try:
        exec(SETUP)
        value = eval(line)
        answers[line] = ["value", plain(value)]
        if isinstance(value, torch.Tensor) and value.numel() < 50:
            answers[line].append([float(v) for v in value.flatten().tolist()])
    except Exception as problem:
        answers[line] = ["error", type(problem).__name__, str(problem).splitlines()[0]]
json.dump(answers, sys.stdout)
"""


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


@functools.cache
def answers(real: bool) -> dict[str, Any]:
    """What one side says to every expression."""
    env = {"PATH": "/usr/bin:/bin", "HOME": "/", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}
    if not real:
        env.update(PYTHONPATH=str(LIGHT), ASCEND_HOME_PATH="/")
    done = subprocess.run(
        [str(ASCEND) if real else sys.executable, "-B", "-W", "ignore", "-c", f"SETUP = {SETUP!r}\n" + EVALUATE],
        input=json.dumps(lines(VALUES + SHAPES + ERRORS)),
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def both(line: str) -> tuple[Any, Any]:
    if not ASCEND.exists():
        pytest.skip(f"no real torch in {ASCEND.parents[1]}")
    return answers(False)[line], answers(True)[line]


def test_there_is_an_answer_to_everything() -> None:
    kinds = {line: answer[0] for line, answer in answers(False).items()}
    assert [line for line in lines(VALUES + SHAPES) if kinds[line] != "value"] == []
    assert [line for line in lines(ERRORS) if kinds[line] != "error"] == []


@pytest.mark.parametrize("line", lines(VALUES))
def test_values(line: str) -> None:
    light, real = both(line)
    assert light[:2] == real[:2]
    assert light[2:] == ([pytest.approx(real[2])] if len(real) == 3 else [])


@pytest.mark.parametrize("line", lines(SHAPES))
def test_shapes_and_types(line: str) -> None:
    light, real = both(line)
    assert light[:2] == real[:2]


@pytest.mark.parametrize("line", lines(ERRORS))
def test_errors(line: str) -> None:
    light, real = both(line)
    assert light[:2] == real[:2]
    assert light[0] == "error"
    # The same numbers stand in both messages: the sizes that did not fit.
    assert re.findall(r"\d+", light[2]) == re.findall(r"\d+", real[2])


def test_what_is_missing_says_who_misses_it() -> None:
    code = """
import torch
for name in ("torch.fft", "torch.nn.LSTM", "torch.nn.functional.ctc_loss", "torch.ones(1).register_hook"):
    try:
        eval(name)
    except AttributeError as problem:
        print(problem)
"""
    env = {"PYTHONPATH": str(LIGHT), "ASCEND_HOME_PATH": "/", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "the light stand-in of torch has no fft",
        "the light stand-in of torch has no nn.LSTM",
        "the light stand-in of torch has no nn.functional.ctc_loss",
        "the light stand-in of torch has no Tensor.register_hook",
    ]
