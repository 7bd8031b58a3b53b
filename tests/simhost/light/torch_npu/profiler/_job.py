"""One directory being parsed: what its configuration asks for, and what each parser does about it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from datetime import datetime
from typing import List, NamedTuple, Tuple

from .._errors import error_line
from .._faults import fault
from . import _paths, _raw, _text, _timeline
from ._messages import error, info, warn

_MSPROF_PY = "tools/profiler/profiler_tool/analysis/msprof/msprof.py"


class Failed(Exception):
    """A parser ended without success; its message went where the real one's goes."""


class Config(NamedTuple):
    """What profiler_info.json says, as far as the parser asks; the defaults are for a file that is missing."""

    level: str = "Level0"
    metrics: str = "ACL_AICORE_NONE"
    export_type: Tuple[str, ...] = ("text",)
    simplify: bool = True
    shapes: bool = False
    rank: str = "-1"
    cpu: bool = False


def load_config(profile: str) -> Config:
    path = _paths.info_file(profile)
    if not path:
        warn("Failed to get file, expect path is {}.".format(path))
        return Config()
    try:
        with open(path) as file:
            data = json.load(file)
    except ValueError:
        warn("Failed to get json from file, path is {}".format(path))
        return Config()
    common, experimental = (data.get("config", {}).get(k, {}) for k in ("common_config", "experimental_config"))
    activities = common.get("activities", [])
    if "ProfilerActivity.CPU" in activities and not _paths.framework_directory(profile):
        error("ProfilerActivity.CPU is set in activities, but FWK Profiling data does not exist.")
    if "ProfilerActivity.NPU" in activities and not _paths.cann_directory(profile):
        error("ProfilerActivity.NPU is set in activities, but CANN Profiling data does not exist.")
    exports = experimental.get("_export_type") or ["text"]
    return Config(
        level=experimental.get("_profiler_level", "Level0"),
        metrics=experimental.get("_aic_metrics", "ACL_AICORE_NONE"),
        export_type=tuple([exports] if isinstance(exports, str) else exports),
        simplify=bool(experimental.get("_data_simplification", True)),
        shapes=bool(common.get("record_shapes", False)),
        rank=str(data.get("rank_id", "-1")),
        cpu="ProfilerActivity.CPU" in activities,
    )


