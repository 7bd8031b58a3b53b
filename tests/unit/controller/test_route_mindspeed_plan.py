"""The plans for MindSpeed, from what is seen of its miniature; no host."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from checkouts import MINIATURES, looked_at
from collect_remote.errors import CollectError
from collect_remote.inventory import ModelSpec
from collect_remote.request import Request
from collect_remote.routes import choose
from collect_remote.routes.plan import Plan

PTD, ARGS = "examples/mcore/llama/pretrain_llama_ptd.sh", "examples/mcore/llama/pretrain_llama_args.sh"
TORCHRUN = ["torchrun", "--nproc_per_node", "2", "pretrain_gpt.py", "--train-iters", "30"]
SWITCH = (
    "--profile --profile-step-start {start} --profile-step-end {end} --profile-ranks {ranks} --profile-level level1 "
    "--profile-with-cpu --profile-export-type text --profile-save-path {run}/own"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(MINIATURES / "mindspeed", tmp_path / "job")
    return tmp_path / "job"


def planned(
    root: Path, command: list[str], installed: dict[str, str] | None = None, resumed_at: int = 0, **request: Any
) -> Plan:
    options = {"project": str(root), "command": command, **({"resumed_at": resumed_at} if resumed_at else {})}
    model = ModelSpec("job", None, "auto", options)
    return choose.late(Request("ascend01", "job", **request), model, looked_at(model, installed))[1]


def switch(start: int, end: int, ranks: str) -> list[str]:
    return SWITCH.format(start=start, end=end, ranks=ranks, run="{run}").split()


def argv(plan: Plan) -> list[str]:
    assert plan.route == "mindspeed"
    assert plan.launch is not None
    return list(plan.launch.argv)


def test_a_command_gets_the_arguments(checkout: Path) -> None:
    plan = planned(checkout, TORCHRUN, device_count=2)
    assert argv(plan) == [*TORCHRUN, *switch(5, 8, "0 1")]
    assert plan.evidence == ("pretrain_gpt.py takes --profile-level",)
    assert plan.expected["steps"] == {"train": 3}
    windows = json.loads(plan.files["drive.json"])["shim"]["windows"]
    assert windows == {"train": {"skip_first": 3, "wait": 0, "warmup": 1, "active": 3}}


def test_warm_up_and_checkpoints_move_the_window(checkout: Path) -> None:
    plan = planned(checkout, TORCHRUN, device_count=2, ranks=(1,), warmup_steps=6, steps=10)
    assert argv(plan)[6:] == switch(8, 18, "1")
    longer = [*TORCHRUN[:-1], "5030"]
    plan = planned(checkout, longer, resumed_at=5000, device_count=2, ranks=(1,), steps=10)
    assert argv(plan)[6:] == switch(5005, 5015, "1")
    assert json.loads(plan.files["drive.json"])["shim"]["windows"]["train"]["skip_first"] == 3


def test_a_job_on_two_hosts(checkout: Path) -> None:
    """The ranks of each host are told to the program by their numbers in the job."""
    hosts = ("ascend00", "ascend01")
    plan = planned(checkout, ["torchrun", "--nnodes={nodes}", *TORCHRUN[1:]], device_count=2, nodes=hosts)
    assert json.loads(plan.files["drive.json"])["argv"] == [
        "torchrun",
        "--nnodes=2",
        *TORCHRUN[1:],
        *switch(5, 8, "2 3"),
    ]
    assert plan.expected["ranks"] == [2, 3]
    for said, message in (
        ("--nnodes=3", "runs on 3 hosts, and 2 are asked for"),
        ("--node_rank=0", "--node_rank of the command on ascend01 is 0, and it has the place 1"),
    ):
        with pytest.raises(CollectError, match=message):
            planned(checkout, ["torchrun", said, *TORCHRUN[1:]], device_count=2, nodes=hosts)


def test_a_script_that_passes_arguments_on_gets_them(checkout: Path) -> None:
    plan = planned(checkout, ["bash", ARGS])
    assert argv(plan) == ["bash", ARGS, *switch(5, 8, "0")]
    assert list(plan.files) == ["drive.json"]


def test_another_script_is_copied(checkout: Path) -> None:
    plan = planned(checkout, ["bash", PTD], device_count=2)
    assert argv(plan) == ["bash", "-c", '. "$COLLECT_REMOTE_LAUNCH_run/launch.sh"', PTD]
    assert plan.launch is not None
    assert plan.launch.env == {"COLLECT_REMOTE_LAUNCH_run": "{run}"}
    assert "$OUTPUT_ARGS --profile --profile-step-start 5" in plan.files["launch.sh"]
    assert "a copy of" in plan.notes[0]


def test_fsdp2_counts_from_0(checkout: Path) -> None:
    words = argv(planned(checkout, ["torchrun", "train_fsdp2.py", "llama.yaml"]))
    said = dict(zip(words[3::2], words[4::2], strict=True))
    assert {name.removeprefix("--training.profile"): value for name, value in said.items()} == {
        "": "true",
        "_step_start": "4",
        "_step_end": "7",
        "_ranks": "0",
        "_level": "level1",
        "_with_cpu": "true",
        "_export_type": "text",
        "_save_path": "{run}/own",
    }


def test_the_multimodal_models_get_another_file_of_tools(checkout: Path) -> None:
    command = ["torchrun", "pretrain_vlm.py", "--mm-tool", "mindspeed_mm/tools/tools.json"]
    plan = planned(checkout, command)
    assert argv(plan) == [*command, "--mm-tool", "{run}/tools.json"]
    own = json.loads((checkout / "mindspeed_mm/tools/tools.json").read_text())
    tools = json.loads(plan.files["tools.json"])
    assert tools["memory_profile"] == own["memory_profile"]
    static = tools["profile"]["static_param"]
    assert (tools["profile"]["enable"], tools["profile"]["ranks"]) == (True, [0])
    assert (static["level"], static["with_cpu"], static["start_step"], static["end_step"]) == ("level1", True, 4, 7)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"profile": {"enable": true}}', '{"profile": 3}'])
def test_a_file_of_tools_that_is_none(checkout: Path, text: str) -> None:
    (checkout / "mindspeed_mm/tools/tools.json").write_text(text)
    with pytest.raises(CollectError, match="describes no static profiler"):
        planned(checkout, ["torchrun", "pretrain_vlm.py", "--mm-tool", "mindspeed_mm/tools/tools.json"])


def test_mindspeed_may_be_installed_elsewhere(checkout: Path) -> None:
    shutil.rmtree(checkout / "mindspeed_llm")
    (checkout / "pretrain_gpt.py").write_text("from megatron.training import pretrain\n")
    with pytest.raises(CollectError, match="no route fits"):
        planned(checkout, TORCHRUN, device_count=2)
    plan = planned(checkout, TORCHRUN, {"mindspeed": "2.1.0"}, device_count=2)
    assert plan.evidence == ("pretrain_gpt.py takes --profile-level", "mindspeed 2.1.0 is installed")
    (checkout / "pretrain_gpt.py").write_text("import torch\n")
    with pytest.raises(CollectError, match="no route fits"):
        planned(checkout, TORCHRUN, {"mindspeed": "2.1.0"}, device_count=2)


@pytest.mark.parametrize(
    ("command", "request_", "message"),
    [
        (TORCHRUN, {"device_count": 1}, "has 2 ranks, and the request is for 1"),
        (TORCHRUN, {"device_count": 2, "steps": 27}, "makes 30 iterations, and 27 after 4"),
        (["torchrun", "--nnodes=2", "pretrain_gpt.py"], {}, "runs on 2 hosts, and one is asked for"),
        (["torchrun", "pretrain_gpt.py"], {"all_steps": True}, "does not show how many iterations"),
        (TORCHRUN, {"device_count": 2, "phase": "decode"}, "cannot record --phase decode"),
    ],
)
def test_what_cannot_be_asked_for(checkout: Path, command: list[str], request_: dict[str, Any], message: str) -> None:
    with pytest.raises(CollectError, match=message):
        planned(checkout, command, **request_)


def test_the_last_iteration_may_close_the_window(checkout: Path) -> None:
    assert planned(checkout, TORCHRUN, device_count=2, steps=26).expected["steps"] == {"train": 26}
    assert planned(checkout, TORCHRUN, device_count=2, all_steps=True).expected["steps"] == {"train": 26}
