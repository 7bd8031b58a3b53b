"""Hosts that cannot do the job: told before anything is uploaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from harness import LLAMA, Tool, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]
# What npu-smi prints when it cannot talk to the driver; some releases exit with 0.
REFUSED = {"npu_smi_text": "dcmi module initialize failed. ret is -8005\n", "npu_smi_status": 0}


# --- the host's environment -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knobs", "message", "remedy"),
    [
        ({"python3": "missing"}, "no python3", "python"),
        ({"python3": "old"}, r"3\.6\.8", r"3\.8 or newer"),
        ({"runtime": None}, "has no torch and torch_npu", "python"),
        ({"msprof": False}, "msprof is not on PATH", "setup"),
        ({"cann": ()}, "msprof is not on PATH.*no set_env.sh was found in /usr/local/Ascend, ~/Ascend", "setup"),
        ({"msprof_py": False}, "msprof has no msprof.py", "whole toolkit"),
        ({"npu_smi": "nowhere"}, "npu-smi is not on PATH", "driver"),
        (
            {"npu_smi_text": "dcmi module initialize failed. ret is -8005\n", "npu_smi_status": 187},
            "-8005",
            "HwHiAiUser",
        ),
        ({"npu_smi_before": "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n", **REFUSED}, "-8005", "HwHiAiUser"),
        ({"npu_smi_text": "something else entirely\n"}, "something else entirely", "npu-smi info"),
    ],
    ids=[
        "no-python",
        "old-python",
        "no-torch_npu",
        "no-msprof",
        "no-cann",
        "no-msprof.py",
        "no-npu-smi",
        "npu-smi-8005",
        "npu-smi-8005-that-exits-0",
        "unknown-table",
    ],
)
def test_an_unfit_host(
    host: Start, tool: Tool, assert_clean: Clean, knobs: dict[str, Any], message: str, remedy: str
) -> None:
    ascend = host(**knobs)
    tool.inventory(ascend)
    one_error(tool.collect(), 5, message=message, remedy=remedy)
    assert not (ascend.workdir / "agent").exists(), "nothing was uploaded"
    assert_clean(ascend)


def test_setup_that_is_not_there(host: Start, tool: Tool) -> None:
    tool.inventory(host(), entries={"ascend01": {"setup": ["/opt/nowhere/set_env.sh"]}})
    one_error(tool.collect(), 5, message="/opt/nowhere/set_env.sh", remedy="path")


def test_a_setup_script_that_ends_the_shell(host: Start, tool: Tool) -> None:
    ascend = host()
    (ascend.home / "my_env.sh").write_text("exit 3\n")
    tool.inventory(ascend, entries={"ascend01": {"setup": ["~/my_env.sh"]}})
    one_error(tool.collect(), 5, message=f"{ascend.home}/my_env.sh ended the shell", remedy="must not call exit")


def test_paths_on_the_host_may_begin_at_home(host: Start, tool: Tool) -> None:
    ascend = host()
    (ascend.home / "python").write_text('#!/bin/sh\nexec python3 "$@"\n')
    (ascend.home / "python").chmod(0o755)
    setup = ["~/Ascend/ascend-toolkit/set_env.sh"]
    tool.inventory(ascend, entries={"ascend01": {"setup": setup, "python": "~/python"}})
    outcome = tool.collect("--dry-run")
    assert outcome.status == 0, outcome.err
    facts = outcome.document["facts"]
    assert facts["python"] == f"{ascend.home}/python"
    assert facts["setup"] == [f"{ascend.home}/Ascend/ascend-toolkit/set_env.sh"]


@pytest.mark.parametrize(
    ("said", "status", "message", "remedy"),
    [
        ("bash: cannot create temp file for here-document: No space left on device", 8, "a disk of the host", "/tmp"),
        ("ImportError: libz.so.1: cannot open shared object file", 5, "survey failed .*libz.so.1", "python"),
    ],
    ids=["full", "broken"],
)
def test_a_survey_that_breaks_off(host: Start, tool: Tool, said: str, status: int, message: str, remedy: str) -> None:
    ascend = host()
    (ascend.home / "python").write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] && echo Python 3.11.4 && exit\necho '{said}' >&2; exit 1\n"
    )
    (ascend.home / "python").chmod(0o755)
    tool.inventory(ascend, entries={"ascend01": {"python": "~/python"}})
    one_error(tool.collect(), status, message=message, remedy=remedy)


def test_a_login_script_that_prints_our_output(host: Start, tool: Tool) -> None:
    ascend = host(login_noise="::collect-remote:: facts of life\n::collect-remote:: other words\n")
    tool.inventory(ascend)
    outcome = tool.collect("--dry-run")
    assert outcome.status == 0, outcome.err


def test_a_damaged_agent_is_sent_again(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend)
    (ascend.workdir / "agent").mkdir()
    name = tool.collect("--dry-run").document["agent"]["name"]
    (ascend.workdir / "agent" / name).write_bytes(b"")
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err
    assert tool.collect("--dry-run").document["agent"] == {"name": name, "upload": False}


def test_a_workdir_that_the_profiler_would_reject(host: Start, tool: Tool) -> None:
    ascend = host()
    tool.inventory(ascend, entries={"ascend01": {"workdir": str(ascend.workdir / "bs=8@v1")}})
    one_error(tool.collect(), 5, message="rejects paths like .*bs=8@v1", remedy="workdir")


def test_no_free_npu_gives_every_reason(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host(
        npus=2, processes=[{"logic": 0, "pid": 4711, "name": "python", "mb": 4184}], devices={1: {"used_mb": 30000}}
    )
    tool.inventory(ascend)
    one_error(tool.collect(), 4, message="NPU 0.*pid 4711 python.*NPU 1.*no visible process", remedy="wait")
    assert_clean(ascend)


def test_the_device_asked_for_is_busy(host: Start, tool: Tool) -> None:
    tool.inventory(host(processes=[{"logic": 3, "pid": 4711, "name": "python", "mb": 4184}]))
    one_error(tool.collect("--device", "3"), 4, message="NPU 3.*pid 4711", remedy="free at the moment")


def test_a_device_that_does_not_exist(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    one_error(tool.collect("--device", "16"), 2, message="16", remedy="NPU 7")


@pytest.mark.parametrize("used", [2859, 3418])
def test_what_firmware_takes_on_an_idle_card_is_no_use(host: Start, tool: Tool, used: int) -> None:
    total = 32768 if used == 2859 else 65536
    tool.inventory(host(devices={logic: {"used_mb": used, "total_mb": total} for logic in range(8)}))
    outcome = tool.collect("--dry-run")
    assert outcome.status == 0, outcome.err


def test_more_than_that_is_refused_with_the_figures_and_the_option(host: Start, tool: Tool) -> None:
    tool.inventory(host(npus=2, devices={0: {"used_mb": 9000}, 1: {"used_mb": 9000}}))
    one_error(tool.collect(), 4, message=r"9\.0 GB used and no visible process", remedy="--max-used")
    assert tool.collect("--dry-run", "--max-used", "10GB").status == 0


def test_ids_in_any_order_become_ascending(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    outcome = tool.collect("--device", "logic:5,logic:2", "--dry-run")
    assert [device["logic"] for device in outcome.document["devices"]] == [2, 5], outcome.err
    twice = tool.collect("--device", "logic:5,logic:2,logic:5")
    one_error(twice, 2, message="logic:5, logic:2, logic:5 name a device twice", remedy="NPU 5")


def test_a_model_that_asks_for_its_device_by_the_hosts_number(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    (tool.directory / "mine.py").write_text(
        "import torch\ndef load(d, o): return torch.ones(4).to('npu:5')\ndef forward(s): return s + s\n"
    )
    tool.inventory(ascend, models={"mine": {"adapter": "./mine.py"}})
    one_error(tool.collect("--device", "5", model="mine"), 6, message="[Ii]nvalid device", remedy="npu:0")
    assert_clean(ascend)


@pytest.mark.parametrize("code", ["507033", "507899"])
def test_a_device_that_does_not_open(host: Start, tool: Tool, assert_clean: Clean, code: str) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": f"device_fails={code}"})
    tool.inventory(ascend)
    message = f"device does not open: .*{code}.*EL0003: .*open device 0 failed, runtime result = {code}"
    one_error(tool.collect(), 5, message=message, remedy="CANN's own log")
    assert_clean(ascend)


def test_a_strict_profiler_gets_plain_paths_alone(host: Start, tool: Tool) -> None:
    ascend = host(env={"SIMHOST_LIGHT_FAULTS": "strict_paths"})
    tool.inventory(ascend, models={"qwen-2.5_1m": LLAMA["llama"]})
    outcome = tool.collect(model="qwen-2.5_1m")
    assert outcome.status == 0, outcome.err
    tool.inventory(ascend, models={"qwen@v1 bs=8": LLAMA["llama"]})
    one_error(tool.collect(model="qwen@v1 bs=8"), 2, message="cannot be the name of a model", remedy="letters, digits")


def test_a_work_directory_behind_a_link_is_used_by_its_real_path(host: Start, tool: Tool) -> None:
    ascend = host(workdir_link=True, env={"SIMHOST_LIGHT_FAULTS": "strict_paths"})
    tool.inventory(ascend)
    outcome = tool.collect("--dry-run")
    assert outcome.document["facts"]["workdir"] == str(ascend.workdir.resolve())
    assert tool.collect().status == 0


@pytest.mark.parametrize("umask", [0o002, 0o000])
def test_the_parser_may_be_strict_about_modes(host: Start, tool: Tool, umask: int) -> None:
    tool.inventory(host(umask=umask, env={"SIMHOST_LIGHT_FAULTS": "strict_modes"}))
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err


def test_npu_smi_outside_the_path_is_found(host: Start, tool: Tool) -> None:
    if os.getuid() != 0:
        pytest.skip("a /usr/local of the host's own needs root")
    tool.inventory(host(npu_smi="outside"))
    assert tool.collect("--dry-run").status == 0
