"""The miniature of verl by itself: what it does on a host when nobody helps it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from test_light import Profile

from checkouts import checkout, on
from harness import gone
from simhost import SimHost

Start = Callable[..., SimHost]
DAEMON = "The profiling data cannot be parsed during the daemon process"
ROLES = ("actor_compute_log_prob", "actor_update")
IN_WORKER = ("rollout_generate", "ref_compute_log_prob")
REPLICA = "agent_loop_rollout_replica_0"
ACTOR = "actor_rollout_ref.actor.profiler"
ON = f"global_profiler.tool=npu global_profiler.steps=[2] {ACTOR}.enable=True {ACTOR}.all_ranks=True"
DISCRETE = f"{ACTOR}.tool_config.npu.discrete=True"
OF_ALL = "actor_rollout_ref.profiler"
OLD = "trainer.profile_steps=[2] trainer.npu_profile.options.save_path=outputs/profile"
RAY_VENV = Path(os.environ.get("COLLECT_REMOTE_RAY_VENV") or Path(__file__).resolve().parents[2] / ".venv" / "ray")


def train(
    host: SimHost, folder: Path, overrides: str = "", version: str = "0.9.0", **variables: str
) -> subprocess.CompletedProcess[str]:
    variables["VERL_MINIATURE_VERSION"] = version
    env = " ".join(f"{name}='{value}'" for name, value in variables.items())
    return on(host, f"cd {folder} && env {env} bash run_grpo.sh {overrides}")


def profiles(folder: Path) -> dict[str, list[Profile]]:
    """{directory below the one of all profiles: those in it, by their rank}"""
    found: dict[str, list[Profile]] = {}
    for path in sorted((folder / "outputs" / "profile").rglob("*_ascend_pt"), key=rank):
        found.setdefault(str(path.parent.relative_to(folder / "outputs" / "profile")), []).append(Profile(path))
    return found


def rank(path: Path) -> str:
    return next(file.name for file in path.glob("profiler_info*.json"))


def configuration(profile: Profile) -> tuple[str, str, list[str]]:
    config = profile.info()["config"]["experimental_config"]
    return config["_profiler_level"], config["_aic_metrics"], config["_export_type"]


def test_it_profiles_nothing_unless_it_is_told_to(simhost: Start) -> None:
    host = simhost()
    folder = checkout(host, "verl")
    done = train(host, folder)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("step:")] == [
        f"step:{step} - actor/loss:0.0" for step in (1, 2, 3, 4)
    ]
    # A tool is needed as well as steps and a role.
    done = train(host, folder, ON.replace("global_profiler.tool=npu", "trainer.resume_mode=disable") + " " + DISCRETE)
    assert done.returncode == 0, done.stderr
    assert profiles(folder) == {}
    assert gone(host.processes)


def test_roles_are_profiled_apart_in_databases(simhost: Start) -> None:
    host = simhost()
    folder = checkout(host, "verl")
    done = train(host, folder, f"{ON} {DISCRETE}")
    assert done.returncode == 0, done.stderr
    found = profiles(folder)
    # The rollout follows the actor, the reference does not.
    assert sorted(found) == sorted((*ROLES, REPLICA))
    for name in ROLES:
        assert [rank(profile.path) for profile in found[name]] == ["profiler_info_0.json", "profiler_info_1.json"]
        assert configuration(found[name][0]) == ("Level0", "ACL_AICORE_NONE", ["db"])
        assert found[name][0].files() == {"analyse.done", "analysis.db", "ascend_pytorch_profiler_0.db"}
    # The rollout's are the engine's: of Level1, and their daemons parse nothing.
    assert [profile.path.name.split("_")[:3] for profile in found[REPLICA]] == [
        ["dp0", "pp0", "tp0"],
        ["dp0", "pp0", "tp1"],
    ]
    assert configuration(found[REPLICA][0])[0] == "Level1"
    assert not any(profile.output.exists() for profile in found[REPLICA])
    assert done.stdout.count(DAEMON) == 2


@pytest.mark.parametrize(
    ("version", "overrides", "expected", "export"),
    [
        ("0.9.0", f"{ON} actor_rollout_ref.rollout.profiler.enable=False", {"2/e2e"}, ["db"]),
        ("0.7.1", f"{ON} {DISCRETE}", {*ROLES}, ["db"]),
        ("0.6.1", f"{ON} {DISCRETE}", {*ROLES, "rollout_generate"}, ["text"]),
        ("0.5.0", f"{OLD} {OF_ALL}.all_ranks=True", {"2/e2e"}, ["text"]),
        ("0.5.0", f"{OLD} {OF_ALL}.ranks=[1] {OF_ALL}.discrete=True", {*ROLES, *IN_WORKER}, ["text"]),
    ],
)
def test_releases(simhost: Start, version: str, overrides: str, expected: set[str], export: list[str]) -> None:
    host = simhost()
    folder = checkout(host, "verl")
    done = train(host, folder, overrides, version)
    assert done.returncode == 0, done.stderr
    found = profiles(folder)
    assert set(found) == expected
    assert {tuple(configuration(profile)[2]) for profiles in found.values() for profile in profiles} == {tuple(export)}
    if "ranks=[1]" in overrides:
        assert [rank(profile.path) for profile in found["actor_update"]] == ["profiler_info_1.json"]


def test_a_window_of_tokens(simhost: Start) -> None:
    host = simhost()
    folder = checkout(host, "verl")
    rollout = "actor_rollout_ref.rollout.profiler"
    window = f"{rollout}.tool_config.npu.profile_token_start=3 {rollout}.tool_config.npu.profile_token_end=8"
    apart = f"{ACTOR}.enable=False {rollout}.enable=True {rollout}.all_ranks=True"
    done = train(host, folder, f"{ON} {DISCRETE} {apart} {window}")
    assert done.returncode == 0, done.stderr
    assert set(profiles(folder)) == {REPLICA}
    parse = f"import torch_npu; torch_npu.profiler.profiler.analyse('outputs/profile/{REPLICA}')"
    on(host, f'cd {folder} && python3 -c "{parse}"')
    (first, _) = profiles(folder)[REPLICA]
    assert [row["Name"] for row in first.table("operator_details.csv")].count("aten::embedding") == 5


@pytest.mark.parametrize(
    ("version", "override", "message"),
    [
        ("0.9.0", "actor_rollout_ref.actor.profile.enable=True", "Key 'profile' is not in struct"),
        ("0.4.1", "global_profiler.tool=npu", "Key 'global_profiler' is not in struct"),
        ("0.9.0", "+trainer.nnodes=1", "An item is already at 'trainer.nnodes'"),
        ("0.9.0", "'trainer.device=a b'", "no viable alternative"),
        ("0.9.0", "trainer.nnodes", "missing EQUAL"),
    ],
)
def test_overrides_that_are_refused(simhost: Start, version: str, override: str, message: str) -> None:
    host = simhost()
    done = train(host, checkout(host, "verl"), override, version)
    assert done.returncode == 1
    assert message in done.stderr


def test_it_goes_on_from_its_last_checkpoint(simhost: Start) -> None:
    host = simhost()
    folder = checkout(host, "verl")
    assert "step:4" in train(host, folder).stdout
    assert sorted(path.name for path in folder.rglob("global_step_*")) == ["global_step_2", "global_step_4"]
    assert "step:" not in train(host, folder).stdout
    done = train(host, folder, "trainer.resume_mode=disable trainer.save_freq=-1")
    assert "step:1" in done.stdout


def test_a_role_that_dies_ends_the_job(simhost: Start) -> None:
    host = simhost()
    done = train(host, checkout(host, "verl"), VERL_MINIATURE_ROLE_DIES="1:3")
    assert done.returncode == 1
    assert "ActorDiedError: The actor died unexpectedly, exit code -9" in done.stderr
    assert "step:2" in done.stdout
    assert "step:3" not in done.stdout
    assert gone(host.processes)


# Prints the variables of its process when that has one that nobody but the runtime environment can have given it.
PROBE = """
import os, sys
if "OF_THE_JOB" in os.environ:
    with open(os.environ["OF_THE_JOB"] + str(os.getpid()), "w") as file:
        file.write("\\n".join(sorted(os.environ)))
