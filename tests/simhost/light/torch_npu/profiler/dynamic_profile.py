"""``torch_npu.profiler.dynamic_profile``: a running job records when its profiler_config.json changes.

`init` names the directory of that file, `step` counts the steps of the job. With $PROF_CONFIG_PATH both are called from
outside (`non_intrusive`), the second one by every native optimizer. The job itself looks at the file; the real one has
a process for that, which its ranks reach through shared memory.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import socket
import time
from typing import Any, Dict, Optional

from . import _paths
from ._interface import ProfilerActivity
from ._messages import error, swallow, warn
from .experimental_config import AiCMetrics, ProfilerLevel, _ExperimentalConfig
from .profiler import profile, tensorboard_trace_handler
from .scheduler import Schedule

FILE = "profiler_config.json"
POLL_S, LEAST_POLL_S, MOST_POLL_S = 2, 1, 50
TIMED_STEP = 10  # how long the step after it takes decides how often the file is looked at
NOW = -1
_SWITCHES = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
DEFAULTS: Dict[str, Any] = {
    "activities": ["CPU", "NPU"],
    "prof_dir": "./",
    "analyse": False,
    "async_mode": False,
    **dict.fromkeys(_SWITCHES, False),
    "active": 1,
    "warmup": 0,
    "start_step": 0,
    "is_rank": False,
    "rank_list": [],
    "experimental_config": {"profiler_level": "Level0", "aic_metrics": "AiCoreNone", "export_type": ["text"]},
}


def _rank() -> int:
    try:
        return int(os.environ["RANK"])
    except (KeyError, ValueError) as problem:
        warn("Get rank id  {}, rank_id will be set to -1 !".format(problem))
        return -1


class _Asked:
    """What the file says, with the defaults of a file that leaves things out."""

    def __init__(self, said: Dict[str, Any]) -> None:
        self._said = said
        self.start_step = self._whole("start_step", 0, least=NOW)
        self.active = self._whole("active", 1, least=1)
        self.warmup = self._whole("warmup", 0, least=0)

    def _whole(self, name: str, usual: int, least: int) -> int:
        value = self._said.get(name, usual)
        return value if isinstance(value, int) and value >= least else usual

    def concerns(self, rank: int) -> bool:
        return self._said.get("is_rank") is not True or rank in (self._said.get("rank_list") or [])

    def profiler(self) -> profile:
        said = self._said
        parsed = said.get("analyse") is True and (said.get("is_rank") is not True or said.get("async_mode") is True)
        known = [getattr(ProfilerActivity, str(name).upper(), None) for name in said.get("activities") or []]
        return profile(
            activities=[activity for activity in known if activity],
            schedule=Schedule(wait=0, warmup=self.warmup, active=self.active, repeat=1, skip_first=0),
            on_trace_ready=tensorboard_trace_handler(
                said.get("prof_dir", "./"), analyse_flag=parsed, async_mode=said.get("async_mode") is True
            ),
            experimental_config=self._experimental(),
            **{name: bool(said.get(name, False)) for name in _SWITCHES},
        )

    def _experimental(self) -> Optional[_ExperimentalConfig]:
        said = self._said.get("experimental_config")
        if not said:
            return None
        level, metrics = said.get("profiler_level", "Level0"), said.get("aic_metrics", "AiCoreNone")
        return _ExperimentalConfig(
            profiler_level=getattr(ProfilerLevel, level, level),
            aic_metrics=getattr(AiCMetrics, metrics, metrics),
            export_type=said.get("export_type", "text"),
        )


class _File:
    """The file in `directory`: what is new in it, by the whole seconds of its time."""

    def __init__(self, directory: str, log: logging.Logger) -> None:
        self._path, self._log = os.path.join(directory, FILE), log
        if not os.path.exists(self._path):
            log.info("Create %s default.", FILE)
            _paths.write(self._path, json.dumps(DEFAULTS, indent=4))
        self._seen, self._taken = self._changed(), int(time.time())
        self._next, self.interval_s = 0.0, POLL_S

    def _changed(self) -> int:
        return int(os.path.getmtime(self._path))

    def news(self) -> Optional[_Asked]:
        if time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + self.interval_s
        try:
            changed = self._changed()
            if changed == self._seen:
                return None
            self._seen = changed
            with open(self._path, encoding="utf-8") as file:
                said = json.load(file)
        except (OSError, ValueError) as problem:
            self._log.error("Dynamic profiler process load json failed, %s has occur!", problem)
            return None
        self._log.info("Dynamic profiler process load json success")
        if changed <= self._taken:
            return None  # older than what was taken last
        self._taken = changed
        return _Asked(said)


class _Dynamic:
    def __init__(self) -> None:
        self._file: Optional[_File] = None
        self._log = logging.getLogger("DynamicProfiler")
        self._profiler: Optional[profile] = None
        self._asked: Optional[_Asked] = None
        self._left = 0
        self._step = 0
        self._timed = 0.0
        self._rank = -1

    def init(self, directory: str) -> None:
        if self._file is not None:
            warn("Init dynamic profiling repeatedly")
            return
        self._rank = _rank()
        log = os.path.join(directory, "log")
        _paths.make_directory(log)
        name = "dp_{}_{}_rank_{}.log".format(socket.gethostname(), os.getpid(), self._rank)
        handler = logging.FileHandler(os.path.join(log, name))
        handler.setFormatter(logging.Formatter("%(asctime)s [%(levelname)s] [%(process)d] %(filename)s: %(message)s"))
        self._log.setLevel(logging.DEBUG)
        self._log.addHandler(handler)
        self._file = _File(directory, self._log)
        atexit.register(self._leave)

    def _leave(self) -> None:
        if self._profiler is not None:
            self._profiler.stop()
            self._profiler = None
            warn("Profiler stop when process exit, check cfg json active whether over all step!")

    def step(self) -> None:
        if self._file is None:
            raise RuntimeError("dynamic profiling was not initialised")
        self._step += 1
        news = self._file.news()
        if news is not None and news.concerns(self._rank):
            self._asked = news
        self._time()
        if self._profiler is not None:
            self._go_on(self._profiler)
        elif self._asked is not None:
            self._begin(self._asked)

    def _time(self) -> None:
        if self._step == TIMED_STEP:
            self._timed = time.time()
        elif self._step == TIMED_STEP + 1 and self._file is not None:
            self._file.interval_s = min(MOST_POLL_S, max(LEAST_POLL_S, int(time.time() - self._timed)))
            told = "Dynamic profiling monitor process poll interval time change to %ds"
            self._log.info(told, self._file.interval_s)

    def _go_on(self, running: profile) -> None:
        running.step()
        self._left -= 1
        if self._left == 0:
            running.stop()
            self._profiler = None
            self._log.info("Stop Dynamic Profiler at %d step.", self._step)

    def _begin(self, asked: _Asked) -> None:
        if asked.start_step != NOW and self._step > asked.start_step:
            warn(
                "Dynamic Profiler config is not effective. The start_step={}, current_step={}".format(
                    asked.start_step, self._step
                )
            )
            self._asked = None
        elif asked.start_step in (NOW, self._step):
            self._left = asked.active + asked.warmup
            self._profiler = asked.profiler()
            self._profiler._step_num_offset = self._step
            self._profiler.start()
            self._asked = None
            self._log.info("Start Dynamic Profiler at %d step.", self._step)


_dynamic = _Dynamic()


@swallow()
def init(path: str) -> None:
    try:
        _paths.check(path)
    except RuntimeError:
        error("The path '{}' is invalid, and profiler will not be enabled.".format(path))
        return
    _dynamic.init(os.path.abspath(path))


@swallow()
def step() -> None:
    _dynamic.step()


def non_intrusive(path: str) -> None:
    """What importing torch_npu does with $PROF_CONFIG_PATH: every step of a native optimizer is one of the job."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    init(path)
    counts: Dict[int, int] = {}
    reached = [0]  # of several optimizers the one that is ahead counts

    def stepped(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        counts[id(optimizer)] = counts.get(id(optimizer), 0) + 1
        if counts[id(optimizer)] > reached[0]:
            reached[0] = counts[id(optimizer)]
            step()

    register_optimizer_step_post_hook(stepped)
