"""Which parser runs after which, and what is said of those that did not succeed.

The graphs are those of torch_npu 2.13.0. A parser that fails takes with it all that wait for it; each of them prints
one line, the rest goes on.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Tuple

from ._job import Failed, Job
from ._logs import Log
from ._messages import error


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
HOST_TEXT = _tasks(
    *_COMMON,
    ("MemoryPrepare", "TaskQueue TorchOp", Job.nothing, False),
    ("OperatorView", "TorchOp", Job.operator_view, True),
    ("TraceView", "TaskQueue TorchOp", Job.trace_view, True),
    ("MemoryView", "MemoryPrepare", Job.memory_view, True),
)
HOST_DB = _tasks(
    *_COMMON,
    ("DbPre", "TorchOp TaskQueue", Job.nothing, False),
    ("TreeBuild", "TorchOp TaskQueue", Job.nothing, False),
    ("MemoryPrepare", "TaskQueue TorchOp", Job.nothing, False),
    ("Db", "DbPre MemoryPrepare TreeBuild", Job.database, False),
)
HOST_CHROME = _tasks(*_COMMON, ("TraceView", "TaskQueue TorchOp", Job.trace_view, True))
_NOT_AT_LEVEL_NONE = ("KernelViewParser", "TraceStepTimeParser", "CommunicationParser")


def tasks_for(job: Job, trace_only: bool) -> List[Task]:
    if trace_only:
        return CHROME if job.cann else HOST_CHROME
    chosen: Dict[str, Task] = {}
    for export_type, tasks in (("text", TEXT if job.cann else HOST_TEXT), ("db", DB if job.cann else HOST_DB)):
        if export_type in job.config.export_type:
            for task in tasks:
                if job.config.level != "Level_none" or task.name not in _NOT_AT_LEVEL_NONE:
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
