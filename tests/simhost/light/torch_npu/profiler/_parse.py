"""Parsing: which parser runs after which, what it prints, what a failure leaves behind.

The graph of parsers, their messages and the order of the files are those of torch_npu 2.13.0. A parser that fails takes
with it all that depend on it; each of them prints one line, the rest goes on, and the end is announced all the same.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .._errors import error_line
from .._faults import fault
from . import _paths, _raw, _text, _timeline
from ._logs import Log
from ._messages import error, info

_MSPROF_PY = "tools/profiler/profiler_tool/analysis/msprof/msprof.py"
_DAEMON = (
    "The profiling data cannot be parsed during the daemon process, it is recommended that you use an offline parsing "
    "interface to parse the collected data. \nFor example: \nfrom torch_npu.profiler.profiler import analyse\n"
    'analyse("profiling_data_path")'
)


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
    from ._messages import warn

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
        self.raw = raw if config.cpu else raw._replace(host=False, marks=[])
        self.kernels = _timeline.kernels_of(raw.calls, raw.pid) if raw.device else []
        self.steps = _timeline.steps_of(self.raw)

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
                    if done.returncode or fault("export_fails") is not None:
                        raise RuntimeError(
                            "Failed to export CANN {} Profiling data.".format(export_type.upper())
                            + error_line("PROF", "internal")
                        )
            if not self.config.simplify:
                self._keep_op_summary()
        except Exception as problem:
            error("Failed to export CANN Profiling data. Error msg: {}".format(problem))
            raise
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
        if fault("export_fails") is not None or not shutil.which("msprof"):
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
            from ._messages import warn

            warn("Failed to analyze CANN TEXT Profiling data.")

    def operator_view(self) -> None:
        if self.raw.host:
            _text.operator_details(self.output, self.raw, self.config.shapes)

    def trace_view(self) -> None:
        if fault("truncated_trace") is not None:
            raise OSError("[Errno 28] No space left on device")
        if not self.raw.device:
            _text.finish_trace(self.trace, _text.host_events(self.raw, self.config.shapes))
            return
        _text.finish_trace(self.trace, _text.device_events(self.raw, self.kernels, self.steps, self.config.level))

    def kernel_view(self) -> None:
        _text.kernel_details(self.output, self.kernels, self.steps, self.config.level, self.config.metrics)

    def step_time(self) -> None:
        _text.step_trace_time(self.output, self.raw, self.kernels, self.steps)

    def memory_view(self) -> None:
        _text.memory(self.output, self.raw)

    def integrate(self) -> None:
        if self.config.level in ("Level1", "Level2"):
            _text.statistics(self.output, self.kernels)

    def database(self) -> None:
        from . import _database

        _database.write(self)


class Task(NamedTuple):
    name: str
    after: Tuple[str, ...]
    run: Callable[[Job], None]
    logs: bool  # a process of its own, hence a log of its own


def _tasks(*rows: Tuple[str, str, Any, bool]) -> List[Task]:
    return [
        Task(name + "Parser", tuple(a + "Parser" for a in after.split()), run, logs) for name, after, run, logs in rows
    ]


_COMMON = (
    ("TorchOp", "", Job.nothing, False),
    ("TaskQueue", "", Job.nothing, False),
)
_BEFORE_EXPORT = (
    ("TreeBuild", "TorchOp TaskQueue", Job.nothing, False),
    ("CANNExport", "", Job.export, True),
    ("CANNTimeline", "", Job.await_timeline, False),
)
TEXT = _tasks(
    *_COMMON,
    ("TracePre", "TorchOp TaskQueue", Job.prepare_trace, True),
    *_BEFORE_EXPORT,
    ("Relation", "TaskQueue CANNTimeline", Job.relate, False),
    ("MemoryPrepare", "TreeBuild TaskQueue TorchOp", Job.nothing, False),
    ("CANNAnalyze", "CANNTimeline", Job.analyze, True),
    ("OperatorView", "TreeBuild CANNTimeline Relation TorchOp", Job.operator_view, True),
    ("TraceView", "TreeBuild TracePre CANNTimeline TaskQueue TorchOp", Job.trace_view, True),
    ("KernelView", "TreeBuild CANNExport Relation", Job.kernel_view, True),
    ("TraceStepTime", "TreeBuild CANNTimeline Relation TorchOp", Job.step_time, True),
    ("MemoryView", "CANNExport MemoryPrepare", Job.memory_view, True),
    ("Integrate", "CANNExport", Job.integrate, True),
    ("Communication", "TreeBuild CANNAnalyze Relation", Job.nothing, True),
)
DB = _tasks(
    *_COMMON,
    ("DbPre", "TorchOp TaskQueue", Job.nothing, False),
    *_BEFORE_EXPORT,
    ("CANNAnalyze", "CANNTimeline", Job.analyze, True),
    ("MemoryPrepare", "TreeBuild TaskQueue TorchOp", Job.nothing, False),
    ("Db", "CANNExport MemoryPrepare TreeBuild CANNAnalyze DbPre", Job.database, False),
)
CHROME = _tasks(
    *_COMMON,
    ("TracePre", "TorchOp TaskQueue", Job.prepare_trace, True),
    *_BEFORE_EXPORT,
    ("TraceView", "TreeBuild TracePre CANNTimeline TaskQueue TorchOp", Job.trace_view, True),
)
HOST_ONLY = _tasks(
    *_COMMON,
    ("MemoryPrepare", "TaskQueue TorchOp", Job.nothing, False),
    ("OperatorView", "TorchOp", Job.operator_view, True),
    ("TraceView", "TaskQueue TorchOp", Job.trace_view, True),
    ("MemoryView", "MemoryPrepare", Job.memory_view, True),
)


def tasks_for(job: Job, trace_only: bool) -> List[Task]:
    if not job.cann:
        return [t for t in HOST_ONLY if t.name == "TraceViewParser" or not trace_only or not t.logs]
    if trace_only:
        return CHROME
    chosen: Dict[str, Task] = {}
    for export_type, tasks in (("text", TEXT), ("db", DB)):
        if export_type in job.config.export_type:
            for task in tasks:
                chosen.setdefault(task.name, task)
    return list(chosen.values())


def run(tasks: List[Task], job: Job) -> None:
    """Each task once all it waits for have succeeded; then one line for every task that did not."""
    log = Log(job.profile)
    succeeded = set()
    waiting = list(tasks)
    while True:
        ready = [task for task in waiting if succeeded.issuperset(task.after)]
        if not ready:
            break
        for task in ready:
            waiting.remove(task)
            if _one(task, job, log):
                succeeded.add(task.name)
    for task in tasks:
        if task.name not in succeeded:
            error("Task [{}] run failed.".format(task.name))


def _one(task: Task, job: Job, log: Log) -> bool:
    name = task.name if task.logs else "ProfilingParser"
    log.write(name, "INFO", "{} start.".format(task.name))
    try:
        task.run(job)
    except Failed:
        return False
    except Exception as problem:
        log.write(name, "ERROR", "Failed to generate {}, error: {}".format(_PRODUCT.get(task.name, "data"), problem))
        return False
    log.write(name, "INFO", "{} finish.".format(task.name))
    return True


_PRODUCT = {
    "TraceViewParser": "trace_view.json",
    "KernelViewParser": "kernel_details.csv",
    "OperatorViewParser": "operator_details.csv",
    "TraceStepTimeParser": "step_trace_time.csv",
    "MemoryViewParser": "operator_memory.csv or memory_record.csv",
    "DbParser": "ascend_pytorch_profiler db file",
}


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


def simplify(profile: str, wholly: bool) -> None:
    cann = _paths.cann_directory(profile)
    if not cann:
        return
    for part in [cann] + [os.path.join(cann, name) for name in os.listdir(cann) if re.match(r"host$|device_\d", name)]:
        for name in (
            "sqlite",
            "summary",
            "timeline",
            "analyze",
            "mindstudio_profiler_log",
            "mindstudio_profiler_output",
        ):
            if wholly or name == "sqlite":
                shutil.rmtree(os.path.join(part, name), ignore_errors=True)
    for name in os.listdir(cann) if wholly else ():
        if re.match(r"msprof_analysis_\d+\.log$", name):
            os.remove(os.path.join(cann, name))


def _slow(seconds: float) -> None:
    """Only the rotating cursor, without a line end, once a second."""
    for turn in range(int(seconds) or 1):
        print("|/-\\"[turn % 4] + "\b", end="", flush=True)
        time.sleep(min(1.0, seconds))


def parse_one(
    profile: str, mode: str, trace_file: Optional[str] = None, export_type: Optional[List[str]] = None
) -> None:
    started = datetime.now()
    output = trace_file or os.path.join(profile, _paths.OUTPUT)
    if trace_file is None:
        shutil.rmtree(output, ignore_errors=True)
        _paths.make_directory(output)
    info("Start parsing profiling data in {} mode at: {}".format(mode, profile))
    config = load_config(profile)
    if export_type is not None:
        config = config._replace(export_type=tuple(export_type))
    if trace_file is None and "db" in config.export_type and _paths.cann_directory(profile):
        _require_db_support()
    if fault("kill_at_parse") is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    seconds = fault("slow_parse")
    if seconds is not None:
        _slow(float(seconds or 1))
    try:
        job = Job(profile, output if trace_file is None else "", config, trace_file or "")
        run(tasks_for(job, trace_file is not None), job)
    except Exception as problem:
        Log(profile).write("ProfilingParser", "ERROR", "Failed to parsing profiling data: {!r}".format(problem))
    if trace_file is None:
        simplify(profile, config.simplify)
        _paths.write(os.path.join(output, "analyse.done"), "")
    info("All profiling data parsed in a total time of {}".format(datetime.now() - started))


def _require_db_support() -> None:
    msprof = shutil.which("msprof")
    told = subprocess.run([msprof, "--help"], capture_output=True, text=True).stdout if msprof else ""
    if "--type" not in told:
        raise RuntimeError(
            "Current CANN package version does not support export db. If you want to export db, you can install "
            "supported CANN package version."
        )


def analyse(
    path: str,
    trace_file: Optional[str] = None,
    async_mode: bool = False,
    export_type: Optional[List[str]] = None,
) -> None:
    """Parse ``path`` or, when it holds no raw data itself, its direct children."""
    path = _paths.real(path)
    _paths.check(path)
    if not os.path.exists(path):
        raise RuntimeError("The path does not exist: {}".format(path))
    profiles = _paths.profiles_in(path)
    if not profiles:
        return
    # Only a process that multiprocessing started can be one of its daemons, and it has the module then.
    if "multiprocessing" in sys.modules and sys.modules["multiprocessing"].current_process().daemon:
        error(_DAEMON)
        return
    for profile in profiles:
        _paths.check_writable(profile)
        if async_mode:
            import multiprocessing

            work = multiprocessing.get_context("fork").Process(
                target=_guarded, args=(profile, "async", trace_file, export_type)
            )
            work.start()  # joined when this process exits
        else:
            _guarded(profile, "sync", trace_file, export_type)


def _guarded(profile: str, mode: str, trace_file: Optional[str], export_type: Optional[List[str]]) -> None:
    try:
        parse_one(profile, mode, trace_file, export_type)
    except Exception as problem:
        error("Call analyse_profiling_data failed. Exception: {}".format(problem))
