"""From what the user asks to what the host will be told: all of it without a host."""

from __future__ import annotations

import gc
import json
import time
from pathlib import Path
from typing import Any

import pytest

from collect_remote.cli.main import main
from collect_remote.errors import UsageError
from collect_remote.inventory import Host, ModelSpec, load
from collect_remote.parallel import in_background
from collect_remote.request import Request, adapter_source, default_steps, kinds, window
from collect_remote.routes import template

FORWARD = "def load(device, options): ...\ndef forward(state): ...\n"
SPLIT = "def load(device, options): ...\ndef prefill(state): ...\ndef decode(state): ...\n"


def model(adapter: str, **options: Any) -> ModelSpec:
    return ModelSpec(name="m", adapter=adapter, route=None, options=options)


def own(tmp_path: Path, text: str) -> ModelSpec:
    path = tmp_path / "mine.py"
    path.write_text(text)
    return model(str(path))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    path = tmp_path / "inventory.yaml"
    path.write_text("all: {hosts: {h: {env: {TASK_QUEUE_ENABLE: 2}}}, vars: {models: {m: {adapter: llama}}}}\n")
    return load(path).host("h")


def ask(**options: Any) -> Request:
    return Request(host="h", model="m", **options)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--devices", "0"], "--devices 0"),
        (["--devices", "-3"], "--devices -3"),
        (["--wait", "49h"], "'49h' is too long: at most 48h"),
        (["--timeout", "2881m"], "'2881m' is too long: at most 48h"),
        (["--device", ",".join(str(n) for n in range(17))], "17 devices are named, and at most 16"),
    ],
)
def test_what_no_host_could_do_is_refused_without_asking_one(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--host", "h", "--model", "m", "--inventory", "/nowhere", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_as_many_names_and_hours_as_allowed_are_fine(capsys: pytest.CaptureFixture[str]) -> None:
    names = ",".join(str(n) for n in range(16))
    limits = ["--device", names, "--wait", "48h", "--timeout", "48h"]
    assert main(["--host", "h", "--model", "m", "--inventory", "/nowhere", *limits]) == 2
    assert "/nowhere" in capsys.readouterr().err


def test_the_default_phase_suits_the_model(tmp_path: Path) -> None:
    assert window(ask(), model("llama")).step_counts == {"both": 11}
    assert window(ask(), model("diffusers")).step_counts == {"forward": 5}
    assert window(ask(), own(tmp_path, FORWARD)).step_counts == {"forward": 5}
    assert window(ask(), own(tmp_path, SPLIT)).step_counts == {"both": 11}


def test_a_model_with_prefill_alone_is_profiled_as_that(tmp_path: Path) -> None:
    only = own(tmp_path, "def load(d, o): ...\ndef prefill(s): ...\n")
    assert window(ask(), only).step_counts == {"prefill": 1}
    with pytest.raises(UsageError, match="no decode, which --phase both needs"):
        window(ask(phase="both"), only)


@pytest.mark.parametrize("phase", ["prefill", "decode", "both", "separate", "forward"])
def test_the_defaults_are_never_too_few(phase: str) -> None:
    spec = model("diffusers" if phase == "forward" else "llama")
    assert window(ask(phase=phase), spec).steps == default_steps(phase)


def test_functions_may_come_from_an_import_or_a_name(tmp_path: Path) -> None:
    text = "from elsewhere import load, run as forward\ndecode = prefill = None\n"
    assert kinds(own(tmp_path, text)) == {"forward", "prefill", "decode"}


def test_functions_may_stand_under_conditions(tmp_path: Path) -> None:
    text = """
import sys
if sys.version_info >= (3, 10):
    def load(device, options): ...
else:
    def load(device, options, more=1): ...
try:
    from fast import forward
except ImportError:
    prefill: object = print
    decode: object
"""
    assert kinds(own(tmp_path, text)) == {"forward", "prefill"}


@pytest.mark.parametrize(
    "head", [b"\xef\xbb\xbf", b"# -*- coding: latin-1 -*-\n# gr\xfcn\n"], ids=["byte-order-mark", "pep-263"]
)
def test_an_adapter_is_decoded_as_python_does(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(head + FORWARD.encode())
    assert kinds(model(str(path))) == {"forward"}
    compile(adapter_source(path).encode("utf-8"), "adapter.py", "exec")


@pytest.mark.parametrize("name", ["3", "3.1", "logic:7"])
def test_a_device_is_written_in_three_ways(name: str) -> None:
    assert ask(devices=(name,)).wish.devices == (name,)


@pytest.mark.parametrize("name", ["", "npu3", "3.", "logic:3.1", "-1", "3 4"])
def test_a_device_that_is_none_is_refused_without_a_host(name: str) -> None:
    with pytest.raises(UsageError, match="does not name a device"):
        ask(devices=(name,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def forward(state): ...\n", "defines no load"),
        ("def load(d, o): ...\n", "none of prefill, decode, forward"),
        ("def load(d, o) ...\n", "line 1"),
        ("\udcff", "cannot read the adapter"),
    ],
)
def test_a_broken_adapter_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.py"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=message):
        window(ask(), model(str(path)))


def test_the_plan_says_what_the_validation_will_expect() -> None:
    asked = ask(phase="separate", steps=8, level=2, export="db")
    plan = template.plan(asked, window(asked, model("llama")), model("llama", layers=1))
    assert plan.expected == {
        "level": "Level2",
        "aic_metrics": "PipeUtilization",
        "export": ["db"],
        "steps": {"prefill": 1, "decode": 8},
        "ranks": [0],
    }
    told = json.loads(plan.files["request.json"])
    assert (told["adapter"], told["options"]) == ("llama", {"layers": 1})
    assert told["request"]["phase"] == "separate"
    assert plan.env == {}, "the environment is captured on the host"


def test_level_0_expects_no_metrics() -> None:
    asked = ask(level=0)
    assert template.plan(asked, window(asked, model("llama")), model("llama")).expected["aic_metrics"] == "AiCoreNone"


def test_a_users_file_travels_with_the_plan(tmp_path: Path) -> None:
    mine = own(tmp_path, FORWARD)
    plan = template.plan(ask(), window(ask(), mine), mine)
    assert plan.files["adapter.py"] == FORWARD
    assert json.loads(plan.files["request.json"])["adapter"] == "adapter.py"


@pytest.mark.parametrize("asked", [{"device_count": 3}, {"devices": ("0", "1", "2")}])
def test_several_devices_are_a_rank_each(asked: dict[str, Any]) -> None:
    request, llama = ask(**asked), model("llama")
    plan = template.plan(request, window(request, llama), llama)
    assert plan.expected["ranks"] == [0, 1, 2]
    assert plan.argv[:3] == ("{python}", "-m", "torch.distributed.run")
    assert "--nproc-per-node=3" in plan.argv
    assert "--master-port={port}" in plan.argv
    assert plan.argv[-3:] == ("{agent}", "work", "{run}")


def test_one_device_is_one_process() -> None:
    plan = template.plan(ask(), window(ask(), model("llama")), model("llama"))
    assert plan.argv == ("{python}", "{agent}", "work", "{run}")
    assert plan.expected["ranks"] == [0]


def test_adapters_are_read_in_many_threads(tmp_path: Path) -> None:
    """Sweeps do; Python 3.11 itself cannot parse in several at once, when the garbage collector lets another in."""
    file = tmp_path / "deep.py"
    file.write_text(
        "def load(device, options): ...\nforward = load\n" + ("x = " + "[" * 30 + "1" + "]" * 30 + "\n") * 50
    )
    model, thresholds = ModelSpec("deep", str(file), None, {}), gc.get_threshold()

    def lets_another_in(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    gc.callbacks.append(lets_another_in)
    gc.set_threshold(20, 1000, 1000)
    try:
        asked = [in_background(lambda: kinds(model)) for _ in range(8)]
        assert [answer.result() for answer in asked] == [{"forward"}] * 8
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(lets_another_in)
