"""The simulated npu-smi by generation and version, its other commands, and its ways to fail."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from simhost import SimHost
from simhost.hostside.chips import CHIPS

Start = Callable[..., SimHost]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a host of a chip, with two NPUs unless told otherwise."""
    with ExitStack() as running:

        def started(chip: str = "910B3", **options: Any) -> SimHost:
            options = {"npus": 2, "server": "asyncssh", **options}
            return running.enter_context(SimHost(tmp_path / chip, chip=chip, **options))

        yield started


def npu_smi(host: SimHost, arguments: str) -> subprocess.CompletedProcess[str]:
    command = [host.root / "bin" / "npu-smi", *arguments.split()]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)


def keys(text: str) -> list[tuple[str, str]]:
    """The ``key : value`` lines, in their order."""
    pairs = [line.partition(":") for line in text.splitlines() if ":" in line]
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def columns(text: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


@pytest.mark.parametrize("chip", CHIPS)
def test_every_chip_has_its_table(start: Start, chip: str) -> None:
    host = start(chip, npus=1)
    told = npu_smi(host, "info")
    assert (told.returncode, told.stderr) == (0, "")
    device = host.devices[0]
    assert re.search(rf"^\| {device.npu} +(\| )?{CHIPS[chip].name} +\| OK ", told.stdout, re.MULTILINE)
    assert re.search(rf" {device.idle_used_mb} */ {device.total_mb} ", told.stdout)
    assert re.search(rf"Version: {re.escape(CHIPS[chip].driver)} ", told.stdout)
    assert len(re.findall(r" OK ", told.stdout)) == len(host.devices)


@pytest.mark.parametrize(
    ("chip", "versions"),
    [
        ("310P3", {"22.0.2": (98, False), "22.0.4": (106, False), "24.1.rc1": (106, True), "25.3.rc1": (106, True)}),
        ("910A", {"21.0.2": (93, False), "23.0.2": (93, False), "24.1.0": (98, True)}),
        ("910B3", {"23.0.rc2": (98, True), "25.5.1": (98, True), "26.0.rc1": (116, True), "26.1": (116, True)}),
        ("Ascend910", {"24.1.rc3.7": (98, True), "26.0": (116, True)}),
        ("Ascend950PR", {"25.6.rc1.b218": (116, True), "25.7.rc1": (99, True)}),
    ],
)
def test_the_version_of_the_driver_decides_the_layout(
    start: Start, chip: str, versions: dict[str, tuple[int, bool]]
) -> None:
    host = start(chip)
    for version, (width, processes) in versions.items():
        host.set_state(driver_version=version, tool_version="25.0.rc1.2")
        lines = npu_smi(host, "info").stdout.splitlines()
        assert f"npu-smi 25.0.rc1.2 {'':>9}" in lines[1]
        assert f"Version: {version} " in lines[1]
        assert (len(lines[0]), any("Process id" in line for line in lines)) == (width, processes), version
        assert any("in container" in line for line in lines) == (width == 116)


def test_ids_of_duo_cards_are_neither_dense_nor_small(start: Start) -> None:
    host = start("310P3 Duo", npus=3)
    assert [(d.npu, d.chip, d.logic) for d in host.devices] == [
        (0, 0, 0), (0, 1, 1), (96, 0, 2), (96, 1, 3), (32768, 0, 4), (32768, 1, 5)
    ]  # fmt: skip
    text = npu_smi(host, "info").stdout
    assert re.search(r"^\| 32768 .*\n\| 1 +5 +\|", text, re.MULTILINE)


def test_the_mapping_has_three_forms(start: Start) -> None:
    assert columns(npu_smi(start("310P3 Duo"), "info -m").stdout) == [
        ["NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"],
        ["0", "0", "0", "Ascend 310P3"],
        ["0", "1", "1", "Ascend 310P3"],
        ["0", "2", "-", "Mcu"],
        ["96", "0", "2", "Ascend 310P3"],
        ["96", "1", "3", "Ascend 310P3"],
        ["96", "2", "-", "Mcu"],
    ]
    assert columns(npu_smi(start("Ascend910"), "info -m").stdout)[3:6] == [
        ["0", "2", "-", "-", "Mcu"],
        ["1", "0", "2", "2", "Ascend910"],
        ["1", "1", "3", "3", "Ascend910"],
    ]
    a5 = start("Ascend950PR", devices={0: {"lost": "orphan"}})
    assert columns(npu_smi(a5, "info -m").stdout) == [
        ["NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"],
        ["-1", "0", "0", "0", "Ascend950PR"],
        ["1", "0", "0", "1", "Ascend950PR"],
    ]


def test_the_list(start: Start) -> None:
    said = keys(npu_smi(start("310P3 Duo"), "info -l").stdout)
    assert said[0] == ("Total Count", "2")
    assert [pair for pair in said if pair[0] in ("NPU ID", "Chip Count")] == [
        ("NPU ID", "0"), ("Chip Count", "2"), ("NPU ID", "96"), ("Chip Count", "2")
    ]  # fmt: skip
    assert ("Product Name", "Atlas 300I Duo") in said
    assert keys(npu_smi(start("310"), "info -l").stdout)[0] == ("Card Count", "2")


def test_usages_come_before_the_chip_that_they_are_of(start: Start) -> None:
    host = start("Ascend910", devices={3: {"used_mb": 32768, "util": 41}})
    said = keys(npu_smi(host, "info -t usages -i 1").stdout)
    assert said[:2] == [("NPU ID", "1"), ("Chip Count", "2")]
    first, second = (at for at, (key, _) in enumerate(said) if key == "Chip ID")
    assert (said[first], said[second]) == (("Chip ID", "0"), ("Chip ID", "1"))
    assert dict(said[:first])["Aicore Usage Rate(%)"] == "0"
    assert (dict(said[first:])["Aicore Usage Rate(%)"], dict(said[first:])["HBM Usage Rate(%)"]) == ("41", "50")
    one = keys(npu_smi(host, "info -t usages -i 1 -c 1").stdout)
    assert (one[-1], dict(one)["HBM Usage Rate(%)"]) == (("Chip ID", "1"), "50")


def test_usages_of_the_generations(start: Start) -> None:
    a1, p310 = (
        dict(keys(npu_smi(start(c, npus=1), f"info -t usages -i {n}").stdout)) for c, n in (("910A", 0), ("310P3", 8))
    )
    assert (a1["DDR Capacity(MB)"], a1["HBM Capacity(MB)"], a1["HBM Usage Rate(%)"]) == ("15170", "32768", "0")
    assert (p310["DDR Capacity(MB)"], p310["DDR Usage Rate(%)"]) == ("21527", "8")
    assert not any(key.startswith("HBM") for key in p310)
    a5 = start("Ascend950PR")
    said = npu_smi(a5, "info -t usages -i 1").stdout
    assert "NPU Utilization(%)" in said
    assert "Chip" not in said
    assert npu_smi(a5, "info -t usages -i 1 -c 0").returncode != 0


def test_a_dead_slot_says_so_after_its_id(start: Start) -> None:
    host = start(devices={1: {"lost": "row"}})
    for npu in (1, 40):
        told = npu_smi(host, f"info -t usages -i {npu}")
        assert told.returncode != 0
        assert [line.strip() for line in told.stdout.splitlines()[1:]] == [
            "Failed to query npu chip: 0 info.",
            'Failed to query "usages" info.',
        ]


def test_processes_of_one_npu(start: Start) -> None:
    jobs = [
        {"logic": 0, "pid": 731, "name": "sglang::scheduler_TP0", "mb": 177},
        {"logic": 0, "pid": 9, "name": "", "mb": 5},
    ]
    host = start(processes=jobs)
    assert npu_smi(host, "info -t proc-mem -i 0").stdout == (
        "\tNPU ID                         : 0\n"
        "\tGet pid name failed.\n"
        "\tProcess id:9       Process name:                  Process memory(MB):5\n"
        "\tProcess id:731     Process name:sglangscheduler   Process memory(MB):177\n"
        "\tChip ID                        : 0\n"
    )
    assert "No process in device.\n\tChip ID" in npu_smi(host, "info -t proc-mem -i 1 -c 0").stdout
    assert npu_smi(start("Ascend950DT"), "info -t proc-mem -i 1").stdout == (
        "\tNPU ID                         : 1\n\tNo process in device.\n"
    )


def test_the_driver_tells_32_processes_of_a_chip_and_the_table_shows_8(start: Start) -> None:
    host = start(processes=[{"logic": 1, "pid": 100 + n, "name": "w", "mb": 3} for n in range(40)])
    assert len(re.findall("Process id:", npu_smi(host, "info -t proc-mem -i 1").stdout)) == 32
    text = npu_smi(host, "info").stdout
    assert len(re.findall(r"\| w  ", text)) == 8
    assert f" {host.devices[1].idle_used_mb + 120} / " in text


def test_health_has_two_keys(start: Start) -> None:
    host = start(devices={1: {"health": "Alarm"}})
    assert ("Health", "Alarm") in keys(npu_smi(host, "info -t health -i 1").stdout)
    assert keys(npu_smi(host, "info -t health -i 1 -c 0").stdout)[0] == ("Health Status", "Alarm")


def test_other_commands_are_refused(start: Start) -> None:
    host = start()
    for arguments in ("", "info -x", "info -t usages", "info -t board -i 0", "set -t reset -i 0", "info -i 0 -t"):
        assert npu_smi(host, arguments).returncode != 0


@pytest.mark.parametrize(
    ("fails", "status"), [((-8005,), 187), ((-8020,), 172), ((-9005,), 211), ((-8005, -9005), 211)]
)
def test_its_own_failures_go_to_stdout(start: Start, fails: tuple[int, ...], status: int) -> None:
    host = start(npu_smi_fails=fails, npu_smi_before="DrvMngGetConsoleLogLevel failed. (ret=4)\n")
    told = npu_smi(host, "info")
    assert (told.returncode, told.stderr) == (status, "")
    noise, *said = told.stdout.splitlines()
    assert noise == "DrvMngGetConsoleLogLevel failed. (ret=4)"
    assert [line.rpartition(" ")[2] for line in said] == [str(code) for code in fails]


def test_a_missing_library_is_the_loaders_error(start: Start) -> None:
    told = npu_smi(start(npu_smi_library=False), "info")
    assert (told.returncode, told.stdout) == (127, "")
    assert "libdrvdsmi_host.so: cannot open shared object file" in told.stderr


def test_text_in_place_of_a_single_command(start: Start) -> None:
    host = start(npu_smi_text={"info": "a table of tomorrow\n"}, npu_smi_status=3)
    assert (npu_smi(host, "info").stdout, npu_smi(host, "info").returncode) == ("a table of tomorrow\n", 3)
    assert npu_smi(host, "info -l").returncode == 0


def test_a_warning_after_the_table(start: Start) -> None:
    said = "[WARNING]The driver package may not be completely installed\n"
    plain, warned = npu_smi(start(), "info").stdout, npu_smi(start(npu_smi_after=said), "info").stdout
    assert warned == plain + said


def test_it_can_hang_in_the_middle_of_its_table_deaf_to_polite_signals(start: Start) -> None:
    host = start(npu_smi_hangs=8)
    with subprocess.Popen([host.root / "bin" / "npu-smi", "info"], stdout=subprocess.PIPE, text=True) as hung:
        assert hung.stdout is not None
        lines = [hung.stdout.readline() for _ in range(8)]
        hung.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        assert hung.poll() is None
        hung.kill()
        assert hung.stdout.read() == ""
    assert "".join(lines) == "".join(npu_smi(start(), "info").stdout.splitlines(True)[:8])


def test_devices_vanish_in_three_ways_while_the_host_runs(start: Start) -> None:
    host = start("Ascend950PR", npus=3)
    whole = npu_smi(host, "info").stdout.splitlines()
    (name,) = (line for line in whole if line.startswith("| 1 ") and "950PR" in line)
    host.set_state(devices={1: {"lost": "orphan"}})
    orphan = npu_smi(host, "info").stdout.splitlines()
    assert name not in orphan
    assert whole[whole.index(name) + 1] in orphan
    host.set_state(devices={1: {"lost": "row"}})
    assert whole[whole.index(name) + 1] not in npu_smi(host, "info").stdout.splitlines()
    host.set_state(devices={1: {"lost": "heartbeat"}})
    dead = npu_smi(host, "info").stdout.splitlines()
    (at,) = (at for at, line in enumerate(dead) if line.startswith("| 1 "))
    assert re.search(r"\| OK +\| 0\.0 +0 ", dead[at])
    assert re.search(r"\| 0 +0 +/ 0 +0 +/ 0 +\|", dead[at + 1])
    host.set_state(devices={})
    assert npu_smi(host, "info").stdout.splitlines() == whole
