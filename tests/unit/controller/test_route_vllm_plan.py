"""The plans for vLLM, from what is seen of its miniature; no host."""

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
from collect_remote.routes import choose, vllm_release
from collect_remote.routes.plan import Plan

SERVE = ["vllm", "serve", "/data/models/x", "--port", "8000"]
ENDING = ["--host", "127.0.0.1", "--port", "{port}"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    shutil.copytree(MINIATURES / "vllm", tmp_path / "work")
    return tmp_path / "work"


def planned(
    root: Path,
    command: list[str],
    version: str | None = "0.23.0",
    options: dict[str, Any] | None = None,
    **request: Any,
) -> Plan:
    model = ModelSpec("served", None, "auto", {"project": str(root), "command": command, **(options or {})})
    facts = looked_at(model, {"vllm_ascend": version} if version else {})
    return choose.late(Request("ascend01", "served", **request), model, facts)[1]


def driven(plan: Plan) -> dict[str, Any]:
    assert plan.route == "vllm"
    found: dict[str, Any] = json.loads(plan.files["drive.json"])
    return found


def switched(plan: Plan) -> dict[str, str]:
    """What the arguments for the profiler are."""
    found = [word.partition("=") for word in driven(plan)["argv"] if word.startswith("--profiler-config.")]
    return {name.partition(".")[2]: value for name, _, value in found}


def test_a_server_gets_its_switch_and_a_port(checkout: Path) -> None:
    plan = planned(checkout, SERVE)
    argv = driven(plan)["argv"]
    assert argv[:5] == SERVE
    assert argv[-4:] == ENDING, "the last of two counts"
    assert switched(plan) == {
        "profiler": "torch",
        "torch_profiler_dir": "{run}/work/vllm",
        "torch_profiler_with_stack": "false",
        "torch_profiler_with_memory": "false",
        "ignore_frontend": "true",
    }
    assert plan.evidence == ("the command starts a vLLM server", "vllm_ascend 0.23.0 is installed")
    assert plan.notes == ("the server listens on 127.0.0.1 and a free port, for this run alone",)
    assert plan.expected["steps"] == {"both": None}
    assert driven(plan)["shim"]["windows"] == {"both": None}


def test_old_releases_have_another_switch(checkout: Path) -> None:
    plan = planned(checkout, SERVE, "0.13.0", with_stack=True)
    assert driven(plan)["argv"] == [*SERVE, *ENDING]
    env = driven(plan)["env"]
    assert env["VLLM_TORCH_PROFILER_DIR"] == "{run}/work/vllm"
    assert (env["VLLM_TORCH_PROFILER_WITH_STACK"], env["MSMONITOR_USE_DAEMON"]) == ("1", "0")


@pytest.mark.parametrize(
    ("phase", "steps", "tokens", "loads", "window"),
    [
        ("both", None, 11, 1, {}),
        ("both", 5, 6, 1, {}),
        ("prefill", 4, 1, 4, {}),
        # One forward of prefill, two of warm-up, then those that are recorded, and one that ends it.
        ("decode", 10, 14, 1, {"delay_iterations": "4", "max_iterations": "10"}),
    ],
)
def test_what_is_said_to_the_server(
    checkout: Path, phase: str, steps: int | None, tokens: int, loads: int, window: dict[str, str]
) -> None:
    plan = planned(checkout, SERVE, None, {"batch": 4, "prompt_tokens": 64}, phase=phase, steps=steps)
    said = driven(plan)["trigger"]
    assert [action["do"] for action in said] == ["ready", "check", "warmup", "start", "load", "stop"]
    assert {action["json"]["max_tokens"] for action in said if "json" in action} == {tokens}
    assert {json.dumps(action["prompts"]) for action in said if "json" in action} == {'{"count": 4, "tokens": 64}'}
    assert (said[2]["times"], said[4]["times"]) == (2, loads)
    found = switched(plan)
    assert {name: found[name] for name in found if name.endswith("_iterations")} == window
    assert "vllm_ascend is not seen: taken for the newest" in plan.evidence


@pytest.mark.parametrize(
    ("version", "by_environment", "window"),
    [
        ("0.7.3", True, False),
        ("0.13.0", True, False),
        ("0.14.0rc1", False, False),
        ("0.19.1rc1", False, False),
        ("0.20.2rc1", False, True),
        ("0.25.1rc1", False, True),
        ("1.0.0", False, True),
        (None, False, True),
    ],
)
def test_releases(version: str | None, by_environment: bool, window: bool) -> None:
    release = vllm_release.of(version)
    assert (release.by_environment, release.window) == (by_environment, window)


@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        ([], 1),
        (["-tp", "2"], 2),
        (["--tensor-parallel-size=2", "--pipeline-parallel-size", "2"], 4),
        (["--tensor-parallel-size", "$TP"], 3),
    ],
)
def test_ranks_of_the_command(checkout: Path, words: list[str], ranks: int) -> None:
    """What the text does not tell is taken to be as many as are asked for."""
    plan = planned(checkout, [*SERVE, *words], device_count=ranks)
    assert plan.expected["ranks"] == list(range(ranks))


