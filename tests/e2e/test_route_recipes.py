"""cann-recipes-infer on a host, from its launcher to a valid profile; and every way there can break."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkouts import CANN, checkout, digests, on, pyyaml
from collected import profiles
from harness import Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]


class Recipes:
    """A checkout on a host, with what its users have to fill in, and an inventory that names models of it."""

    def __init__(self, tool: Tool, host: SimHost) -> None:
        self.tool, self.host, self.root = tool, host, checkout(host, "cann_recipes")
        self.edit("executor/scripts/set_env.sh", "your_cann_pkgs_path", str(host.home / CANN))
        self.edit("executor/scripts/set_env.sh", "your_cann_recipes_path", str(self.root))

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    def collect(self, *arguments: str, model: str = "deepseek_r1", yaml: str = "r1.yaml", **options: Any) -> Any:
        spec = {"route": "cann-recipes", "project": str(self.root), "model": model, "yaml": yaml, **options}
        self.tool.inventory(self.host, models={"ds": spec})
        return self.tool.collect(*arguments, model="ds")


@pytest.fixture
def recipes(host: Start, tool: Tool, tmp_path: Path) -> Callable[..., Recipes]:
    def start(**options: Any) -> Recipes:
        return Recipes(tool, host(env={**pyyaml(tmp_path), **options.pop("env", {})}, **options))

    return start


def written(before: dict[str, str], after: dict[str, str]) -> list[str]:
    assert {path: after.get(path) for path in before} == before
    return sorted(set(after) - set(before))


def test_two_ranks_of_the_engine(recipes: Callable[..., Recipes], tool: Tool, runtime: str) -> None:
    here = recipes(runtime=runtime)
    before = digests(here.root)
    outcome = here.collect("--devices", "2", yaml="r1_rank_2.yaml")
    assert profiles(tool, outcome) == [
        *[("decode", rank, 10) for rank in (0, 1)],
        *[("prefill", rank, 1) for rank in (0, 1)],
    ]
    assert outcome.document["route"] == "cann-recipes"
    # What a normal run writes as well: the logs of the ranks, in a directory named by the YAML.
    left = written(before, digests(here.root))
    assert [path.split("/")[-1] for path in left] == ["log_0.log", "log_1.log"]
    assert all("/deepseek_r1_r1_rank_2__collect_remote/" in path for path in left)
    assert gone(here.host.processes)


@pytest.mark.parametrize("model", ["pangu_7b", "glm_5_2"])
def test_a_model_with_a_loop_of_its_own(recipes: Callable[..., Recipes], tool: Tool, model: str) -> None:
    """Its directories lie elsewhere, or are the other way round; the prefill that is recorded is the one it chooses."""
    here = recipes()
    outcome = here.collect(model=model, yaml=f"{model}.yaml")
    assert profiles(tool, outcome) == [("decode", None, 10), ("prefill", None, 1)]


@pytest.mark.parametrize("phase", ["decode", "prefill"])
def test_one_phase_alone(recipes: Callable[..., Recipes], tool: Tool, phase: str) -> None:
    outcome = recipes().collect("--phase", phase)
    assert profiles(tool, outcome) == [(phase, None, 10 if phase == "decode" else 1)]


def test_all_the_steps_there_are(recipes: Callable[..., Recipes], tool: Tool) -> None:
    """8 tokens, 2 of them before the window and one for the profiler itself: the YAML is left as long as it is."""
    outcome = recipes().collect("--phase", "decode", "--steps", "all")
    assert profiles(tool, outcome) == [("decode", None, 5)]


# --- how it breaks ---


def test_a_rank_that_crashes_while_the_launcher_says_0(recipes: Callable[..., Recipes], assert_clean: Clean) -> None:
    here = recipes(env={"RECIPES_CRASH_RANK": "1"})
    outcome = here.collect("--devices", "2", yaml="r1_rank_2.yaml")
    message = r"rank 1 built no profiler for decode; .*: ImportError: cannot import name 'npu_fused_infer"
    one_error(outcome, 6, message=message, remedy="read .*run.log")
    assert_clean(here.host)


def test_another_infer_py_is_running(recipes: Callable[..., Recipes], assert_clean: Clean) -> None:
    here = recipes()
    (here.host.home / "infer.py").write_text("import time; time.sleep(60)")
    pid = int(on(here.host, "python3 ./infer.py > /dev/null 2>&1 & echo $!").stdout)
    try:
        outcome = here.collect()
        one_error(outcome, 6, message="without importing .*exit status 1.*another infer.py", remedy="read")
    finally:
        os.kill(pid, signal.SIGKILL)
    assert_clean(here.host)


def test_a_loop_that_ends_before_its_window(recipes: Callable[..., Recipes], assert_clean: Clean) -> None:
    """The YAML asks for enough, and the model stops with its text."""
    here = recipes(env={"RECIPES_TEXT_ENDS": "6"})
    outcome = here.collect("--phase", "decode", model="pangu_7b", yaml="pangu_7b.yaml")
    one_error(outcome, 6, message="rank 0 made 6 steps of decode, and the window needs 13", remedy="--steps")
    assert_clean(here.host)


def test_a_model_that_does_not_hear_its_switch(recipes: Callable[..., Recipes], assert_clean: Clean) -> None:
    here = recipes()
    outcome = here.collect(model="hunyuan_image", yaml="hunyuan_image.yaml")
    one_error(outcome, 6, message="built no profiler", remedy="--dry-run")
    assert_clean(here.host)


def test_an_output_on_a_bad_file_system(recipes: Callable[..., Recipes], assert_clean: Clean) -> None:
    here = recipes(disk="open")
    one_error(here.collect(), 5, message="directories that others may write to", remedy="workdir")
    assert here.host.uses() == []
    assert_clean(here.host)


def test_a_parser_that_fails_leaves_the_raw_data(recipes: Callable[..., Recipes], assert_clean: Clean) -> None:
    here = recipes(env={"SIMHOST_LIGHT_FAULTS": "export_fails"})
    outcome = here.collect("--phase", "decode")
    one_error(
        outcome, 7, message="Failed to export CANN .*in vain: in place, /", remedy="kept on the host in .*/profile"
    )
    assert_clean(here.host)


def _online(_: Recipes) -> dict[str, str]:
    return {"mode": "online"}


def _placeholder(here: Recipes) -> dict[str, str]:
    here.edit("executor/scripts/set_env.sh", str(here.host.home / CANN), "your_cann_pkgs_path")
    return {}


def _old(here: Recipes) -> dict[str, str]:
    (here.root / "executor/scripts/infer.sh").unlink()
    return {}


@pytest.mark.parametrize(
    ("change", "status", "message", "remedy"),
    [
        (_online, 2, "online: there an engine that decodes never sees the prefill", "offline"),
        (_placeholder, 5, "still has a placeholder for cann_path", "fill it in"),
        (_old, 5, "no executor/scripts/infer.sh", "route: script"),
        (
            lambda _: {"yaml": "r2.yaml"},
            5,
            "no models/deepseek_r1/config/r2.yaml",
            "r1.yaml, r1_rank_16_950.yaml, r1_rank_2.yaml",
        ),
        (lambda _: {"model": "gpt_oss"}, 5, "no models/gpt_oss/config/r1.yaml", "correct `model`"),
        (lambda _: {"yaml": "r1_rank_2.yaml"}, 2, "has 2 ranks, and the request is for 1", "--devices 2"),
    ],
    ids=["online", "placeholder", "old", "no-yaml", "no-model", "ranks"],
)
def test_what_is_refused_before_anything_starts(
    recipes: Callable[..., Recipes],
    assert_clean: Clean,
    change: Callable[[Recipes], dict[str, str]],
    status: int,
    message: str,
    remedy: str,
) -> None:
    here = recipes()
    one_error(here.collect(**change(here)), status, message=message, remedy=remedy)
    assert here.host.uses() == []
    assert_clean(here.host)


def test_the_plan_reads_well(recipes: Callable[..., Recipes], tool: Tool) -> None:
    here = recipes()
    command = "bash executor/scripts/infer.sh --model deepseek_r1 --yaml r1.yaml"
    tool.inventory(here.host, models={"ds": {"route": "auto", "project": str(here.root), "command": command}})
    outcome = tool("--host", "ascend01", "--model", "ds", "--dry-run")
    assert outcome.status == 0, outcome.err
    for line in (
        "route     cann-recipes: executor/utils/profiler_context.py has a profiler",
        "window    decode: skip_first 2, wait 0, warmup 1, active 10",
        "note      a copy of models/deepseek_r1/config/r1.yaml with model_config.enable_profiler: true",
        "note      its scheduler_config.max_new_tokens is 14, not 8",
    ):
        assert line in outcome.out, outcome.out
    assert here.host.uses() == []


def test_the_doctor_sees_what_a_collection_would_need(recipes: Callable[..., Recipes], tool: Tool) -> None:
    here = recipes(npus=2, processes=[{"logic": 0, "pid": 4711, "name": "python", "mb": 9000}])
    spec = {"route": "cann-recipes", "project": str(here.root), "model": "deepseek_r1", "yaml": "r1_rank_2.yaml"}
    tool.inventory(here.host, models={"ds": spec})
    outcome = tool("doctor", "--host", "ascend01", "--model", "ds")
    assert "cann-recipes: executor/utils/profiler_context.py has a profiler" in outcome.out
    assert outcome.status == 4, outcome.out
    here.host.set_state(processes=[])
    assert tool("doctor", "--host", "ascend01", "--model", "ds").status == 0


@pytest.mark.torch_npu
@pytest.mark.slow
def test_a_rank_that_the_others_wait_for(
    recipes: Callable[..., Recipes], assert_clean: Clean, ascend_runtime: str
) -> None:
    """In a real process group: rank 0 waits for half an hour, and the launcher for rank 0."""
    here = recipes(runtime=ascend_runtime, env={"RECIPES_CRASH_RANK": "1"})
    outcome = here.collect("--devices", "2", yaml="r1_rank_2.yaml")
    error = one_error(outcome, 6, message="rank 1 has ended, and the others wait for it: ImportError", remedy="log")
    assert error["message"].startswith("rank 1")
    assert_clean(here.host)
