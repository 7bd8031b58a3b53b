"""The plans for MindIE-SD, diffusers, scripts, carried modules and running jobs, from their miniatures; no host."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from checkouts import MINIATURES, looked_at
from collect_remote.errors import CollectError, EnvironmentUnfit, UsageError
from collect_remote.inventory import ModelSpec
from collect_remote.request import Request, window
from collect_remote.routes import choose, mindie_sd
from collect_remote.routes.plan import Plan
from collect_remote.survey.project import ProjectFacts
from collect_remote.wrappers import SCENES
from collect_remote.wrappers.printed import module

WAN = "examples/dummy_run/wan_infer.py"


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    shutil.copytree(MINIATURES / request.param, tmp_path / "job")
    return tmp_path / "job"


def of(name: str) -> Any:
    return pytest.mark.parametrize("project", [name], indirect=True)


def planned(root: Path, *command: str, route: str = "auto", options: Any = None, **request: Any) -> Plan:
    words = {"command": ["python3", *command]} if command else {}
    model = ModelSpec("job", None, route, {"project": str(root), **words, **(options or {})})
    return choose.late(Request("ascend01", "job", **request), model, looked_at(model))[1]


def shim(plan: Plan) -> Any:
    return json.loads(plan.files["drive.json"])["shim"]


# --- MindIE-SD --------------------------------------------------------------------------------------------------------


@of("mindie_sd")
def test_a_dummy_run_gets_its_own_switch_once(project: Path) -> None:
    for words in ((WAN, "--compile"), (WAN, "--compile", "--profile"), (WAN, "--profile", "--compile")):
        plan = planned(project, *words)
        assert (plan.route, plan.launch and plan.launch.argv) == (
            "mindie-sd",
            ("python3", WAN, "--compile", "--profile"),
        )
    assert plan.evidence[0].startswith(f"{WAN} has --profile and a torch_npu profiler, ")
    assert plan.expected["steps"] == {"forward": None}
    assert shim(plan)["windows"] == {"forward": None}
    assert {
        "call": "diffusers.models.transformers.transformer_wan:WanTransformer3DModel.forward",
        "phase": "forward",
    } in (shim(plan)["watch"])


def test_a_denoiser_that_nobody_names() -> None:
    model = ModelSpec("job", None, "mindie-sd", {"project": "/w", "command": ["python3", WAN]})
    request = Request("ascend01", "job")
    facts = ProjectFacts("/w", entries=(WAN,), reached={WAN: ("--profile", "mindiesd", "torch_npu.profiler")})
    assert mindie_sd.detect(model, facts) is not None
    with pytest.raises(EnvironmentUnfit, match="nothing in .*wan_infer.py tells the denoiser"):
        mindie_sd.plan(request, window(request, model, ("forward",)), model, facts)
    own = ModelSpec("job", None, "mindie-sd", {**model.options, "watch": ("own.model:Denoiser.forward",)})
    plan = mindie_sd.plan(request, window(request, own, ("forward",)), own, facts)
    assert shim(plan)["watch"] == [{"call": "own.model:Denoiser.forward", "phase": "forward"}]


@pytest.mark.parametrize("lacking", ["--profile", "mindiesd", "torch_npu.profiler"])
def test_what_is_no_dummy_run(lacking: str) -> None:
    words = tuple(word for word in ("--profile", "mindiesd", "torch_npu.profiler") if word != lacking)
    model = ModelSpec("job", None, "auto", {"project": "/w", "command": ["python3", "infer.py"]})
    assert mindie_sd.detect(model, ProjectFacts("/w", entries=("infer.py",), reached={"infer.py": words})) is None


# --- diffusers --------------------------------------------------------------------------------------------------------


@of("diffusion")
def test_every_scheduler_ends_a_step(project: Path) -> None:
    plan = planned(project, "text_to_image.py", steps=6)
    assert (plan.route, plan.expected["steps"]) == ("diffusers", {"forward": 6})
    calls = [each["call"] for each in shim(plan)["step_on"]]
    module_of = "diffusers.schedulers.scheduling_flow_match_euler_discrete:FlowMatchEulerDiscreteScheduler.step"
    assert module_of in calls
    assert len(set(calls)) == len(calls) == 24
    assert plan.launch is not None
    assert plan.launch.argv == ("python3", "text_to_image.py"), "nothing is added to the command"


@of("diffusion")
def test_as_many_steps_pass_first_as_may_be_compiled(project: Path) -> None:
    assert shim(planned(project, "text_to_image.py"))["windows"]["forward"]["skip_first"] == 8
    assert shim(planned(project, "text_to_image.py", warmup_steps=12))["windows"]["forward"]["skip_first"] == 12
    script = project / "text_to_image.py"
    script.write_text(script.read_text().replace("torch.compile", "print"))
    plan = planned(project, "text_to_image.py", warmup_steps=3)
    assert (shim(plan)["windows"]["forward"]["skip_first"], plan.notes) == (3, ())


@of("diffusion")
def test_a_scheduler_of_ones_own_alone(project: Path) -> None:
    plan = planned(project, "text_to_image.py", route="diffusers", options={"scheduler": "mine:Scheduler"})
    assert [each["call"] for each in shim(plan)["step_on"]] == ["mine:Scheduler.step"]


# --- scripts ----------------------------------------------------------------------------------------------------------


@of("scripts")
def test_which_route_a_script_is_for(project: Path) -> None:
    for name in ("pretrain_profiled.py", "pretrain_imported.py"):
        assert planned(project, name, phase="train").evidence == (f"{name} has a torch_npu profiler and steps it",)
    for name in ("pretrain.py", "generate.py"):
        with pytest.raises(EnvironmentUnfit, match="no route fits"):
            planned(project, name)
    assert planned(project, "generate.py", options={"step_on": ("m:f",)}).route == "script"


@of("scripts")
@pytest.mark.parametrize(
    ("phase", "kind"),
    [("forward", "forward"), ("train", "train"), ("decode", None), ("separate", None), ("both", None)],
)
def test_tokens_tell_the_phase_where_there_are_two(project: Path, phase: str, kind: str | None) -> None:
    plan = planned(project, "generate.py", options={"step_on": ("m:f",)}, phase=phase)
    assert shim(plan)["step_on"] == [{"call": "m:f", "phase": kind}]


@of("scripts")
def test_all_steps_are_the_programs_own_window(project: Path) -> None:
    plan = planned(project, "pretrain_profiled.py", phase="train", all_steps=True)
    assert (shim(plan)["windows"], plan.expected["steps"]) == ({"train": None}, {"train": None})


@of("scripts")
@pytest.mark.parametrize("request_", [{"phase": "both"}, {"phase": "rollout"}])
def test_phases_that_a_script_cannot_have(project: Path, request_: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        planned(project, "pretrain_profiled.py", **request_)


# --- modules of ours --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scene", "phase", "steps"),
    [
        ("training", None, {"train": 3}),
        ("inference", None, {"prefill": 1, "decode": 10}),
        ("rl", "rollout", {"rollout": 1}),
    ],
)
def test_a_carried_module_is_switched_on(tmp_path: Path, scene: str, phase: Any, steps: dict[str, int]) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "own.py").write_text(module(scene))
    (tmp_path / "main.py").write_text("from lib.own import anything\n")
    plan = planned(tmp_path, "main.py", phase=phase, warmup_steps=4)
    assert (plan.route, plan.expected["steps"]) == (f"wrapper-{scene}", steps)
    assert plan.launch is not None
    env = plan.launch.env
    assert (env["NPU_PROFILE_FROM"], env["NPU_PROFILE_RANKS"], env["NPU_PROFILE_PHASES"]) == ("4", "0", ",".join(steps))
    assert json.loads(plan.files["drive.json"])["env"]["NPU_PROFILE"].startswith("{run}/")
    assert shim(plan)["windows"] == dict.fromkeys(steps)
    assert [each["call"] for each in shim(plan)["watch"]] == (["lib.own:run"] if scene == "inference" else [])


@pytest.mark.parametrize("scene", SCENES)
def test_a_module_that_is_not_imported_does_not_count(tmp_path: Path, scene: str) -> None:
    (tmp_path / "own.py").write_text(module(scene))
    (tmp_path / "main.py").write_text("print()\n")
    for route in ("auto", f"wrapper-{scene}"):
        with pytest.raises(EnvironmentUnfit, match="no route fits|reaches no module"):
            planned(tmp_path, "main.py", route=route)


# --- a job that runs --------------------------------------------------------------------------------------------------


def test_a_running_job_is_asked_for_one_step(tmp_path: Path) -> None:
    (tmp_path / "profiler_config.json").write_text('{"experimental_config": {}}')
    plan = planned(tmp_path, route="dynamic", level=2, aic_metrics="Memory", record_shapes=True)
    asked = json.loads(plan.files["attend.json"])
    assert (asked["directory"], asked["begin_s"]) == (str(tmp_path.resolve()), 300)
    config = asked["config"]
    assert (config["start_step"], config["active"], config["warmup"], config["analyse"]) == (-1, 1, 1, False)
    assert config["experimental_config"] == {
        "profiler_level": "Level2",
        "aic_metrics": "Memory",
        "export_type": ["text"],
    }
    assert config["record_shapes"] is True
    assert (plan.leased, plan.launch, plan.expected["steps"]) == (False, None, {"train": 1})
    assert planned(tmp_path, route="dynamic", options={"begin_timeout": 9}, steps=1).leased is False


@pytest.mark.parametrize(
    ("text", "request_", "error"),
    [
        (None, {}, EnvironmentUnfit),
        ("{}", {}, EnvironmentUnfit),
        ('{"experimental_config": {}}', {"steps": 2}, UsageError),
        ('{"experimental_config": {}}', {"all_steps": True}, UsageError),
        ('{"experimental_config": {}}', {"phase": "decode"}, UsageError),
    ],
)
def test_what_a_running_job_cannot_be_asked(
    tmp_path: Path, text: str | None, request_: dict[str, Any], error: type[CollectError]
) -> None:
    if text is not None:
        (tmp_path / "profiler_config.json").write_text(text)
    with pytest.raises(error):
        planned(tmp_path, route="dynamic", **request_)
