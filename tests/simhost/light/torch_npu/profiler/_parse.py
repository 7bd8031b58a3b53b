"""Parsing a directory, now or later: the announcements, the clean-up, the mark at the end.

As the real one it announces success and leaves its mark whatever happened in between.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime
from typing import List, Optional

from .._faults import fault
from . import _paths
from ._job import Job, load_config
from ._logs import Log
from ._messages import error, info
from ._tasks import run, tasks_for

_DAEMON = (
    "The profiling data cannot be parsed during the daemon process, it is recommended that you use an offline parsing "
    "interface to parse the collected data. \nFor example: \nfrom torch_npu.profiler.profiler import analyse\n"
    'analyse("profiling_data_path")'
)


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
