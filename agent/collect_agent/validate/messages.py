"""What the profiler's log lines mean. They explain a verdict and never make one: files do.

The same lines follow failed and good parses ("All profiling data parsed", `analyse.done`), warnings are
hidden on every rank but 0, and the wording changed between releases. Sources: torch_npu 2.13.0,
`profiler/`, and public reports.
"""

from __future__ import annotations

import io
import re
from typing import Dict, Iterable, List, NamedTuple, Pattern, Tuple

from ..trace.stream import text


class Message(NamedTuple):
    """A kind of log line: one as it is `seen`, what it means and what to do."""

    id: str
    seen: str
    pattern: str
    severity: str  # "error", "warning" or "harmless"
    meaning: str
    remedy: str


# Causes first: a line is explained by the first that fits, and the last few stand around every other.
MESSAGES: Tuple[Message, ...] = (
    Message(
        "msprof-missing",
        "Export CANN Profiling data failed! 'msprof' command not found!",
        r"'?msprof'? command not found|Failed to find msprof\.py path",
        "error",
        "the parser could not start msprof: CANN's environment was not sourced, or the toolkit is incomplete",
        "source CANN's set_env.sh in the same shell (a non-interactive ssh reads no .bashrc), or install the toolkit",
    ),
    Message(
        "export-failed",
        "Failed to export CANN Profiling data.",
        r"Failed to export CANN (TEXT |DB )?Profiling data|Export CANN Profiling data fail",
        "error",
        "`msprof --export=on` failed; its own message is captured and not shown",
        "run `msprof --export=on --output=<PROF directory>` by hand, as the same user; often rights, owner or disk",
    ),
    Message(
        "not-owner",
        "owner of path ... is neither root nor the current user. Please execute chown -R ...",
        r"owner (of path .* )?is neither root nor the current user|current owner have inconsistent permissions",
        "error",
        "msprof, its script or the data belong to another user (container root, NFS root squash)",
        "collect and parse as the owner, on a local disk",
    ),
    Message(
        "rights",
        "... permission allow others users to write. Please execute chmod -R 755 ...",
        r"permission allow others users to write|is not (readable|writable)",
        "error",
        "the parser refuses directories that others may write to, or that it cannot read",
        "set `umask 027` before the run, or chmod -R g-w,o-w the data, and parse again",
    ),
    Message(
        "analyze-failed",
        "Failed to analyze CANN TEXT Profiling data.",
        r"Failed to analyze CANN (TEXT|DB) Profiling data",
        "warning",
        "the analysis of communication failed; the rest may be good",
        "use the profile without communication.json, or parse again",
    ),
    Message(
        "no-device-data",
        "CANN Profiling data does not exist",
        r"CANN Profiling data does not exist|No kernel events were found in the msprof timeline",
        "error",
        "nothing was recorded on the device: driver, container without device, another msprof, or a full disk",
        "check npu-smi, the driver's log (~/ascend/log) and free space, then collect again",
    ),
    Message(
        "no-framework-data",
        "FWK Profiling data does not exist",
        r"FWK Profiling data does not exist|torch op data is empty",
        "error",
        "the framework's records are lost",
        "collect again; check how the process forks and ends",
    ),
    Message(
        "timeline-empty",
        "the timeline data is empty",
        r"the timeline data is empty|Invalid CANN trace data",
        "error",
        "the device timeline is empty or not JSON",
        "collect again; check that firmware, driver and CANN match",
    ),
    Message(
        "no-flow",
        "Failed to get acl to npu flow events.",
        r"Failed to get acl to npu flow events|no HostToDevice flow events|no flow events in the ProfilerStep"
        r"|Failed to get the step range",
        "warning",
        "host and device records are not linked: harmless without CPU activity, else steps cannot be told apart",
        "ignore it when every file is complete; else collect with CPU and NPU activities, synchronising before step()",
    ),
    Message(
        "daemon",
        "The profiling data cannot be parsed during the daemon process, ...",
        r"cannot be parsed during the daemon process",
        "error",
        "parsing was asked for in a daemonic worker, which may not start processes",
        "parse offline: torch_npu.profiler.profiler.analyse(directory) in an ordinary process",
    ),
    Message(
        "stopped-in-warmup",
        "Incorrect schedule: Stop profiler while current state is WARMUP which will result in empty parsed data.",
        r"Stop profiler while current state is WARMUP",
        "error",
        "too few step() calls: the window never opened, the data were deleted",
        "run more steps: skip_first + (wait + warmup + active) * repeat step() calls at least",
    ),
    Message(
        "stopped-in-record",
        "Incorrect schedule: Stop profiler while current state is RECORD which may result in incomplete parsed data.",
        r"Stop profiler while current state is RECORD which",
        "warning",
        "the profiler was stopped before the last active step",
        "one more step() call; the step ids tell whether a step is missing",
    ),
    Message(
        "stopped-before-last-step",
        "Stop profiler while current state is RECORD_AND_SAVE, perhaps the scheduling cycle has not yet completed.",
        r"perhaps the scheduling cycle has not yet completed",
        "harmless",
        "the context ended before the closing step(); the data of the last step are complete",
        "nothing, when the step ids are as many as the active steps",
    ),
    Message(
        "own-schedule",
        "Incorrect schedule: RECORD followed by NONE",
        r"Incorrect schedule: (WARMUP|RECORD) followed by",
        "warning",
        "a schedule function of the user's own leaves out a state",
        "use torch_npu.profiler.schedule()",
    ),
    Message(
        "no-warmup-step",
        "Profiler won't be using warmup, this can skew profiler results",
        r"Profiler won't be using warmup",
        "warning",
        "the schedule has no warm-up step: the device is switched on inside the first recorded one",
        "schedule with warmup=1 or more",
    ),
    Message(
        "metrics-reset",
        "Please use level1 or level2 if you want to collect aic metrics, reset aic metrics to None!",
        r"reset aic metrics to None|reset it to (default|text|ProfilerLevel)",
        "warning",
        "a profiler option was not understood and silently replaced",
        "profiler_info.json shows the configuration that was used",
    ),
    Message(
        "api-disabled",
        "torch_npu profiler api is not effective",
        r"torch_npu profiler api is not effective|'PROFILING_MODE' is set",
        "error",
        "an environment variable of msprof turns the profiler's API into a no-op",
        "unset PROFILING_MODE and PROFILER_SAMPLECONFIG, and do not start the program under msprof",
    ),
    Message(
        "too-large",
        "The parsing time is expected to exceed 30 minutes",
        r"file size exceeds the preset value|expected to exceed 30 minutes",
        "warning",
        "the raw data are very large; files above the parser's limit are left out",
        "fewer steps, without stack, shapes and memory",
    ),
    Message(
        "database-failed",
        "DB parser failed",
        r"SQLite Error|DB parser failed|Failed to connect to db file",
        "error",
        "the database export failed: disk full, or a file system without locks",
        "write to a local disk, or export text",
    ),
    Message(
        "cannot-write",
        "[Errno 28] No space left on device",
        r"Can't (create|read) file|No space left on device|Disk quota exceeded",
        "error",
        "a file could not be written or read: disk, quota or rights",
        "free space, or use a local disk",
    ),
    Message(
        "bad-path",
        "Invalid parameter output_path / Invalid input path: ...",
        r"Invalid (input|profiling) path|path does not exist|symbolic link",
        "error",
        "the profiler refuses the output path: links, or characters other than letters, digits and underscore",
        "write to a real path of plain characters",
    ),
    Message(
        "module-missing",
        "ModuleNotFoundError: No module named ...",
        r"No module named",
        "error",
        "the Python that msprof uses lacks a module",
        "install it into the python3 found first on PATH",
    ),
    Message(
        "mismatch",
        "[ERROR] analysis failed",
        r"\banalysis failed\b",
        "error",
        "msprof could not read what the driver wrote, reported where CANN, driver and torch_npu do not match",
        "install releases that belong together, then collect again",
    ),
    Message(
        "as-usual",
        "Unknown communication op type: ...",
        r"memory record\(s\) are incomplete|Unknown communication op type|Remove temporary profiling data saving path",
        "harmless",
        "memory that outlives the window, a collective of a new kind, a directory that was busy",
        "nothing",
    ),
    Message(
        "file-failed",
        "Failed to generate trace_view.json",
        r"Failed to generate \S+",
        "error",
        "the parser of that file raised; the traceback is in the same log",
        "read the traceback, then parse the raw data again",
    ),
    Message(
        "parse-raised",
        "Failed to parsing profiling data.",
        r"Failed to parsing profiling data|Profiling data parsing failed",
        "error",
        "the whole parse raised, whatever success line follows",
        "read the traceback in the log, then parse the raw data again",
    ),
    Message(
        "call-swallowed",
        "Call export_chrome_trace failed. Exception: ...",
        r"Call \S+ failed\. Exception",
        "error",
        "a call of the profiler raised; torch_npu prints one line and goes on",
        "the text behind 'Exception:' is the cause",
    ),
    Message(
        "task-failed",
        "Task [kernel_view] run failed. / Task kernel has not run successfully.",
        r"Task \S+ (run failed|has not run successfully)",
        "error",
        "a parser failed, or was never started because something that it depends on failed",
        "look for the first ERROR before it; mend that and run torch_npu.profiler.profiler.analyse() on the raw data",
    ),
)

_COMPILED: List[Tuple[Pattern[str], Message]] = [(re.compile(message.pattern), message) for message in MESSAGES]
_ANY = re.compile("|".join("(?:%s)" % message.pattern for message in MESSAGES))
LINE_LIMIT = 1 << 16


class Found(NamedTuple):
    """A kind of message met in a log: its first line and how often it came."""

    message: Message
    line: str
    times: int


def explain(lines: Iterable[str]) -> List[Found]:
    """Every known message in `lines`, in order of first appearance; a line is explained by the first that fits."""
    found: Dict[str, Found] = {}
    for line in lines:
        if not _ANY.search(line):
            continue
        for pattern, message in _COMPILED:
            if pattern.search(line):
                before = found.get(message.id)
                found[message.id] = Found(
                    message, before.line if before else line.strip()[:500], before.times + 1 if before else 1
                )
                break
    return list(found.values())


def read(raw: io.RawIOBase) -> List[Found]:
    """`explain` for a log file of any size and encoding; over-long lines are looked at piece by piece."""
    lines = text(raw, errors="replace")
    return explain(iter(lambda: lines.readline(LINE_LIMIT), ""))
