"""Log lines and what they mean: verbatim wordings of several releases, each recognised."""

from __future__ import annotations

import pytest

from collect_agent.validate import MESSAGES, explain


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        ("[2026-01-01 00:00:00] [ERROR] [123] profiler.py: Task [kernel_view] run failed.", "task-failed"),
        ("Task kernel has not run successfully.", "task-failed"),
        ("Export CANN Profiling data faile! msprof command not found!", "msprof-missing"),
        ("Failed to find msprof.py path in /usr/local/Ascend", "msprof-missing"),
        ("Failed to export CANN TEXT Profiling data.", "export-failed"),
        ("owner of path '/data/PROF_1' is neither root nor the current user.", "not-owner"),
        ("path /x permission allow others users to write. Please execute chmod -R 755", "rights"),
        ("Failed to get acl to npu flow events.", "no-flow"),
        ("The profiling data cannot be parsed during the daemon process, it is recommended", "daemon"),
        (
            "Incorrect schedule: Stop profiler while current state is WARMUP which will result in empty parsed data.",
            "stopped-in-warmup",
        ),
        (
            "Stop profiler while current state is RECORD which may result in incomplete parsed data.",
            "stopped-in-record",
        ),
        (
            "Stop profiler while current state is RECORD_AND_SAVE, perhaps the scheduling cycle has not yet completed.",
            "stopped-before-last-step",
        ),
        ("Please use level1 or level2 if you want to collect aic metrics, reset aic metrics to None!", "metrics-reset"),
        ("Call stop failed. Exception: boom", "call-swallowed"),
        ("OSError: [Errno 28] No space left on device", "cannot-write"),
        ("Failed to generate trace_view.json, error: [Errno 28] No space left on device", "cannot-write"),
        ("ModuleNotFoundError: No module named 'yaml'", "module-missing"),
        ("Invalid input path: /data/10:00:00", "bad-path"),
        ("Failed to get the step range for kernel view.", "no-flow"),
        ("[WARNING] Profiler won't be using warmup, this can skew profiler results", "no-warmup-step"),
        ("Incorrect schedule: RECORD followed by NONE", "own-schedule"),
        ("12 memory record(s) are incomplete.", "as-usual"),
        ("Unknown communication op type: hcom_new_1", "as-usual"),
        ("[ERROR] analysis failed", "mismatch"),
    ],
)
def test_known_messages_are_explained(line: str, id_: str) -> None:
    found = explain(["nothing to see\n", line + "\n", line + "\n"])
    assert [(item.message.id, item.times, item.line) for item in found] == [(id_, 2, line)]


def test_the_table_of_messages_is_complete() -> None:
    assert len({message.id for message in MESSAGES}) == len(MESSAGES)
    for message in MESSAGES:
        assert message.severity in ("error", "warning", "harmless")
        assert message.meaning and message.remedy
    assert explain(["All profiling data parsed in a total time of 0:00:01", "[INFO] KernelViewParser start."]) == []
