"""Releases of verl, as far as their profilers and their configuration differ; from its tags v0.4.1 to v0.9.0.

The level of a rollout in a server, the export (databases since 0.7.0) and much else is fixed in all of them: the
start-up shim sees to that. It comes into the processes of Ray with their environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..request import Request
from . import vllm_release
from .plan import Named

# Of the stage that a phase is, where verl puts its profile.
DIRECTORIES = {"train": r"(^|/)actor_update$", "rollout": r"(^|/)(rollout_generate$|agent_loop_rollout_replica_0(/|$))"}
ROLES = "actor_rollout_ref"
RUNTIME = "++ray_kwargs.ray_init.runtime_env.env_vars"


@dataclass(frozen=True, slots=True)
class Release:
    version: str
    minor: int

    @property
    def servers(self) -> bool:
        """Whether rollouts are recorded in servers of their own; before, in the actor's process, by its profiler."""
        return self.minor >= 8

    def stage(self, phase: str) -> tuple[str, ...]:
        """What runs before the profiled step too, under each of the names that it may have in this release."""
        if phase == "rollout" and self.servers:
            return (vllm_release.STEP,)
        method = "update_actor" if phase == "train" else "generate_sequences"
        modules = ["fsdp_workers", "megatron_workers"] * (self.minor <= 7) + ["engine_workers"] * (self.minor >= 7)
        return tuple(f"verl.workers.{module}:ActorRolloutRefWorker.{method}" for module in modules)

    def overrides(self, phase: str, request: Request, tokens: int | None) -> tuple[str, ...]:
        """`tokens`: those of an answer that a rollout is recorded for; None: all. The stages are recorded apart."""
        step = request.warmup_steps + 1
        job = (
            *(f"trainer.total_training_steps={step + 1}", "trainer.resume_mode=disable", "trainer.save_freq=-1"),
            *("trainer.val_before_train=False", "trainer.test_freq=-1"),
        )
        if self.minor == 5:
            return (*job, *_trainer(step, request))
        switch = (
            *("global_profiler.tool=npu", f"global_profiler.steps=[{step}]", _place("global_profiler.save_path")),
            "global_profiler.profile_continuous_steps=False",
        )
        role = "rollout" if phase == "rollout" and self.servers else "actor"
        return (*job, *switch, *self._roles(role, request, tokens), *_environment())

    def _roles(self, recorded: str, request: Request, tokens: int | None) -> tuple[str, ...]:
        off = tuple(f"{ROLES}.{role}.profiler.enable=False" for role in ("actor", "rollout", "ref") if role != recorded)
        profiler = f"{ROLES}.{recorded}.profiler"
        npu = f"{profiler}.tool_config.npu"
        on = (
            *(f"{profiler}.enable=True", *_ranks(profiler, request)),
            *(f"{npu}.discrete=True", f"{npu}.level=level1", f"{npu}.analysis=False", f"{npu}.contents=[npu,cpu]"),
        )
        if recorded != "rollout" or self.minor < 9 or tokens is None:
            return (*off, *on)
        first = request.warmup_steps
        return (*off, *on, f"{npu}.profile_token_start={first}", f"{npu}.profile_token_end={first + tokens}")


def of(version: str | None) -> Release:
    """By its version; the newest when that is not known."""
    found = re.match(r"0\.(\d+)", version or "")
    return Release(version or "(newest)", int(found[1]) if found else 99)


def _trainer(step: int, request: Request) -> tuple[str, ...]:
    """As 0.5.0 has it: one profiler for all stages, whose directories tell them apart."""
    options, profiler = "trainer.npu_profile.options", f"{ROLES}.profiler"
    return (
        *(f"trainer.profile_steps=[{step}]", _place(f"{options}.save_path"), f"{options}.level=level1"),
        *(f"{options}.with_npu=True", f"{options}.with_cpu=True", f"{options}.analysis=False"),
        *(f"{profiler}.discrete=True", *_ranks(profiler, request)),
    )


def _ranks(profiler: str, request: Request) -> tuple[str, ...]:
    return (f"{profiler}.all_ranks=False", f"{profiler}.ranks=[{','.join(map(str, request.profiled_ranks))}]")


def _place(key: str) -> str:
    """Nothing of ours comes to lie there: where a profile goes is the shim's."""
    return Named(key + "='{run}/work/verl'")


def _environment() -> tuple[str, ...]:
    """Of every process of Ray, also where the user's script has set another address than ours.

    One without the shim would be recorded as verl likes it; one without the run's name could outlive it.
    """
    variables = {
        "PYTHONPATH": "{pythonpath}",
        "COLLECT_REMOTE_SHIM": "{run}/shim.json",
        "COLLECT_REMOTE_RUN": "{id}",
        "ASCEND_WORK_PATH": "{run}/work",
    }
    return (
        *(Named(f"{RUNTIME}.{name}='{value}'") for name, value in variables.items()),
        f"{RUNTIME}.PYTHONDONTWRITEBYTECODE='1'",
    )
