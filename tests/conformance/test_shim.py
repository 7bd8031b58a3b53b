"""The start-up shim and the real torch_npu: its own words in profiler_info.json, its own parser's files."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from shims import Ran, Shim, complaints
from simhost import cann as simulated

REPOSITORY = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.torch_npu

# As frameworks do it: one profiler at a time, stopped when the next phase begins; Level0, database only.
MANAGER = """
import torch, torch_npu
p = torch_npu.profiler

class Manager:
    def __init__(self):
        self.prof = None

    def begin(self, phase, active, skip):
        self.end()
        self.prof = p.profile(
            activities=[p.ProfilerActivity.NPU],
            schedule=p.schedule(wait=0, warmup=0, active=active, repeat=1, skip_first=skip),
            on_trace_ready=p.tensorboard_trace_handler("res/prof/" + phase),
            experimental_config=p._ExperimentalConfig(export_type=p.ExportType.Db),
        )
        self.prof.start()

    def end(self):
        if self.prof is not None:
            self.prof.stop()

    def __del__(self):
        self.end()

x = torch.randn(16, 16).npu()
manager = Manager()
for phase, active, skip in (("prefill", 1, 0), ("decode", 3, 3)):
    manager.begin(phase, active, skip)
    for _ in range(7):
        torch.relu(x @ x)
        torch.npu.synchronize()
        manager.prof.step()
"""
PARSE = """
import sys
from torch_npu.profiler.profiler import analyse
for directory in sys.argv[1:]:
    analyse(directory)
"""


@pytest.fixture(scope="module")
def ascend() -> tuple[Path, simulated.Cann]:
    venv = Path(os.environ.get("COLLECT_REMOTE_ASCEND_VENV") or REPOSITORY / ".venv" / "ascend")
    try:
        return venv, simulated.build(REPOSITORY / ".venv" / "simhost-cann", venv)
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture
def under(tmp_path: Path, ascend: tuple[Path, simulated.Cann]) -> Shim:
    """Where the simulated NPU comes by a sitecustomize of its own, which the shim hides and runs."""
    venv, cann = ascend
    shim = Shim(tmp_path, runtime=str(cann.site_dir), python=str(venv / "bin" / "python"))
    shim.env.update(
        PATH=f"{cann.bin_dir}:{os.environ['PATH']}",
        LD_LIBRARY_PATH=str(cann.lib_dir),
        ASCEND_HOME_PATH=str(cann.toolkit_dir),
        ASCEND_OPP_PATH=str(cann.toolkit_dir / "opp"),
        OMP_NUM_THREADS="1",
    )
    return shim


def parsed(under: Shim, ran: Ran, phase: str) -> tuple[list[str], list[str], dict[str, int]]:
    """Of the one profile of a phase, by torch_npu's parser: files, columns of the kernels, kernels in each step."""
    program = under.home / "parse.py"
    program.write_text(PARSE)
    done = under.start([str(program), str(ran.output / phase)], under.env)
    assert done.status == 0, done.stderr
    assert "run failed" not in done.stdout
    (output,) = (ran.output / phase).glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT")
    with (output / "kernel_details.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    steps = [row["Step Id"] for row in rows]
    return sorted(path.name for path in output.iterdir()), list(rows[0]), {step: steps.count(step) for step in steps}


def test_profilers_of_a_framework(under: Shim) -> None:
    windows = {
        "prefill": {"skip_first": 1, "wait": 0, "warmup": 1, "active": 1},
        "decode": {"skip_first": 0, "wait": 0, "warmup": 1, "active": 5},
    }
    env = {"LOCAL_RANK": "1", "RANK_ID": "1", "WORLD_SIZE": "2"}  # and no RANK
    ran = under.run(MANAGER, windows=windows, env=env).untroubled()
    assert complaints(ran.stdout) == []
    assert ran.one("imported")["torch_npu"].startswith("2.")
    assert ran.one("device")["name"].startswith("Ascend")
    for said in ran.said("profiler"):
        assert (said["requested"]["level"], said["requested"]["export"]) == (0, ["db"])
        assert (said["effective"]["level"], said["effective"]["aic_metrics"]) == (1, "PipeUtilization")
        assert said["effective"]["activities"] == ["CPU", "NPU"]
        assert (said["rank"], said["world"]) == (1, 2)
    assert ran.profiles() == {"decode": 1, "prefill": 1}
    for closed in ran.said("closed"):
        assert closed["complete"]
        name, info = ran.info(closed["directory"])
        assert name == "profiler_info_1.json"
        assert info["config"]["experimental_config"]["_profiler_level"] == "Level1"
        assert info["config"]["experimental_config"]["_export_type"] == ["text"]
    assert not (under.home / "res").exists()
    files, columns, kernels = parsed(under, ran, "decode")
    assert {"kernel_details.csv", "trace_view.json", "step_trace_time.csv", "operator_details.csv"} <= set(files)
    assert {"aic_mac_ratio", "aiv_vec_ratio"} <= set(columns)
    assert list(kernels) == ["1", "2", "3", "4", "5"]
    assert len(set(kernels.values())) == 1


MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(32, 16)
        self.layer = torch.nn.Linear(16, 32)

    def forward(self, input_ids):
        return self.layer(self.embedding(input_ids))
"""
GENERATE = """
import torch, torch_npu
from model import Model
model = Model().npu().eval()
if {compiled}:
    model = torch.compile(model, backend="eager")
with torch.no_grad():
    for _ in range(3):
        ids = torch.zeros((1, 8), dtype=torch.int64).npu()
        for _ in range(10):
            ids = model(ids)[:, -1:].argmax(-1)
"""


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_steps_of_a_program_without_a_profiler(under: Shim, compiled: bool) -> None:
    """Prefill and decode, each its own window; what torch.compile makes of the model does not hide its calls."""
    (under.home / "model.py").write_text(MODEL)
    windows = {
        "decode": {"skip_first": 2, "wait": 0, "warmup": 1, "active": 5},
        "prefill": {"skip_first": 1, "wait": 0, "warmup": 1, "active": 1},
    }
    step_on = [{"call": "model:Model.forward", "phase": None}]
    ran = under.run(GENERATE.format(compiled=compiled), windows=windows, step_on=step_on, phase_by=[]).untroubled()
    assert complaints(ran.stdout) == []
    assert ran.profiles() == {"decode": 1, "prefill": 1}
    assert [line["complete"] for line in ran.said("closed")] == [True, True]
    assert sum(line["recompiles"] for line in ran.said("step")) == 0
    if not compiled:
        _, _, kernels = parsed(under, ran, "decode")
        assert list(kernels) == ["1", "2", "3", "4", "5"]
        assert len(set(kernels.values())) == 1, "every recorded step is one decode, whole and alone"
        assert list(parsed(under, ran, "prefill")[2]) == ["1"]
