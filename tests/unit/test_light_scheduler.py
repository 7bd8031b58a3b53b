"""The stand-in's schedule against the real wheel's, on random schedules.

Both run in a process of their own that answers one line for each schedule; torch itself is loaded by neither.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
LIGHT = ROOT / "tests" / "simhost" / "light"
ASCEND = Path(os.environ.get("COLLECT_REMOTE_ASCEND_VENV", ROOT / ".venv" / "ascend"))
STEPS = 40

ANSWER = f"""
import contextlib, io, json, sys
for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        schedule = Schedule(**json.loads(line))
        actions = [schedule(step).name for step in range({STEPS})]
    warnings = [text.partition("profiler.py: ")[2] for text in said.getvalue().splitlines()]
    print(json.dumps([actions, warnings]), flush=True)
"""
STAND_IN = "from torch_npu.profiler.scheduler import Schedule\n"
# The file alone: what it imports is given to it, since the real packages need seconds.
WHEEL = """
import types, sys
def module(name, **content):
    made = types.ModuleType(name)
    made.__dict__.update(content)
    made.__path__ = []
    sys.modules[name] = made
say = lambda message: print("profiler.py: " + message)
for name in ("torch_npu", "torch_npu.utils", "torch_npu.profiler", "torch_npu.profiler.analysis",
             "torch_npu.profiler.analysis.prof_common_func"):
    module(name)
module("torch_npu.utils._error_code", ErrCode=types.SimpleNamespace(VALUE=0), prof_error=str)
module("torch_npu.profiler.analysis.prof_common_func._constant", print_warn_msg=say)
scope = {"__name__": "torch_npu.profiler.scheduler", "__package__": "torch_npu.profiler"}
exec(compile(open(PATH).read(), PATH, "exec"), scope)
Schedule = scope["Schedule"]
"""


class Oracle:
    def __init__(self, code: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-c", code + ANSWER],
            env={"PYTHONPATH": str(LIGHT), "ASCEND_HOME_PATH": "/", "PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, schedule: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(schedule) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate(timeout=10)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Oracle, Oracle]]:
    found = list(ASCEND.glob("lib/python3*/site-packages/torch_npu/profiler/scheduler.py"))
    if not found:
        pytest.skip(f"no torch_npu in {ASCEND}")
    both = Oracle(STAND_IN), Oracle(f"PATH = {str(found[0])!r}\n" + WHEEL)
    yield both
    for one in both:
        one.close()


@settings(max_examples=300, deadline=None)
@given(
    wait=st.integers(-1, 5),
    warmup=st.integers(-1, 4),
    active=st.integers(-1, 5),
    repeat=st.integers(-1, 4),
    skip_first=st.integers(-1, 8),
    skip_first_wait=st.integers(-1, 2),
)
def test_actions_and_warnings_are_those_of_the_wheel(pair: tuple[Oracle, Oracle], **schedule: int) -> None:
    stand_in, wheel = (oracle.ask(schedule) for oracle in pair)
    assert stand_in == wheel