def test_a_copy_of_a_script_gets_the_arguments(checkout: Path) -> None:
    (checkout / "serve.sh").write_text(
        "TP=2\nvllm serve x -tp $TP \\\n  --profiler-config.profiler=torch 2>&1 | tee log\n"
    )
    plan = planned(checkout, ["bash", "serve.sh"], device_count=2)
    copy = plan.files["launch.sh"]
    assert '--port "${COLLECT_REMOTE_LAUNCH_port}" 2>&1 | tee log' in copy
    assert '"--profiler-config.torch_profiler_dir=${COLLECT_REMOTE_LAUNCH_run}/work/vllm"' in copy
    env = driven(plan)["env"]
    assert (env["COLLECT_REMOTE_LAUNCH_run"], env["COLLECT_REMOTE_LAUNCH_port"]) == ("{run}", "{port}")
    assert "--profiler-config of the command is replaced" in plan.notes


def test_a_script_that_records_by_itself(checkout: Path) -> None:
    plan = planned(checkout, ["python3", "offline.py", "1"], "0.11.0")
    assert plan.evidence == ("offline.py imports vllm", "vllm_ascend 0.11.0 is installed")
    assert driven(plan)["env"]["VLLM_TORCH_PROFILER_DIR"] == "{run}/work/vllm"
    assert driven(plan)["shim"]["windows"] == {"both": None}
    assert [watched["call"] for watched in driven(plan)["shim"]["watch"]] == [vllm_release.STEP]


def test_a_script_without_a_profiler(checkout: Path) -> None:
    plan = planned(checkout, ["python3", "plain.py", "1", "8"], phase="decode", steps=7, warmup_steps=3)
    shim = driven(plan)["shim"]
    assert shim["windows"] == {"decode": {"skip_first": 3, "wait": 0, "warmup": 1, "active": 7}}
    assert shim["step_on"] == [{"call": vllm_release.STEP, "phase": None}]
    assert plan.expected["steps"] == {"decode": 7}


@pytest.mark.parametrize(
    ("command", "version", "request_", "message"),
    [
        (SERVE, "0.19.1rc1", {"phase": "decode"}, "0.19.1rc1 records from its start on"),
        ([*SERVE, "-dp", "2"], "0.23.0", {}, "several replicas"),
        ([*SERVE, "-tp", "2"], "0.23.0", {}, "2 ranks, and the request is for 1"),
        (["python3", "offline.py", "1"], "0.23.0", {"phase": "prefill"}, "starts and stops its profiler itself"),
        (SERVE, "0.23.0", {"all_steps": True}, "--steps all"),
    ],
)
def test_what_cannot_be_done(
    checkout: Path, command: list[str], version: str, request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(CollectError, match=message):
        planned(checkout, command, version, **request_)
