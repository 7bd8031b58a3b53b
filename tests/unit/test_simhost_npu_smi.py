"""The simulated npu-smi against the widths and rules of the real tables (Atlas A2 and A3, 98 characters wide)."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simhost import SimHost
from simhost.hostside import driver


@pytest.fixture(params=["910B3", "910B4", "Ascend910"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SimHost]:
    """A host of each chip."""
    with SimHost(tmp_path / "host", chip=request.param, npus=4, server="asyncssh") as started:
        yield started


def npu_smi(host: SimHost, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([host.root / "bin" / "npu-smi", *arguments], capture_output=True, text=True, check=False)


def cut(text: str, *widths: int) -> list[str]:
    """`text` cut into fields of these widths, one blank before each and one after all."""
    assert len(text) == sum(widths) + len(widths) + 1
    fields, at = [], 0
    for width in widths:
        assert text[at] == " "
        fields.append(text[at + 1 : at + 1 + width].rstrip())
        at += 1 + width
    assert text[at] == " "
    return fields


def cells(line: str, *widths: int) -> list[str]:
    """The cells of a table line whose bars stand `widths` apart."""
    assert len(line) == 98
    parts = line.split("|")
    assert [len(part) for part in parts] == [0, *widths, 0]
    return parts[1:-1]


def device_lines(text: str) -> list[tuple[str, str]]:
    """The two lines of every device."""
    head, _, _ = text.partition("Process id")
    rows = [line for line in head.splitlines() if not line.startswith("+")][3:-1]
    return list(zip(rows[::2], rows[1::2], strict=True))


def process_lines(text: str) -> list[str]:
    """What stands below the heading of the process table, without rules."""
    _, _, tail = text.partition("Process memory(MB)")
    return [line for line in tail.splitlines()[1:] if not line.startswith("+")]


def test_every_device_has_two_lines_of_the_real_widths(host: SimHost) -> None:
    told = npu_smi(host, "info")
    assert (told.returncode, told.stderr) == (0, "")
    lines = device_lines(told.stdout)
    assert len(lines) == len(host.devices)
    for device, (first, second) in zip(host.devices, lines, strict=True):
        name, health, state = cells(first, 27, 15, 52)
        assert cut(name + " ", 5, 20) == [str(device.npu), host.chip]
        assert cut(health, 13) == ["OK"]
        power, _, pages = cut(state, 11, 17, 20)
        assert re.fullmatch(r"-" if device.chip else r"\d+\.\d", power)
        assert pages == "0    / 0"
        place, bus, figures = cells(second, 27, 15, 52)
        if host.chip == "Ascend910":
            assert cut(place + " ", 5, 20) == [str(device.chip), str(device.logic)]
        else:
            assert cut(place, 25) == [str(device.chip)]
        assert re.fullmatch(r"[0-9A-F]{4}:[0-9A-F]{2}:00\.0", *cut(bus, 13))
        util, ddr, hbm = cut(figures, 11, 17, 20)
        assert (util, ddr) == ("0", "0    / 0")
        assert hbm == f"{device.idle_used_mb:<5}/ {device.total_mb}"
        assert 0.04 < device.idle_used_mb / device.total_mb < 0.09


def test_dies_are_divided_by_an_unbroken_rule_and_npus_by_a_double_one(host: SimHost) -> None:
    table = npu_smi(host, "info").stdout.partition("Process id")[0].splitlines()
    rows = [at for at, line in enumerate(table) if line.startswith("| ")][3:-1]
    for device, at in zip(host.devices, rows[1::2], strict=True):
        last = device.chip == (1 if host.chip == "Ascend910" else 0)
        broken = "+" + "+".join(("=" if last else "-") * width for width in (27, 15, 52)) + "+"
        assert table[at + 1] == (broken if last else "+" + "-" * 96 + "+")


def test_without_processes_every_npu_says_so_once(host: SimHost) -> None:
    lines = process_lines(npu_smi(host, "info").stdout)
    assert [line.strip("| ") for line in lines] == [f"No running processes found in NPU {n}" for n in range(4)]


def test_a_process_that_holds_a_device_shows_with_its_memory(host: SimHost) -> None:
    device = host.devices[-1]
    with subprocess.Popen(["sleep", "60"], env={**os.environ, "SIMHOST": str(host.dir)}) as job:
        try:
            (host.dir / "holders" / str(job.pid)).write_text(f"{device.logic} 12345\n")
            while driver.process_name(job.pid) != "sleep":
                time.sleep(0.001)
            assert host.held() == {job.pid: {device.logic: 12345}}
            text = npu_smi(host, "info").stdout
        finally:
            job.kill()
    npu, pid, name, memory = cells(process_lines(text)[-1], 27, 15, 26, 25)
    assert cut(npu + " ", 7, 18) == [str(device.npu), str(device.chip)]
    assert (cut(pid, 13), cut(name, 24), cut(memory, 23)) == ([str(job.pid)], ["sleep"], ["12345"])
    assert f"{device.idle_used_mb + 12345}/ {device.total_mb}" in device_lines(text)[-1][1]
    assert "found in NPU 3" not in text
    assert host.held() == {}
    assert "found in NPU 3" in npu_smi(host, "info").stdout


def test_jobs_of_others_and_what_a_container_hides(host: SimHost) -> None:
    host.set_state(
        processes=[
            {"logic": 0, "pid": 4711, "name": "VLLM::EngineCore_with_a_tail", "mb": 20011},
            *({"logic": 1, "pid": 5000 + n, "name": "python", "mb": 90} for n in range(11)),
        ],
        devices={2: {"health": "Warning", "used_mb": 17017, "util": 37}},
    )
    text = npu_smi(host, "info").stdout
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in process_lines(text) if "No running" not in line]
    assert rows[0][1:] == ["4711", "VLLMEngineCore_", "20011"]
    assert len(rows) == 1 + 8, "eight rows a chip at most"
    lines = device_lines(text)
    assert "| Warning " in lines[2][0]
    assert re.search(r"\| 37 .* 17017/ ", lines[2][1])
    assert f"{host.devices[1].idle_used_mb + 11 * 90:<5}/" in lines[1][1]


def test_the_mapping(host: SimHost) -> None:
    two_dies = host.chip == "Ascend910"
    heading, *rows = npu_smi(host, "info", "-m").stdout.splitlines()
    names = ["NPU ID", "Chip ID", "Chip Logic ID", *(["Chip Phy-ID"] if two_dies else []), "Chip Name"]
    assert heading.startswith("\t")
    assert cut(" " + heading[1:] + " ", *[30] * len(names)) == names
    table = [cut(" " + row[1:] + " ", *[30] * len(names)) for row in rows]
    chips = [row for row in table if row[-1] != "Mcu"]
    assert [row[:3] for row in chips] == [[str(d.npu), str(d.chip), str(d.logic)] for d in host.devices]
    assert {row[-1] for row in chips} == {"Ascend910" if two_dies else f"Ascend {host.chip}"}
    controllers = [row for row in table if row[-1] == "Mcu"]
    assert [row[0] for row in controllers] == ["0", "1", "2", "3"]
    assert {row[2] for row in controllers} == {"-"}


def test_its_own_failure_goes_to_stdout_with_a_status(host: SimHost) -> None:
    said = "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\ndcmi module initialize failed. ret is -8005\n"
    host.set_state(npu_smi_text=said, npu_smi_status=187)
    for arguments in (["info"], ["info", "-m"]):
        told = npu_smi(host, *arguments)
        assert (told.returncode, told.stdout, told.stderr) == (187, said, "")


def test_it_can_take_its_time(host: SimHost) -> None:
    host.set_state(npu_smi_delay=30)
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([host.root / "bin" / "npu-smi", "info"], capture_output=True, timeout=0.5, check=False)
