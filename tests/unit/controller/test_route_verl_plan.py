"""The plans for verl, from what is seen of its miniature; no host."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from checkouts import MINIATURES, looked_at
from collect_remote.errors import CollectError
from collect_remote.inventory import ModelSpec
from collect_remote.request import Request
from collect_remote.routes import choose, verl_release
from collect_remote.routes.plan import Plan

MAIN = ["python3", "-m", "verl.trainer.main_ppo", "trainer.n_gpus_per_node=2"]
ACTOR, ROLLOUT = "actor_rollout_ref.actor.profiler", "actor_rollout_ref.rollout.profiler"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(MINIATURES / "verl", tmp_path / "work")
    return tmp_path / "work"


def planned(root: Path, command: list[str], version: str | None = "0.9.0", **request: Any) -> Plan:
    model = ModelSpec("trained", None, "auto", {"project": str(root), "command": command})
    asked = Request("ascend01", "trained", **{"device_count": 2, **request})
    return choose.late(asked, model, looked_at(model, {"verl": version} if version else {}))[1]


def overrides(plan: Plan) -> dict[str, str]:
    assert plan.route == "verl"
    argv = json.loads(plan.files["drive.json"])["argv"]
    assert argv[: len(MAIN)] == MAIN
    found = [word.partition("=") for word in argv[len(MAIN) :]]
    assert len({key for key, *_ in found}) == len(found)
    return {key: value for key, _, value in found}


def test_one_update_of_the_actor(checkout: Path) -> None:
    plan = planned(checkout, MAIN, warmup_steps=4)
    found = overrides(plan)
    assert found["global_profiler.steps"] == "[5]"
    assert found["global_profiler.save_path"] == "'{run}/work/verl'"
    assert (found["trainer.total_training_steps"], found["trainer.resume_mode"]) == ("6", "disable")
    assert {key: value for key, value in found.items() if key.startswith("actor_rollout_ref.")} == {
        f"{ACTOR}.enable": "True",
        f"{ACTOR}.all_ranks": "False",
        f"{ACTOR}.ranks": "[0,1]",
        f"{ACTOR}.tool_config.npu.discrete": "True",
        f"{ACTOR}.tool_config.npu.level": "level1",
        f"{ACTOR}.tool_config.npu.analysis": "False",
        f"{ACTOR}.tool_config.npu.contents": "[npu,cpu]",
        f"{ROLLOUT}.enable": "False",  # which would follow the actor
        "actor_rollout_ref.ref.profiler.enable": "False",
    }
    assert plan.evidence == ("the command starts verl.trainer.main_ppo", "it is verl 0.9.0")
    assert plan.expected["steps"] == {"train": None}
    assert "the job ends after 6 steps, resumes and saves no checkpoint, and validates nothing" in plan.notes


def test_the_shim_comes_into_the_processes_of_ray(checkout: Path) -> None:
    plan = planned(checkout, MAIN)
    found = overrides(plan)
    runtime = "++ray_kwargs.ray_init.runtime_env.env_vars"
    assert {key.removeprefix(runtime + "."): value for key, value in found.items() if key.startswith(runtime)} == {
        "PYTHONPATH": "'{pythonpath}'",
        "COLLECT_REMOTE_SHIM": "'{run}/shim.json'",
        "COLLECT_REMOTE_RUN": "'{id}'",
        "ASCEND_WORK_PATH": "'{run}/work'",
        "PYTHONDONTWRITEBYTECODE": "'1'",
    }
    assert json.loads(plan.files["drive.json"])["env"] == {"RAY_ADDRESS": "local"}


@pytest.mark.parametrize(("version", "window"), [("0.8.0", None), ("0.9.0", ("2", "12")), (None, ("2", "12"))])
def test_a_rollout_of_the_first_engine(checkout: Path, version: str | None, window: tuple[str, str] | None) -> None:
    command = ["python3", "-m", "verl.trainer.main_ppo", "trainer.n_gpus_per_node=8"]
    plan = planned(checkout, command, version, device_count=8, phase="rollout")
    argv = json.loads(plan.files["drive.json"])["argv"]
    found = dict(word.split("=", 1) for word in argv[len(command) :])
    assert (found[f"{ACTOR}.enable"], found[f"{ROLLOUT}.enable"], found[f"{ROLLOUT}.ranks"]) == (
        "False",
        "True",
        "[0,1]",
    )
    npu = f"{ROLLOUT}.tool_config.npu"
    told = (found.get(f"{npu}.profile_token_start"), found.get(f"{npu}.profile_token_end"))
    assert told == (window or (None, None))
    assert plan.expected["ranks"] == [0, 1]


@pytest.mark.parametrize(
    ("version", "phase", "recorded", "elsewhere"),
    [
        ("0.5.0", "train", ["actor_update", "/x/actor_update"], ["actor_compute_log_prob", "rollout_generate"]),
        ("0.6.1", "rollout", ["rollout_generate"], ["actor_update", "5/e2e"]),
        ("0.9.0", "rollout", ["/x/agent_loop_rollout_replica_0"], ["agent_loop_rollout_replica_01", "actor_update"]),
    ],
)
def test_a_phase_is_known_by_its_directory(
    checkout: Path, version: str, phase: str, recorded: list[str], elsewhere: list[str]
) -> None:
    shim = json.loads(planned(checkout, MAIN, version, phase=phase).files["drive.json"])["shim"]
    ((pattern, named),) = shim["phase_by"]
    assert (named, shim["phase"]) == (phase, None)
    assert all(re.search(pattern, directory) for directory in recorded)
    assert not any(re.search(pattern, directory) for directory in elsewhere)


def test_the_first_release_with_a_profiler(checkout: Path) -> None:
    found = overrides(planned(checkout, MAIN, "0.5.0", ranks=(1,)))
    assert found["trainer.profile_steps"] == "[3]"
    assert found["trainer.npu_profile.options.level"] == "level1"
    assert found["actor_rollout_ref.profiler.ranks"] == "[1]"
    assert not any(key.startswith(("global_profiler", "++")) for key in found)


def test_a_checkout_says_which_release_it_is(checkout: Path) -> None:
    folder = checkout / "verl" / "version"
    folder.mkdir()
    (folder / "version").write_text("0.6.1.dev\n")
    plan = planned(checkout, MAIN, "0.9.0", phase="rollout")
    assert "it is verl 0.6.1.dev" in plan.evidence
    assert overrides(plan)[f"{ACTOR}.enable"] == "True", "whose profiler a rollout had then"


@pytest.mark.parametrize(
    ("version", "phase", "names"),
    [
        ("0.6.1", "train", ["fsdp_workers", "megatron_workers"]),
        ("0.7.1", "train", ["fsdp_workers", "megatron_workers", "engine_workers"]),
        ("0.9.0", "train", ["engine_workers"]),
        ("0.6.1", "rollout", ["fsdp_workers", "megatron_workers"]),
        ("0.9.0", "rollout", ["model_runner_v1"]),
    ],
)
def test_where_a_stage_is(version: str, phase: str, names: list[str]) -> None:
    found = verl_release.of(version).stage(phase)
    assert [name.partition(":")[0].rpartition(".")[2] for name in found] == names


@pytest.mark.parametrize(
    ("version", "arguments", "request_", "message"),
    [
        ("0.4.1", [], {}, "verl 0.4.1 has no profiler for NPUs"),
        ("0.7.1", [], {"phase": "rollout"}, "servers that it does not profile"),
        ("0.9.0", ["trainer.nnodes=2"], {}, "several nodes"),
        ("0.9.0", [], {"device_count": 1}, "2 ranks, and the request is for 1"),
        ("0.9.0", [], {"steps": 2}, "each training step by itself"),
        ("0.9.0", [], {"all_steps": True}, "each training step by itself"),
    ],
)
def test_what_cannot_be_done(
    checkout: Path, version: str, arguments: list[str], request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(CollectError, match=message):
        planned(checkout, [*MAIN, *arguments], version, **request_)
