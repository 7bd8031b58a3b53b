"""The light runtime's optimizers and `backward`: what a training loop touches, and who hears of its steps."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIGHT = Path(__file__).resolve().parents[1] / "simhost" / "light"
SETUP = """
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
model = torch.nn.Linear(4, 2).to("npu:0")
heard = []
handle = register_optimizer_step_post_hook(lambda optimizer, args, kwargs: heard.append(type(optimizer).__name__))
"""


def say(code: str, tmp_path: Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(LIGHT), "ASCEND_HOME_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SETUP + code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_hooks_hear_of_every_step_once(tmp_path: Path) -> None:
    code = """
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
for made in (torch.optim.AdamW(model.parameters()), torch.optim.SGD([{"params": model.parameters(), "lr": 1}])):
    made.step()
Mine(model.parameters()).step(lambda: 3)
handle.remove()
made.step()
print(*heard, made.param_groups[0]["lr"])
"""
    # An own step that calls its parent's is heard of twice, as the real one is: both are wrapped.
    assert say(code, tmp_path) == "AdamW SGD Mine Mine 1\n"


def test_a_step_is_kernels_and_changes_no_value(tmp_path: Path) -> None:
    code = """
from torch_npu._device import state
model.weight.data = torch.ones(2, 4, device="npu:0")
before = state.stream_end_ns
torch.optim.Adam(model.parameters()).step()
print(state.stream_end_ns > before, model.weight.sum().item())
"""
    assert say(code, tmp_path) == "True 8.0\n"


def test_backward_wants_a_scalar(tmp_path: Path) -> None:
    code = """
out = model(torch.ones(3, 4).to("npu:0"))
out.mean().backward()
out.backward(torch.ones(3, 2).to("npu:0"))
try:
    out.backward()
except RuntimeError as error:
    print(error)
try:
    torch.optim.SGD([])
except ValueError as error:
    print(error)
"""
    assert say(code, tmp_path) == (
        "grad can be implicitly created only for scalar outputs\noptimizer got an empty parameter list\n"
    )