class Job:
    """One directory being parsed."""

    def __init__(self, profile: str, output: str, config: Config, trace_file: str = "") -> None:
        self.profile = profile
        self.output = output
        self.config = config
        self.cann = _paths.cann_directory(profile)
        self.trace = trace_file or os.path.join(output, "trace_view.json")
        raw = _raw.load(profile)
        self.raw = raw if config.cpu else raw._replace(host=False, calls=[], marks=[])
        self.kernels = _timeline.kernels_of(raw.tasks, raw.pid)
        self.steps = _timeline.steps_of(self.raw)
        self.exported = False

    def step_times(self, from_timeline: bool) -> List[_timeline.StepTime]:
        return _timeline.step_times(self.kernels, self.steps, self.raw, from_timeline)

    # --- the parsers; each raises to fail ---

    def nothing(self) -> None:
        """Parsers whose work is done in ``__init__`` or that have nothing to do on one card."""

    def prepare_trace(self) -> None:
        if self.raw.host:
            _text.begin_trace(self.trace, _text.host_events(self.raw, self.config.shapes))

    def export(self) -> None:
        started = datetime.now()
        try:
            msprof = _msprof(self.cann)
            for export_type in ("db", "text"):
                if export_type in self.config.export_type:
                    extra = ["--type=db"] if export_type == "db" else []
                    done = subprocess.run(
                        [msprof, "--export=on"] + extra + ["--output=" + self.cann], capture_output=True
                    )
                    if done.returncode or fault("export_fails") is not None or not _can_lock(self.cann):
                        raise RuntimeError(
                            "Failed to export CANN {} Profiling data.".format(export_type.upper())
                            + error_line("PROF", "internal")
                        )
            if not self.config.simplify:
                self._keep_op_summary()
        except Exception as problem:
            error("Failed to export CANN Profiling data. Error msg: {}".format(problem))
            raise
        self.exported = True
        info("CANN profiling data parsed in a total time of {}".format(datetime.now() - started))

    def _keep_op_summary(self) -> None:
        """CANN's own files, which only an unsimplified directory keeps."""
        folder = os.path.join(self.cann, "mindstudio_profiler_output")
        _paths.make_directory(folder)
        rows = _text.op_summary(self.kernels, self.config.level, self.config.metrics)
        columns = [c for c in rows[0] if c != "Block Num"] if rows else []
        name = "op_summary_{}.csv".format(time.strftime("%Y%m%d%H%M%S"))
        _text.write_csv(folder, name, columns, [[row[c] for c in columns] for row in rows])

    def await_timeline(self) -> None:
        """Waits for the first file of the export, and therefore never ends when that fails."""
        if not self.exported:
            raise Failed

    def relate(self) -> None:
        if not self.kernels:
            error(
                "Failed to get acl to npu flow events. For details, please check the logs at: {}".format(
                    os.path.join(self.profile, "logs")
                )
            )

    def analyze(self) -> None:
        done = subprocess.run(["msprof", "--analyze=on", "--output=" + self.cann], capture_output=True)
        if done.returncode:
            warn("Failed to analyze CANN TEXT Profiling data.")

    def operator_view(self) -> None:
        if self.raw.host:
            _text.operator_details(self.output, self.raw, self.config.shapes)

    def trace_view(self) -> None:
        if fault("truncated_trace") is not None:
            raise OSError("[Errno 28] No space left on device")
        if not self.raw.device:
            _text.whole_trace(self.trace, _text.host_events(self.raw, self.config.shapes))
            return
        events = _text.device_events(self.raw, self.kernels, self.config.level)
        if self.raw.host:
            _text.finish_trace(self.trace, events)
        else:
            _text.whole_trace(self.trace, events)

    def kernel_view(self) -> None:
        _text.kernel_details(self.output, self.kernels, self.steps, self.config.level, self.config.metrics)

    def step_time(self) -> None:
        _text.step_trace_time(self.output, self.step_times(from_timeline=True))

    def memory_view(self) -> None:
        _text.memory(self.output, self.raw)

    def integrate(self) -> None:
        if self.config.level in ("Level1", "Level2"):
            _text.statistics(self.output, self.kernels)

    def database(self) -> None:
        from . import _database

        _database.write(self)


def _can_lock(folder: str) -> bool:
    """Whether the databases can work that msprof keeps there."""
    path = os.path.join(folder, ".lock")
    with open(path, "w") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX)
        except OSError:
            return False
        finally:
            os.remove(path)
    return True


def _msprof(cann: str) -> str:
    """The msprof that is going to be run; raises RuntimeError with torch_npu's words when it cannot be."""
    msprof = shutil.which("msprof")
    if not msprof:
        raise RuntimeError(
            "Export CANN Profiling data failed! 'msprof' command not found!Please re-source the CANN package to fix "
            "this error. " + error_line("PROF", "not found") + "\n"
        )
    script = os.path.join(os.path.realpath(msprof).split("tools")[0], _MSPROF_PY)
    if not os.path.exists(script):
        raise RuntimeError(
            "Failed to find msprof.py path in {}. Please check the CANN environment.".format(msprof)
            + error_line("PROF", "not found")
            + "\n"
        )
    if fault("strict_owners") is not None:
        for folder, _, _ in os.walk(cann):
            if os.stat(folder).st_uid not in (0, os.geteuid()):
                raise RuntimeError(
                    "The path {0} owner is neither root nor the current user. Please execute chown -R $(id -un) "
                    "{0}".format(folder)
                    + error_line("PROF", "permission")
                )
    if fault("strict_modes") is not None:
        for folder, _, _ in os.walk(cann):
            if os.stat(folder).st_mode & 0o022:
                raise RuntimeError(
                    "The path {0} permission allow others users to write. Please execute chmod -R 755 {0}".format(
                        folder
                    )
                    + error_line("PROF", "permission")
                )
    return msprof
