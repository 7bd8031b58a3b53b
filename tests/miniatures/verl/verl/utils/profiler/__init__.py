"""The profiler of one role: which ranks and steps it is for, and the torch_npu profiler that it then makes."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

LEVELS = {"level_none": "Level_none", "level0": "Level0", "level1": "Level1", "level2": "Level2"}


class Settings(NamedTuple):
    """What the configuration of any release says for one role."""

    enable: bool
    ranks: Any  # None: all
    save_path: str
    level: str
    contents: list[str]
    analysis: bool
    discrete: bool
    export: str


def settings(config: dict[str, Any], role: str, keys: str, export: str) -> Settings:
    if keys == "none":
        return Settings(False, [], "", "level0", [], False, False, export)
    roles = config["actor_rollout_ref"]
    own = roles["profiler"] if keys == "trainer" else roles[role]["profiler"]
    ranks = None if own["all_ranks"] else list(own["ranks"] or [])
    if keys == "trainer":
        options = config["trainer"]["npu_profile"]["options"]
        contents = [name for name in ("npu", "cpu", "memory", "module", "stack") if options[f"with_{name}"]]
        contents += ["shapes"] * options["record_shapes"]
        return Settings(
            *(own["all_ranks"] or bool(own["ranks"]), ranks, options["save_path"], options["level"], contents),
            *(options["analysis"], own["discrete"], export),
        )
    of_all, npu = config["global_profiler"], own["tool_config"]["npu"]
    return Settings(
        *(bool(own["enable"]) and of_all["tool"] == "npu", ranks, of_all["save_path"], npu["level"]),
        *(npu["contents"] or ["npu", "cpu"], npu["analysis"], npu["discrete"], export),
    )


def npu_profiler(settings: Settings, folder: str, worker: str | None = None) -> Any:
    import torch_npu

    profiler = torch_npu.profiler
    if settings.level not in LEVELS:
        raise ValueError(f"level only supports level0, 1, 2, and level_none, but gets {settings.level}")
    text = {"aic_metrics": profiler.AiCMetrics.PipeUtilization} if settings.export == "Text" else {}
    return profiler.profile(
        with_modules="module" in settings.contents,
        with_stack="stack" in settings.contents,
        record_shapes="shapes" in settings.contents,
        profile_memory="memory" in settings.contents,
        activities=[getattr(profiler.ProfilerActivity, n.upper()) for n in settings.contents if n in ("npu", "cpu")],
        on_trace_ready=profiler.tensorboard_trace_handler(
            os.path.join(settings.save_path, folder), worker, analyse_flag=settings.analysis
        ),
        experimental_config=profiler._ExperimentalConfig(
            profiler_level=getattr(profiler.ProfilerLevel, LEVELS[settings.level]),
            export_type=getattr(profiler.ExportType, settings.export),
            data_simplification=True,
            msprof_tx=True,
            **text,
        ),
    )


class DistProfiler:
    """Of one worker: over a whole step, or in discrete mode over each of its stages."""

    def __init__(self, rank: int, settings: Settings) -> None:
        self._settings = settings
        self._here = settings.enable and (settings.ranks is None or rank in settings.ranks)
        self._in_step = False
        self._whole: Any = None

    def start(self, step: int) -> None:
        if self._here:
            self._in_step = True
            if not self._settings.discrete:
                self._whole = npu_profiler(self._settings, f"{step}/e2e")
                self._whole.start()

    def stop(self) -> None:
        self._in_step = False
        if self._whole is not None:
            self._whole.step()
            self._whole.stop()
            self._whole = None

    def stage(self, role: str) -> Stage:
        here = self._in_step and self._settings.discrete
        return Stage(npu_profiler(self._settings, role) if here else None)


class Stage:
    """One stage of a step; recorded when its worker is in discrete mode and this step is to be profiled."""

    def __init__(self, profiler: Any) -> None:
        self._profiler = profiler

    def __enter__(self) -> None:
        if self._profiler is not None:
            self._profiler.start()

    def __exit__(self, *_: object) -> None:
        if self._profiler is not None:
            self._profiler.step()
            self._profiler.stop()
