"""Who uses which device of a simulated host: its runtimes, its containers, and the log that tells of it."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from simhost import SimHost
from simhost.hostside.chips import CHIPS

Start = Callable[..., SimHost]

SET_ENV = ". Ascend/ascend-toolkit/set_env.sh; "
OPEN = "import torch, torch_npu; x = torch.ones(4, device='npu:{}')"


def session(host: SimHost, command: str) -> subprocess.Popen[str]:
    """`command` in a session of `host`, CANN's environment sourced."""
    return subprocess.Popen(
        [host.root / "ssh" / "session"],
        env={"SSH_ORIGINAL_COMMAND": SET_ENV + command},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on(host: SimHost, command: str) -> str:
    """What `command` prints on `host`."""
    with session(host, command) as done:
        out, err = done.communicate(timeout=60)
    assert done.returncode == 0, err
    return out


@contextmanager
def job(host: SimHost, device: int = 0, visible: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process of `host` that has opened a device and waits; it is killed in the end unless it has ended itself."""
    environment = f"export ASCEND_RT_VISIBLE_DEVICES={visible};" if visible else ""
    code = OPEN.format(device) + "; print(1, flush=True); input()"
    with session(host, f'{environment} exec python3 -c "{code}"') as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "1\n"
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str]) -> None:
    process.communicate("\n", timeout=20)
    assert process.returncode == 0


def rows(host: SimHost) -> list[list[str]]:
    """The rows of the process table of `host`: NPU and chip, pid, name, MB."""
    _, _, tail = on(host, "npu-smi info").partition("Process memory(MB)")
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in tail.splitlines() if line.count("|") > 2]


def used(host: SimHost) -> list[int]:
    """MB in use of every device in the table of `host`."""
    head, _, _ = on(host, "npu-smi info").partition("Process id")
    return [int(line.split()[-4]) for line in re.findall(r".*0000:.*", head.replace("/", " / "))]


def asked(host: SimHost, device: int) -> list[str]:
    """What the runtime says: how many devices, and of `device` the name and MB of memory."""
    said = f"n.device_count(), n.get_device_name({device}), n.mem_get_info({device})[1] >> 20"
    return on(host, f'python3 -c "import torch, torch_npu; n = torch.npu; print({said})"').split()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start hosts and containers by name, with asyncssh."""
    with ExitStack() as running:

        def started(name: str = "host", **options: object) -> SimHost:
            return running.enter_context(SimHost(tmp_path / name, name=name, server="asyncssh", **options))

        yield started


def test_a_chip_that_torch_npu_does_not_support(simhost: Start, runtime: str) -> None:
    host = simhost(chip="310", npus=1, runtime=runtime, server="asyncssh")
    with session(host, f'python3 -c "{OPEN.format(0)}"') as process:
        _, err = process.communicate(timeout=60)
    assert (process.returncode, host.uses()) == (1, [])
    assert "RuntimeError: Unsupported soc version: Ascend310" in err


@pytest.mark.parametrize("chip", [chip for chip in CHIPS if chip != "310"])
def test_the_light_runtime_has_the_devices_of_every_other_chip(start: Start, chip: str) -> None:
    host = start(chip=chip, npus=1)
    assert asked(host, 0) == [str(len(host.devices)), CHIPS[chip].soc, str(host.devices[0].total_mb)]


@pytest.mark.torch_npu
def test_the_real_torch_npu_accepts_the_chips_that_it_supports(simhost: Start, ascend_runtime: str) -> None:
    host = simhost(chip="310P3 Duo", npus=1, runtime=ascend_runtime, server="asyncssh")
    assert asked(host, 1) == ["2", "Ascend310P3", str(host.devices[1].total_mb)]


def test_a_log_tells_who_had_which_device_open(simhost: Start, runtime: str) -> None:
    host = simhost(runtime=runtime, server="asyncssh")
    before = time.monotonic()
    with job(host, visible="2,5", device=1) as first, job(host, visible="6") as killed:
        between = time.monotonic()
        killed.kill()
        killed.wait()
        end(first)
    told = {use.pid: use for use in host.uses()}
    assert sorted(told) == sorted([first.pid, killed.pid])
    done, cut = told[first.pid], told[killed.pid]
    assert (done.logic, done.beside, cut.logic, cut.end, cut.beside) == (5, None, 6, None, None)
    assert done.end is not None
    assert before < done.start < between < done.end < time.monotonic()


def test_two_processes_on_one_device_are_seen_by_the_second(start: Start) -> None:
    host = start()
    with job(host, 3) as first:
        with job(host, 3) as second:
            pass
        first.kill()
        first.wait()
        with job(host, 3):
            pass
    assert [(use.beside, use.end) for use in host.uses()] == [(None, None), (first.pid, None), (None, None)]
    assert [use.pid for use in host.uses()][:2] == [first.pid, second.pid]


def test_both_runtimes_see_each_others_locks(simhost: Start, ascend_runtime: str) -> None:
    host = simhost(runtime="light", server="asyncssh")
    other = simhost("container", container_of=host, visible=[4], runtime=ascend_runtime, server="asyncssh")
    with job(host, 4) as first, job(other):
        assert [use.beside for use in host.uses()] == [None, first.pid]


def test_what_a_killed_process_left_is_not_held_by_the_next_one_with_its_pid(start: Start) -> None:
    host = start()
    with job(host, 3) as process:
        left = host.dir / "holders" / str(process.pid)
        assert host.held().keys() == {process.pid}
        os.utime(left, (time.time() - 60, time.time() - 60))  # as if written before this process was born
        assert host.held() == {}


def test_a_container_counts_the_hosts_devices_anew(simhost: Start, runtime: str) -> None:
    host = simhost(runtime=runtime, server="asyncssh")
    inner = simhost("container", container_of=host, visible=[7, 1], runtime=runtime, server="asyncssh")
    table = on(inner, "npu-smi info")
    assert re.findall(r"^\| (\d+) +910B3 ", table, re.MULTILINE) == ["1", "7"]
    logic = [line.split()[:3] for line in on(inner, "npu-smi info -m").splitlines() if "910B3" in line]
    assert logic == [["1", "0", "0"], ["7", "0", "1"]]
    with job(inner, 1) as process:
        assert host.held().keys() == {process.pid}
        assert [use.logic for use in host.uses()] == [7] == [use.logic for use in inner.uses()]
        assert [row[0].split() for row in rows(host)] == [row[0].split() for row in rows(inner)] == [["7", "0"]]


def test_a_container_sees_the_memory_of_all_but_only_its_own_processes(start: Start) -> None:
    host = start(processes=[{"logic": 2, "pid": 4711, "name": "python", "mb": 9000}], devices={5: {"health": "Alarm"}})
    one = start("one", container_of=host, visible=[1, 2, 5])
    two = start("two", container_of=host, visible=[1])
    idle = used(one)
    with job(host, 1) as outer, job(two) as other:
        assert [row[1] for row in rows(host)] == [*map(str, sorted([outer.pid, other.pid])), "4711"]
        assert [row[1] for row in rows(two)] == [str(other.pid)]
        assert rows(one) == []
        assert [now > before for now, before in zip(used(one), idle, strict=True)] == [True, False, False]
        assert used(one) == [used(host)[at] for at in (1, 2, 5)]
    assert "found in NPU 2" in on(one, "npu-smi info")
    assert "| Alarm " in on(one, "npu-smi info")
    assert one.processes() == two.processes() == []


def test_a_job_of_others_can_be_hidden_on_the_host_too(start: Start) -> None:
    idle = start("idle")
    busy = start(processes=[{"logic": 0, "pid": 1, "name": "x", "mb": 777, "hidden": True}])
    assert used(busy)[0] == used(idle)[0] + 777
    assert rows(busy) == []


def test_a_host_shows_the_jobs_of_its_containers_and_containers_hide_them_from_each_other(start: Start) -> None:
    host = start()
    one, two = (start(name, container_of=host, visible=[4]) for name in ("one", "two"))
    idle = used(two)[0]
    one.set_state(processes=[{"logic": 0, "pid": 77, "name": "train", "mb": 4000}])
    assert [row[:2] for row in rows(host)] == [["4       0", "77"]]
    assert rows(two) == []
    assert used(two) == [idle + 4000] == [used(host)[4]]
    one.stop()
    assert used(two) == [idle]


def test_the_runtimes_know_what_npu_smi_knows_of_memory_and_lost_devices(simhost: Start, runtime: str) -> None:
    busy = {"processes": [{"logic": 0, "pid": 1, "name": "x", "mb": 60000}]}
    host = simhost(npus=4, runtime=runtime, server="asyncssh", devices={1: {"lost": "orphan"}}, **busy)
    free = "*(torch.npu.mem_get_info(i)[0] >> 20 for i in (0, 1))"
    told = on(host, f'python3 -c "import torch, torch_npu; print(torch.npu.device_count(), {free})"')
    count, first, second = map(int, told.split())
    assert count == 3
    assert first < 5536 < 60000 < second


def test_npu_smi_in_a_container_can_speak_of_the_hosts_pids(start: Start) -> None:
    host = start(driver_version="26.0")
    inner = start("container", container_of=host, visible=[3], npu_smi_pids="host")
    with job(inner) as process:
        ((place, pid, name, memory, own),) = rows(inner)
        assert place.split() == ["3", "0"]
        assert (name, own) == ("", str(process.pid))
        assert int(pid) != process.pid
        assert int(memory) > 0


def test_numbers_that_a_container_changes_on_other_generations(start: Start) -> None:
    duo = start("duo", chip="310P3 Duo")
    inner = start("of-duo", container_of=duo, visible=[3, 4])
    assert re.findall(r"^\| [01] +(\d+) +\| 0000", on(inner, "npu-smi info"), re.MULTILINE) == ["0", "1"]
    assert re.findall(r"^\| (\d+) +310P3 ", on(inner, "npu-smi info"), re.MULTILINE) == ["96", "32768"]
    a3 = start("a3", chip="Ascend910")
    inner = start("of-a3", container_of=a3, visible=[6, 7])
    assert re.findall(r"^\| [01] +(\d+) +\| 0000", on(inner, "npu-smi info"), re.MULTILINE) == ["6", "7"]
    a5 = start("a5", chip="Ascend950PR")
    inner = start("of-a5", container_of=a5, visible=[3, 4])
    assert re.findall(r"^\| (\d+) +\| Ascend950PR", on(inner, "npu-smi info"), re.MULTILINE) == ["0", "1"]
    mapped = [line.split() for line in on(inner, "npu-smi info -m").splitlines()[1:]]
    assert [(row[0], row[3]) for row in mapped] == [("0", "3"), ("1", "4")]


def test_a_host_has_only_so_many_npus(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at most 4 NPUs of 310"):
        SimHost(tmp_path, chip="310", npus=5)


@pytest.mark.skipif(os.getuid() != 0, reason="mounts need root")
def test_npu_smi_outside_the_path(start: Start) -> None:
    host = start(npu_smi="outside")
    assert on(host, "command -v npu-smi || echo none").strip() == "none"
    assert "910B3" in on(host, "/usr/local/sbin/npu-smi info")
    assert not Path("/usr/local/sbin/npu-smi").exists()
    with job(host, 2) as process:
        assert host.processes() == [process.pid]
    host.set_state(npu_smi="nowhere")
    assert on(host, "command -v npu-smi /usr/local/sbin/npu-smi || echo none").strip() == "none"
