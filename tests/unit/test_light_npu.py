"""The light runtime's devices: visibility, holders, memory, and the import itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from test_light import Host

from pythons import others

IMPORT = "import torch, torch_npu\n"
FRESH = """
import time, torch, torch_npu
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.SiLU(), torch.nn.LayerNorm(128)).npu()
def step():
    model(torch.ones(8, 64, device="npu:0"))
    torch.npu.synchronize()
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def eight(host: Host) -> Host:
    host.devices(*(f"{i} {i} 0 65536 {3300 + i} Ascend910B2" for i in range(8)))
    return host


def test_without_set_env_torch_cannot_be_imported(host: Host) -> None:
    run = host.run("import torch", prelude="", ASCEND_HOME_PATH=None)
    assert run.code == 1
    assert "ImportError: libhccl.so: cannot open shared object file: No such file or directory" in run.err
    # The real torch wraps what the backend says.
    assert run.err.splitlines()[-1].startswith("RuntimeError: Failed to load the backend extension: torch_npu.")
    alone = {"ASCEND_HOME_PATH": None, "TORCH_DEVICE_BACKEND_AUTOLOAD": 0}
    host.run("import torch", prelude="", **alone).ok()
    assert host.run("import torch_npu", prelude="", **alone).err.splitlines()[-1].startswith("ImportError: libhccl.so")


@pytest.mark.parametrize(
    ("visible", "count"),
    [
        (None, 8),
        ("2,3", 2),
        ("7", 1),
        ("1, 2,3", 1),  # reading stops at the blank
        ("0,1,9,2", 2),  # and at an id that does not exist
        ("3x,4", 1),
        ("2,1", 0),  # not ascending: nothing is available
        ("1,1", 0),
        ("", 0),
        ("x", 0),
    ],
)
def test_visible_devices_are_read_as_cann_reads_them(eight: Host, visible: str | None, count: int) -> None:
    code = IMPORT + "print(torch.npu.device_count(), torch.npu.is_available())"
    run = eight.run(code, prelude="", SIMHOST=eight.driver, ASCEND_RT_VISIBLE_DEVICES=visible).ok()
    assert run.out == f"{count} {count > 0}\n"


def test_ids_start_at_0_among_the_visible(eight: Host) -> None:
    run = eight.run(
        IMPORT + "print(torch.npu.mem_get_info(1)[1] >> 20); torch.npu.set_device(2)",
        prelude="",
        SIMHOST=eight.driver,
        ASCEND_RT_VISIBLE_DEVICES="4,6",
    )
    assert run.out == "65536\n"
    assert "error code is 107001" in run.err
    assert "Invalid device ID." in run.err


def test_a_process_holds_what_it_uses_as_long_as_it_lives(eight: Host) -> None:
    code = (
        IMPORT
        + """
import os
path = os.path.join(os.environ["SIMHOST"], "holders", str(os.getpid()))
read = lambda: open(path).read().split()
assert not os.path.exists(path)
torch.npu.set_device("npu:1")
before = read()
assert torch.npu.device_count() == 2
x = torch.empty(1 << 30, dtype=torch.bfloat16, device="npu:1")
after = read()
print(before[0], int(after[1]) - int(before[1]), torch.npu.memory_allocated() >> 20)
free, total = torch.npu.mem_get_info()
print((total - free >> 20) - int(after[1]))
del x
torch.npu.empty_cache()
assert read() == before
"""
    )
    run = eight.run(code, prelude="", SIMHOST=eight.driver, ASCEND_RT_VISIBLE_DEVICES="3,5").ok()
    # Logic id 5; 2 GiB more than an empty context; the rest of what is in use is the idle device's own.
    assert run.out == "5 2048 2048\n3305\n"
    assert list((eight.driver / "holders").iterdir()) == []


def test_memory_of_others_is_taken_and_runs_out(eight: Host) -> None:
    sleeper = subprocess.Popen(["/bin/sleep", "60"])
    try:
        folder = eight.driver / "holders"
        folder.mkdir()
        (folder / str(sleeper.pid)).write_text("0 60000\n")
        (folder / "999999999").write_text("0 9000\n")  # a process that is gone holds nothing
        code = (
            IMPORT + "print(torch.npu.mem_get_info()[0] >> 20); torch.empty(1 << 33, dtype=torch.uint8, device='npu')"
        )
        run = eight.run(code, prelude="", SIMHOST=eight.driver)
    finally:
        sleeper.kill()
        sleeper.wait()
    assert run.code == 1
    assert 0 < int(run.out) < 65536 - 60000 - 3300
    assert (
        "OutOfMemoryError: NPU out of memory. Tried to allocate 8.00 GiB (NPU 0; 64.00 GiB total capacity;" in run.err
    )


def test_a_device_that_does_not_start(eight: Host) -> None:
    run = eight.run(IMPORT + "torch.npu.set_device(0)", prelude="", SIMHOST_LIGHT_FAULTS="device_fails=507033")
    assert "error code is 507033" in run.err
    assert "open device 0 failed, runtime result = 507033." in run.err


def test_forked_children_may_not_use_the_device(host: Host) -> None:
    run = host.run("""
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=step)
child.start(); child.join()
print(child.exitcode)
""").ok()
    assert run.out == "1\n"
    assert "Cannot re-initialize NPU in forked subprocess." in run.err


def test_launches_return_at_once_and_reads_wait(host: Host) -> None:
    run = host.run("""
big = torch.empty(4096, 4096, dtype=torch.float16, device="npu:0")
a, b = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
torch.npu.synchronize()
begin = time.perf_counter()
a.record()
for _ in range(100):
    big @ big
b.record()
launched = time.perf_counter() - begin
torch.npu.synchronize()
print(a.elapsed_time(b) / 1000 > 0.04, time.perf_counter() - begin > 0.04, launched < 0.03)
""").ok()
    assert run.out == "True True True\n"


def test_the_first_calls_of_operators_cost_more(host: Host) -> None:
    run = host.run(
        """
def timed():
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin
print(timed(), min(timed() for _ in range(5)))
""",
        prelude=FRESH,
    ).ok()
    first, later = map(float, run.out.split())
    assert first > later + 0.005


def test_compiling_again_shows_in_dynamos_counters(host: Host) -> None:
    run = host.run("""
from torch._dynamo.utils import counters
fast = torch.compile(model)
for rows in (4, 4, 4, 5):
    fast(torch.ones(rows, 64, device="npu:0"))
    print(counters["stats"]["unique_graphs"], end=" ")
""").ok()
    assert run.out == "1 1 1 2 "


@pytest.mark.parametrize("python", others().values(), ids=others().keys())
def test_every_supported_python_writes_a_profile(host: Host, python: str) -> None:
    host.run("collect(3, P.schedule(wait=0, warmup=1, active=2, repeat=1))", python=python).ok()
    assert host.profile().kernel_steps() == ["1", "2"]
