"""One recording: its configuration, its raw data, its receipts."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import uuid
from typing import Any, Callable, Dict, Iterable, Optional, Set

from torch import distributed

from .. import npu
from .._device import Recorder, now_ns, state
from .._faults import fault
from . import _paths, _raw
from ._messages import swallow, usable, warn
from .experimental_config import ExportType, _ExperimentalConfig

_ENVIRONMENT = (
    "ASCEND_GLOBAL_LOG_LEVEL HCCL_RDMA_TC HCCL_RDMA_SL ACLNN_CACHE_LIMIT HOST_CACHE_CAPACITY ASCEND_ENHANCE_ENABLE "
    "PYTORCH_NPU_ALLOC_CONF ASCEND_LAUNCH_BLOCKING HCCL_ALGO"
).split()
_BOOLS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")


class ProfilerActivity:
    """``CPU`` and ``NPU``, each printing as ``ProfilerActivity.<name>``."""

    CPU: ProfilerActivity
    NPU: ProfilerActivity

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return "ProfilerActivity." + self.name

    __str__ = __repr__


ProfilerActivity.CPU, ProfilerActivity.NPU = ProfilerActivity("CPU"), ProfilerActivity("NPU")


@swallow(set())
def supported_activities() -> Set[ProfilerActivity]:
    return {ProfilerActivity.CPU, ProfilerActivity.NPU}


def cann_version() -> str:
    """From the toolkit's ``ascend_*_install.info``; "not known" without one."""
    for folder, _, names in os.walk(os.path.realpath(os.environ.get("ASCEND_HOME_PATH", ""))):
        for name in names:
            if re.match(r"ascend_.*_install\.info", name):
                with open(os.path.join(folder, name)) as file:
                    for line in file:
                        if "version" in line:
                            return line.strip().split("=")[-1]
    return "not known"


