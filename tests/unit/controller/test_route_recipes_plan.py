"""The plans for cann-recipes-infer, from what is seen of its miniature; no host."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from checkouts import MINIATURES, looked_at
from collect_remote.errors import CollectError
from collect_remote.inventory import ModelSpec
from collect_remote.request import Request
from collect_remote.routes import cann_recipes, choose
from collect_remote.routes.plan import Plan
from collect_remote.routes.recipes_yaml import ranks_and_nodes
from collect_remote.survey.project import ProjectFacts

RUN = "/data/run dir/20261129_104205_5f0c1e"
LAUNCH = ["bash", "executor/scripts/infer.sh"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "recipes"
    shutil.copytree(MINIATURES / "cann_recipes", root)
    script = root / "executor/scripts/set_env.sh"
    script.write_text(script.read_text().replace("your_", "/opt/"))
    return root


def spec(root: Path, route: str = "cann-recipes", **options: Any) -> ModelSpec:
    return ModelSpec("ds", None, route, {"project": str(root), **options})


def planned(root: Path, model: str = "deepseek_r1", name: str = "r1.yaml", **request: Any) -> Plan:
    one = spec(root, model=model, yaml=name)
    return choose.late(Request("ascend01", "ds", **request), one, looked_at(one))[1]


def shim(plan: Plan) -> dict[str, Any]:
    return dict(json.loads(plan.files["drive.json"])["shim"])


def test_the_launcher_reads_a_copy_in_the_run(checkout: Path) -> None:
    plan = planned(checkout)
    assert plan.launch is not None
    *command, name = plan.launch.argv
    assert command == [*LAUNCH, "--model", "deepseek_r1", "--yaml"]
    config = checkout / "models/deepseek_r1/config"
    assert os.path.normpath(f"{config}/{name.format(run=RUN)}") == f"{RUN}/r1__collect_remote.yaml"
    assert plan.launch.cwd == os.path.realpath(checkout)

    copy, own = yaml.safe_load(plan.files["r1__collect_remote.yaml"]), yaml.safe_load((config / "r1.yaml").read_text())
    assert copy.pop("scheduler_config") == {**own.pop("scheduler_config"), "max_new_tokens": 14}
    assert copy.pop("model_config") == {**own.pop("model_config"), "enable_profiler": True}
    assert copy == own
    assert plan.notes == (
        "a copy of models/deepseek_r1/config/r1.yaml with model_config.enable_profiler: true",
        "its scheduler_config.max_new_tokens is 14, not 8: as many as the window needs; the cache takes more memory",
    )


def test_the_windows_of_the_engine(checkout: Path) -> None:
    plan = planned(checkout, warmup_steps=4, steps=20)
    assert shim(plan)["windows"] == {
        "prefill": {"skip_first": 0, "wait": 0, "warmup": 0, "active": 1},
        "decode": {"skip_first": 4, "wait": 0, "warmup": 1, "active": 20},
    }
    assert shim(plan)["watch"][0]["call"].endswith("ExecutionEngine.warm_up")
    assert plan.expected["steps"] == {"prefill": 1, "decode": 20}
    assert yaml.safe_load(plan.files["r1__collect_remote.yaml"])["scheduler_config"]["max_new_tokens"] == 4 + 1 + 20 + 1


def test_a_loop_of_its_own_makes_one_step_less_and_chooses_its_prefill(checkout: Path) -> None:
    plan = planned(checkout, "glm_5_2", "glm_5_2.yaml", steps=20)
    assert shim(plan)["windows"]["prefill"] is None
    assert plan.expected["steps"] == {"prefill": None, "decode": 20}
    copy = yaml.safe_load(plan.files["glm_5_2__collect_remote.yaml"])
    assert copy["data_config"]["max_new_tokens"] == 2 + 1 + 20 + 1 + 1


@pytest.mark.parametrize(
    ("directory", "phase"),
    [
        ("/p/models/m/res/20260102/x/prof/decode", "decode"),
        ("res/20260102/x/prefill/prof", "prefill"),
        ("res/20260102/prefill_case/prof", None),
    ],
)
def test_the_phase_shows_in_the_directory(checkout: Path, directory: str, phase: str | None) -> None:
    import re

    rules = shim(planned(checkout))["phase_by"]
    assert next((name for pattern, name in rules if re.search(pattern, directory)), None) == phase


def test_a_run_that_is_long_enough_stays_as_long(checkout: Path) -> None:
    plan = planned(checkout, warmup_steps=1, steps=5)
    assert yaml.safe_load(plan.files["r1__collect_remote.yaml"])["scheduler_config"]["max_new_tokens"] == 8
    assert len(plan.notes) == 1
    plan = planned(checkout, phase="decode", all_steps=True)
    assert plan.expected["steps"] == {"decode": 5}


def test_one_phase_leaves_the_other_out(checkout: Path) -> None:
    plan = planned(checkout, phase="prefill")
    assert list(shim(plan)["windows"]) == ["prefill"]
    assert yaml.safe_load(plan.files["r1__collect_remote.yaml"])["scheduler_config"]["max_new_tokens"] == 8


@pytest.mark.parametrize("command", [[*LAUNCH, "--model", "pangu_7b", "--yaml", "pangu_7b.yaml"], LAUNCH])
def test_a_checkout_is_known_by_its_files(checkout: Path, command: list[str]) -> None:
    one = spec(checkout, "auto", command=command)
    facts = looked_at(one)
    match = cann_recipes.detect(one, facts)
    assert match is not None
    assert match.evidence[0] == "executor/utils/profiler_context.py has a profiler"
    if len(command) > 2:
        assert choose.late(Request("ascend01", "ds"), one, facts)[1].route == "cann-recipes"


@pytest.mark.parametrize("lost", ["executor/scripts/infer.sh", "executor"])
def test_what_is_no_checkout(checkout: Path, lost: str) -> None:
    """The examples below .agents have a profiler, too, and do not count."""
    shutil.rmtree(checkout / lost) if lost == "executor" else (checkout / lost).unlink()
    assert cann_recipes.detect(spec(checkout), looked_at(spec(checkout))) is None
    with pytest.raises(CollectError, match="no route fits"):
        choose.late(Request("ascend01", "ds"), spec(checkout, "auto"), looked_at(spec(checkout, "auto")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "cannot be read"),
        ("- 1\n", "no model_config with a profiler"),
        ("model_name: video\ninfer_config: {steps: 50}\n", "no model_config with a profiler"),
        ("model_config: {model_name: x}\nscheduler_config: {batch: 1}\n", "or no max_new_tokens"),
        ("model_config: {a: 1}\nscheduler_config: {max_new_tokens: many}\n", "must be a number"),
        (
            "model_config: {a: 1}\nscheduler_config: {max_new_tokens: 8}\nworld_size: 32\n",
            "runs on 2 hosts, and one is asked for",
        ),
    ],
)
def test_a_yaml_that_has_no_profiler(checkout: Path, text: str, message: str) -> None:
    (checkout / "models/deepseek_r1/config/r1.yaml").write_text(text)
    with pytest.raises(CollectError, match=message):
        planned(checkout)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"phase": "prefill", "steps": 3}, "records one prefill, the first"),
        ({"all_steps": True, "warmup_steps": 7}, "of 8 decode steps none is left after 8"),
        ({"phase": "forward"}, "cannot record --phase forward"),
    ],
)
def test_what_cannot_be_asked_for(checkout: Path, request_: dict[str, Any], message: str) -> None:
    with pytest.raises(CollectError, match=message):
        planned(checkout, **request_)


def test_a_world_is_spread_over_hosts() -> None:
    told = {
        "parallel_config: {world_size: 4}": (4, 1),
        "world_size: 16": (16, 1),
        "world_size: 17": (16, 2),
        "world_size: 16\nmodel_config: {platform_version: 950}": (8, 2),
        "world_size: 16\nmodel_config: {platform_version: '950'}": (8, 2),
        "world_size: many": (None, None),
        "world_size: 0": (None, None),
        "a: [": (None, None),
        "": (None, None),
    }
    assert {text: ranks_and_nodes(text) for text in told} == told


def test_a_model_that_is_not_named() -> None:
    facts = ProjectFacts("/p", texts={"executor/scripts/infer.sh": ""})
    with pytest.raises(CollectError, match="says no yaml"):
        choose.late(Request("ascend01", "ds"), spec(Path("/p"), model="deepseek_r1"), facts)


def servers(root: Path, said: str) -> None:
    script = root / "executor/scripts/set_env.sh"
    script.write_text(script.read_text().replace("('xx.xx.xx.xx' 'xx.xx.xx.xx')", said))


TWO = {"host": "b", "nodes": ("a", "b"), "device_count": 8}


def on_two(root: Path, name: str = "r1_rank_16_950.yaml") -> Plan:
    one = spec(root, model="deepseek_r1", yaml=name)
    return choose.late(Request(model="ds", **TWO), one, looked_at(one))[1]


def test_each_of_several_hosts_has_logs_of_its_own(checkout: Path) -> None:
    servers(checkout, '("192.0.2.1" "192.0.2.2" "192.0.2.3")')
    plan = on_two(checkout)
    assert plan.launch is not None
    assert plan.launch.logs == ("models/deepseek_r1/res/*/*_r1_rank_16_950__collect_remote_1/log_*.log",)
    assert plan.expected["ranks"] == list(range(8, 16))


@pytest.mark.parametrize("said", ["('xx.xx.xx.xx' 'xx.xx.xx.xx')", "(192.0.2.1)", "(192.0.2.1 ascend02)", "()"])
def test_servers_that_do_not_name_the_hosts(checkout: Path, said: str) -> None:
    servers(checkout, said)
    with pytest.raises(CollectError, match=r"IPs in executor/scripts/set_env.sh .* runs on 2 hosts"):
        on_two(checkout)


def test_hosts_that_would_be_partly_empty(checkout: Path) -> None:
    config = checkout / "models/deepseek_r1/config/r1_rank_16_950.yaml"
    config.write_text(config.read_text().replace("world_size: 16", "world_size: 12"))
    servers(checkout, "(192.0.2.1 192.0.2.2)")
    with pytest.raises(CollectError, match="world_size of .* is 12, and .* starts 8 ranks on each of 2 hosts"):
        on_two(checkout)
