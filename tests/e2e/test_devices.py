"""`collect-remote devices`: one host, many, one that cannot be reached, and again and again."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import COLLECT_REMOTE, Tool, command_line, gone
from simhost import SimHost

Start = Callable[..., SimHost]


def free(entry: dict[str, Any]) -> list[int]:
    return [device["logic_id"] for device in entry["devices"] if device["free"]]


# Of three sessions none goes on before the others have come, for as long as a login has.
MEETING = """
touch {0}/come.$$
for try in {{1..300}}; do
    [ $(ls {0}/come.* | wc -l) -lt 3 ] || {{ touch {0}/met.$$; break; }}
    sleep 0.05
done
"""


def test_many_hosts_are_asked_at_once_and_one_that_fails_hides_nobody(host: Start, tool: Tool, tmp_path: Path) -> None:
    slow = [host(f"ascend{n:02}", npus=2, rc=MEETING.format(tmp_path)) for n in (1, 2, 3)]
    locked = host("ascend04", npu_smi_text="dcmi module initialize failed. ret is -8005\n", npu_smi_status=187)
    tool.inventory(*slow, locked, entries={"ascend05": {"address": "127.0.0.1", "port": 1}})
    outcome = tool("devices", "--host", "ascend01,ascend02,ascend05", "--host", "ascend03,ascend04", "--json")
    assert len(list(tmp_path.glob("met.*"))) == 3
    assert outcome.status == 5
    entries = {entry["host"]: entry for entry in outcome.document["hosts"]}
    assert list(entries) == ["ascend01", "ascend02", "ascend05", "ascend03", "ascend04"]
    assert [free(entries[f"ascend{n:02}"]) for n in (1, 2, 3)] == [[0, 1]] * 3
    assert entries["ascend04"]["error"]["kind"] == "NpuSmiDriverError"
    assert entries["ascend05"]["error"]["kind"] == "UnreachableError"
    assert set(entries["ascend05"]["error"]) == {"kind", "message", "remedy", "entry"}
    assert tool("devices", "--host", "ascend01,ascend05", "--json").status == 3


def test_the_table_goes_to_stdout_and_errors_to_stderr(host: Start, tool: Tool) -> None:
    tool.inventory(host(npus=1), entries={"ascend05": {"address": "127.0.0.1", "port": 1}})
    outcome = tool("devices", "--host", "ascend01,ascend05")
    assert outcome.status == 3
    assert outcome.out.splitlines()[0] == "ascend01: 1 of 1 free"
    assert outcome.out.splitlines()[2].split()[:5] == ["0", "0", "0", "910B3", "OK"]
    assert outcome.err.startswith("error: ascend05")
    assert "connection refused" in outcome.err


def test_an_unknown_host_is_told_before_anything_is_asked(host: Start, tool: Tool) -> None:
    tool.inventory(host(npus=1))
    outcome = tool("devices", "--host", "ascend01,ascend09", "--json")
    assert outcome.status == 2
    assert "ascend09" in outcome.document["error"]["message"]


def test_where_npu_smi_is_refused_torch_npu_is_asked(host: Start, tool: Tool) -> None:
    refused = {"npu_smi_text": "npu get board type failed. ret is -9005\n", "npu_smi_status": 211}
    tool.inventory(host(npus=2, **refused))
    (entry,) = tool("devices", "--host", "ascend01", "--json").document["hosts"]
    assert [(device["npu_id"], device["logic_id"], device["health"]) for device in entry["devices"]] == [
        (None, 0, None),
        (None, 1, None),
    ]
    assert free(entry) == [0, 1]
    assert "known from torch_npu only" in entry["devices"][0]["why"]


def test_a_preset_choice_of_devices_is_said(host: Start, tool: Tool) -> None:
    tool.inventory(host(npus=3, env={"ASCEND_RT_VISIBLE_DEVICES": "1,2"}))
    said = "inside ASCEND_RT_VISIBLE_DEVICES='1,2' of the host's session"
    for option in (["--dry-run"], []):
        outcome = tool("--host", "ascend01", "--model", "llama", *option)
        assert outcome.status == 0, outcome.err
        assert f"choosing a device: {said}" in outcome.err
        assert f"  {said}\n" in outcome.out
    assert tool.collect().document["visible_devices"] == "1,2"


def test_nobody_waits_for_what_a_preset_choice_rules_out(host: Start, tool: Tool) -> None:
    tool.inventory(host(npus=2, env={"ASCEND_RT_VISIBLE_DEVICES": "1"}))
    started = time.monotonic()
    outcome = tool.collect("--device", "0", "--wait", "10m")
    assert time.monotonic() - started < 60
    assert outcome.status == 4
    assert "not allowed: outside ASCEND_RT_VISIBLE_DEVICES=1" in outcome.err
    assert "no waiting helps" in outcome.err


@pytest.mark.parametrize("json_lines", [True, False])
def test_watching_shows_what_changes_until_it_is_interrupted(host: Start, tool: Tool, json_lines: bool) -> None:
    ascend = host(npus=1)
    tool.inventory(ascend)
    options = ["--json"] if json_lines else []
    process = tool.start("devices", "--host", "ascend01", "--watch", "0.2s", *options)
    assert process.stdout is not None
    seen: list[bool] = []
    try:
        while len(set(seen)) < 2:
            line = process.stdout.readline()
            assert line, "it goes on until it is interrupted"
            if json_lines:
                seen.append(json.loads(line)["hosts"][0]["devices"][0]["free"])
            elif line.startswith("ascend01: "):
                seen.append(line == "ascend01: 1 of 1 free\n")
            ascend.set_state(devices={0: {"health": "Alarm"}})
        assert seen[0]
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=5)
    finally:
        process.kill()
    assert (process.returncode, said) == (130, "")
    assert gone(ascend.processes)


def test_on_a_terminal_it_is_shown_in_place(host: Start, tool: Tool) -> None:
    tool.inventory(host(npus=1))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COLLECT_REMOTE, "devices", "--host", "ascend01", "--watch", "0.2s"],
        cwd=tool.directory,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    shown = b""
    try:
        while shown.count(b"\x1b[H\x1b[2J") < 3:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 130
    finally:
        process.kill()
        os.close(ours)
    assert b"every 0.2 s" in shown
    assert shown.count(b"ascend01: 1 of 1 free") >= 2


def test_a_host_that_hangs_does_not_hold_up_an_interrupt(host: Start, tool: Tool) -> None:
    ascend = host(npus=1, npu_smi_delay=30)
    tool.inventory(ascend)
    process = tool.start("devices", "--host", "ascend01")
    until = time.monotonic() + 20
    while not any(b"npu" in command_line(pid) for pid in ascend.processes()):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    process.communicate(timeout=10)
    assert time.monotonic() - started < 8
    assert process.returncode == 130
    assert gone(ascend.processes), "npu-smi is not left behind"


def test_a_survey_that_breaks_off_says_why(host: Start, tool: Tool, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = --version ] && exec echo Python 3.11.7\necho MemoryError: no more\nexit 1\n')
    python.chmod(0o755)
    tool.inventory(host(npus=1), entries={"ascend01": {"python": str(python)}})
    outcome = tool.collect("--dry-run")
    assert outcome.status == 5
    assert "MemoryError: no more" in outcome.err
    assert tool("devices", "--host", "ascend01").status == 0, "which takes no Python"


def test_a_busy_device_is_told_with_the_process_and_its_user(host: Start, tool: Tool) -> None:
    ascend = host(npus=1)
    tool.inventory(ascend)
    code = "import torch, torch_npu; x = torch.ones(4, device='npu:0'); print('mine', flush=True); input()"
    holder = subprocess.Popen(
        [ascend.session],
        env={"SSH_ORIGINAL_COMMAND": f'. Ascend/ascend-toolkit/set_env.sh; exec python3 -c "{code}"'},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "mine\n"
        outcome = tool.collect()
    finally:
        holder.kill()
        holder.communicate()
    assert outcome.status == 4
    assert re.search(r"busy: pid \d+ python3 of root, 0\.\d GB", outcome.err), outcome.err