class Interface:
    """What ``profile`` drives; ``prof_path`` is the directory of the current window."""

    def __init__(
        self,
        activities: Optional[Iterable[ProfilerActivity]],
        experimental_config: Optional[_ExperimentalConfig],
        schedule: Any = None,
        metadata: Optional[Dict[str, Any]] = None,
        trace_id: Optional[Callable[[], str]] = None,
        **switches: Any,
    ) -> None:
        self._usable = usable()
        self.prof_path = ""
        self.activities = set(activities) if activities else supported_activities()
        for name in _BOOLS:
            setattr(self, name, switches.get(name, False))
        self.experimental_config = experimental_config or _ExperimentalConfig()
        self.schedule = schedule
        self.metadata = {} if metadata is None else metadata
        self._make_trace_id = trace_id
        self.trace_id = ""
        self._recorder: Optional[Recorder] = None
        self._cann = ""
        self._start_monotonic = 0
        self._start_thread = 0
        self._check()
        if self._usable:
            npu.init()

    def _check(self) -> None:
        if not self.activities <= supported_activities():
            warn("Invalid activities, only CPU and NPU are supported, reset it to default.")
            self.activities = supported_activities()
        for name in _BOOLS:
            if not isinstance(getattr(self, name), bool):
                warn("Parameter {} is of boolean type, reset it to False.".format(name))
                setattr(self, name, False)
        if not isinstance(self.experimental_config, _ExperimentalConfig):
            warn("Parameter experimental_config is an instance of _ExperimentalConfig, reset it to default.")
            self.experimental_config = _ExperimentalConfig()
        if ProfilerActivity.NPU not in self.activities:
            warn("Experimental config will not be used while ProfilerActivity.NPU is not set.")
        if ProfilerActivity.CPU not in self.activities and self.experimental_config.with_gc:
            warn("GC detect will not take effect while ProfilerActivity.CPU is not set.")

    # --- the verbs of the state table ---

    def init(self) -> None:
        if not self._usable:
            return
        self.prof_path = _paths.creator.create()
        self.trace_id = self._new_trace_id()

    def warmup(self) -> None:
        """The device's collection is set up one phase earlier; there is nothing to show for it."""

    def start(self) -> None:
        if not self._usable:
            return
        self._cann = ""
        if ProfilerActivity.NPU in self.activities and fault("no_prof_dir") is None:
            self._cann = _raw.create_cann_directory(self.prof_path, state.index)
        self._start_monotonic = now_ns()
        self._start_thread = threading.get_ident()
        self._recorder = Recorder(bool(self.with_stack), bool(self.profile_memory))  # type: ignore[attr-defined]
        state.recorder = self._recorder

    def stop(self) -> None:
        if not self._usable:
            return
        if ProfilerActivity.NPU in self.activities:
            state.synchronize()
        other_thread = threading.get_ident() != self._start_thread and fault("thread_segfault") is not None
        if other_thread or fault("segfault_at_stop") is not None:
            os.kill(os.getpid(), signal.SIGSEGV)
        while fault("hang_at_stop") is not None:
            time.sleep(1)
        if fault("stop_raises") is not None:
            raise RuntimeError("Stop profiler failed, the data processor did not answer.")
        state.recorder = None

    def finalize(self) -> None:
        if not self._usable:
            return
        if self._recorder is not None:
            host = ProfilerActivity.CPU in self.activities
            _raw.dump(self.prof_path, self._recorder, host, self._cann, state.index)
            self._recorder = None
        if fault("no_profiler_info") is None:
            self._dump_info()
        self._dump_metadata()
        _paths.creator.ready = False

    def delete(self) -> None:
        if self._usable:
            _paths.creator.delete()

    def analyse(self, output: Optional[str] = None, async_mode: bool = False) -> None:
        """Parse the window; ``output`` names a file when only the trace is wanted."""
        if not self._usable:
            return
        from . import _parse

        try:
            _parse.analyse(self.prof_path, trace_file=output, async_mode=async_mode)
        except Exception as problem:
            warn("Profiling data parsing failed, error: {}".format(problem))

    # --- receipts ---

    def _new_trace_id(self) -> str:
        if self._make_trace_id is not None:
            try:
                made = self._make_trace_id()
                if isinstance(made, str) and len(made) <= 1024:
                    return made
                warn("Parameter custom_trace_id_callback should return str(max length: 1024), reset it to default.")
            except Exception as problem:
                warn("Parameter custom_trace_id_callback raised an exception: {}, reset it to default.".format(problem))
        return "{:032X}".format(uuid.uuid4().int)

    def _dump_info(self) -> None:
        from .. import __version__

        common: Dict[str, Any] = {
            "activities": sorted(map(str, self.activities)),
            "schedule": getattr(self.schedule, "__dict__", {}) if self.schedule else None,
        }
        common.update((name, getattr(self, name)) for name in _BOOLS)
        info: Dict[str, Any] = {
            "config": {"common_config": common, "experimental_config": self.experimental_config.__dict__},
            "start_info": {
                "syscnt_enable": False,
                "freq": 100,
                "start_cnt": 0,
                "start_monotonic": self._start_monotonic,
            },
            "end_info": {"collectionTimeEnd": time.time_ns(), "MonotonicTimeEnd": time.monotonic_ns()},
            "torch_npu_version": __version__,
            "cann_version": cann_version(),
        }
        rank: Any = os.environ.get("RANK")
        if rank is None and distributed.is_initialized():
            rank = distributed.get_rank()
        name = "profiler_info.json"
        if rank is not None:
            name = "profiler_info_{}.json".format(rank)
            info["rank_id"] = rank
        _paths.write(os.path.join(self.prof_path, name), json.dumps(info, indent=4, ensure_ascii=False))

    def _dump_metadata(self) -> None:
        if ExportType.Text in self.experimental_config.export_type:
            self.metadata["ENV_VARIABLES"] = {name: os.environ.get(name, "") for name in _ENVIRONMENT}
        self.metadata["trace_id"] = self.trace_id
        if not _paths.creator.ready:
            warn("Profiler is not initialized. Skip this metadata.")
            return
        path = os.path.join(self.prof_path, "profiler_metadata.json")
        _paths.write(path, json.dumps(self.metadata, ensure_ascii=False))
        self.metadata.clear()