"""


@pytest.mark.parametrize("ray", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["stand-in", "ray"])
def test_processes_have_the_environment_that_the_job_asks_for(simhost: Start, ray: bool, tmp_path: Path) -> None:
    """The variables of ``ray_kwargs.ray_init.runtime_env`` reach every process, before its interpreter starts."""
    more = {}
    if ray:
        packages = next(RAY_VENV.glob("lib/python3*/site-packages"), None)
        if packages is None:
            pytest.skip(f"no Ray in {RAY_VENV}")
        more = {"VERL_MINIATURE_RAY": "1", "PYTHONPATH": str(packages)}
    host = simhost()
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(PROBE)
    path = f"{site}:{more['PYTHONPATH']}" if ray else str(site)
    runtime = "++ray_kwargs.ray_init.runtime_env.env_vars"
    given = f"{runtime}.PYTHONPATH={path} {runtime}.OF_THE_JOB={tmp_path}/seen-"
    more.update({} if ray else {"RAY_ADDRESS": "127.0.0.1:6379"})
    done = train(host, checkout(host, "verl"), f"{ON} {DISCRETE} {given}", OF_THE_DRIVER="1", **more)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = [file.read_text().splitlines() for file in tmp_path.glob("seen-*")]
    roles = [names for names in seen if "RANK" in names]
    assert len(roles) == 2
    assert len(seen) >= 5, "two actors, one replica, its two workers"
    if not ray:  # a Ray that the driver has started itself has the driver's environment as well
        assert not any("OF_THE_DRIVER" in names for names in seen)
    assert gone(host.processes, 10)
