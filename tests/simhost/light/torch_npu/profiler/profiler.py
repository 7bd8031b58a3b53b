"""The public face: ``profile``, ``tensorboard_trace_handler``, ``analyse``."""

from __future__ import annotations

import json
import os
from sys import getsizeof
from typing import Any, Callable, Dict, Iterable, List, Optional, Union

from torch._launch import record_function

from .._faults import fault
from . import _paths
from ._controller import transitions
from ._interface import Interface, ProfilerActivity, supported_activities
from ._messages import swallow, warn
from .experimental_config import _ExperimentalConfig
from .scheduler import ProfilerAction, record_always

MAX_METADATA, MAX_TEXT = 50 * 1024, 4096


class _KinetoProfile:
    """Recording by hand: start, stop, export."""

    def __init__(
        self,
        *,
        activities: Optional[Iterable[ProfilerActivity]] = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Optional[_ExperimentalConfig] = None,
        custom_trace_id_callback: Optional[Callable[[], str]] = None,
        _schedule: Any = None,
    ) -> None:
        self.metadata: Dict[str, Any] = {}
        self.prof_if = Interface(
            activities,
            experimental_config,
            _schedule,
            self.metadata,
            custom_trace_id_callback,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
        )

    @swallow()
    def __del__(self) -> None:
        _paths.creator.delete_export_only()

    @swallow()
    def start(self) -> None:
        _paths.creator.init(export_only=True)
        self.prof_if.init()
        self.prof_if.start()

    @swallow()
    def stop(self) -> None:
        self.prof_if.stop()
        self.prof_if.finalize()

    @swallow()
    def export_chrome_trace(self, output_path: str) -> None:
        output_path = _paths.real(output_path)
        if os.path.isdir(output_path):
            raise RuntimeError("Invalid input path is a directory path: {path}")
        if not output_path.endswith(".json"):
            raise RuntimeError("Invalid parameter output_path, which must be a json file.")
        if not self.prof_if.prof_path:
            warn("Invalid profiling path.")
            return
        self.prof_if.analyse(output_path)

    def _add(self, key: Any, value: Any, stored: Callable[[str], Any]) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            warn("The key and value of metadata must be string. Skip this metadata.")
        elif max(len(key), len(value)) > MAX_TEXT:
            warn("Invalid input key or value. Skip this metadata.")
        elif getsizeof(self.metadata) + getsizeof(key) + getsizeof(value) >= MAX_METADATA:
            warn("Too many metadata added. Skip this metadata")
        else:
            if key in self.metadata:
                warn("{} is already saved as metadata, override it.".format(key))
            try:
                self.metadata[key] = stored(value)
            except ValueError:
                warn("The metadata value must be json format string. Skip this metadata")

    @swallow()
    def add_metadata(self, key: str, value: str) -> None:
        self._add(key, value, str)

    @swallow()
    def add_metadata_json(self, key: str, value: str) -> None:
        self._add(key, value, json.loads)


@swallow()
def tensorboard_trace_handler(
    dir_name: Optional[str] = None,
    worker_name: Optional[str] = None,
    analyse_flag: bool = True,
    async_mode: bool = False,
) -> Callable[[Any], None]:
    """Sets, when it is built, where the process writes; what it returns parses a window that has closed."""
    _paths.creator.init(worker_name=worker_name, dir_name=dir_name)
    if not isinstance(analyse_flag, bool):
        warn("analyse_flag is not bool, set by default.")
        analyse_flag = True
    if not isinstance(async_mode, bool):
        warn("async_mode is not bool, set by default.")
        async_mode = False

    def handler(prof: Any) -> None:
        if analyse_flag:
            prof.prof_if.analyse(async_mode=async_mode)

    return handler


class profile(_KinetoProfile):
    """Recording by a schedule; without one everything between start and stop is recorded."""

    def __init__(
        self,
        *,
        activities: Optional[Iterable[ProfilerActivity]] = None,
        schedule: Optional[Callable[[int], ProfilerAction]] = None,
        on_trace_ready: Optional[Callable[..., Any]] = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Optional[_ExperimentalConfig] = None,
        execution_trace_observer: Any = None,
        custom_trace_id_callback: Optional[Callable[[], str]] = None,
        use_cuda: Optional[bool] = None,
    ) -> None:
        self.record_steps = callable(schedule)
        if schedule and not self.record_steps:
            warn("schedule is not Callable, set by default.")
        self.schedule: Any = schedule if self.record_steps else record_always
        super().__init__(
            activities=set(activities) if activities else supported_activities(),
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            custom_trace_id_callback=custom_trace_id_callback,
            _schedule=self.schedule,
        )
        if on_trace_ready and not callable(on_trace_ready):
            warn("on_trace_ready is not Callable, set by default.")
            on_trace_ready = None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(self.step_num)
        self.step_rec_fn: Optional[record_function] = None
        self._step_num_offset = 0
        if use_cuda is not None:
            warn("This is npu environment, use_cuda is invalid")
        self.stopped = False
        self._transitions = transitions(self.prof_if, self._trace_ready)

    @swallow()
    def __enter__(self) -> profile:
        self.start()
        return self

    @swallow()
    def __exit__(self, *exc: object) -> None:
        self.stop()

    @swallow()
    def __del__(self) -> None:
        if not self.stopped:
            self.stop()

    def _trace_ready(self) -> None:
        if self.on_trace_ready:
            self.on_trace_ready(self)

    def _transit(self, before: Optional[ProfilerAction], after: Optional[ProfilerAction]) -> None:
        for action in self._transitions.get((before, after), ()):
            action()

    def _begin_step(self) -> None:
        if self.record_steps:
            self.step_rec_fn = record_function("ProfilerStep#{}".format(self.step_num + self._step_num_offset))
            self.step_rec_fn.__enter__()

    def _end_step(self) -> None:
        if self.step_rec_fn is not None:
            self.step_rec_fn.__exit__()

    @swallow()
    def start(self) -> None:
        self.stopped = False
        if not self.on_trace_ready:
            _paths.creator.init(export_only=True)
        self._transit(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    @swallow()
    def stop(self) -> None:
        self._end_step()
        if fault("stop_raises") is not None:
            raise RuntimeError("Stop profiler failed, the data processor did not answer.")
        self._transit(self.current_action, None)
        self.stopped = True

    @swallow()
    def step(self) -> None:
        if self.stopped:
            warn("Profiler is stopped, step takes no effect!")
            return
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self._transit(before, self.current_action)
        self._begin_step()

    @swallow()
    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        self.prof_if._make_trace_id = callback

    @swallow()
    def get_trace_id(self) -> str:
        return self.prof_if.trace_id


@swallow()
def analyse(
    profiler_path: str,
    max_process_number: int = (os.cpu_count() or 2) // 2,
    export_type: Optional[Union[str, List[str]]] = None,
) -> None:
    """Parse raw data that are already there; ``export_type`` overrides what was asked for when recording."""
    if not isinstance(max_process_number, int) or max_process_number <= 0:
        warn("Invalid max_process_number, reset it to default!")
    elif max_process_number > (os.cpu_count() or 1):
        warn("max_process_number exceeds the number of cpu cores, reset it to the number of cpu cores!")
    asked: Optional[List[str]] = [export_type] if isinstance(export_type, str) else export_type
    if asked is not None and not (isinstance(asked, list) and asked and set(asked) <= {"text", "db"}):
        warn("Invalid parameter export_type: {}, reset it to None.".format(export_type))
        asked = None
    from . import _parse

    _parse.analyse(profiler_path, export_type=asked)
