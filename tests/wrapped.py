"""Programs that call what `collect-remote template --for` prints, by scene; PROGRAM is their `program.py`."""

from __future__ import annotations

PROGRAMS = {
    "training": """
from npu_profile import profiled
from program import step

with profiled() as profiler:
    for number in range(12):
        step()
        profiler.step()
""",
    "inference": """
from npu_profile import run
from program import step

for prompt in range(4):
    run("prefill", step)
    for token in range(16):
        assert run("decode", step).shape == (8, 64)
""",
    "service": """
import threading
from npu_profile import Service
from program import step

service = Service()

def forward():
    with service.iteration():
        step()

for iteration in range(3):
    forward()
said = []
request = threading.Thread(target=lambda: said.append((service.start(iterations=6), service.start())))
request.start()
request.join()
for iteration in range(12):
    forward()
print(*said[0], service.recording)
""",
    "rl": """
from npu_profile import stage
from program import step

for iteration in range(4):
    for name, steps in ("rollout", 20), ("reward", 4), ("train", 8):
        with stage(name, iteration) as profiler:
            for number in range(steps):
                step()
                profiler.step()
""",
}
PROGRAM = """
import torch
import torch_npu

torch.npu.set_device(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.SiLU(), torch.nn.Linear(128, 64)).to("npu:0")
model(torch.ones(8, 64).to("npu:0"))

def step():
    with torch.no_grad():
        return model(torch.ones(8, 64).to("npu:0"))
"""
