"""Everything that can be wrong: one clear error, its exit code, and nothing left anywhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import profiles
from harness import LLAMA, Tool, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]


# --- the command line and the inventory -------------------------------------------------------------------------------


def test_unknown_host(tool: Tool, assert_clean: Clean) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1"}})
    one_error(tool.collect(host="ascnd01"), 2, message="ascnd01", remedy="ascend01")
    assert_clean()


def test_unknown_model(tool: Tool, assert_clean: Clean) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1"}})
    one_error(tool.collect(model="lama"), 2, message="lama", remedy="llama")
    assert_clean()


def test_no_inventory(tool: Tool) -> None:
    one_error(tool.collect(), 2, message=r"inventory\.yaml", remedy=".")


def test_broken_yaml_names_line_and_column(tool: Tool) -> None:
    (tool.directory / "inventory.yaml").write_text("all:\n  hosts:\n    ascend01: {address: [}\n")
    one_error(tool.collect(), 2, message=r"inventory\.yaml:3:\d+", remedy=".")


def test_an_unknown_key_comes_with_a_suggestion(tool: Tool) -> None:
    tool.inventory(entries={"ascend01": {"adress": "127.0.0.1"}})
    one_error(tool.collect(), 2, message=r"inventory\.yaml:\d+:\d+.*adress", remedy="address")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "3"], "3 steps are too few"),
        (["--steps", "many"], "many"),
        (["--warmup-steps", "0"], "warmup-steps 0"),
        (["--phase", "forward"], "no forward"),
        (["--phase", "train"], "train"),
        (["--level", "7"], "7"),
        (["--aic-metrics", "Pipes"], "Pipes"),
        (["--timeout", "soon"], "soon"),
        (["--no-such-option"], "no-such-option"),
        (["--device", "npu3"], "'npu3' does not name a device"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_options_are_refused_before_connecting(tool: Tool, arguments: list[str], message: str) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}})
    one_error(tool.collect(*arguments), 2, message=message, remedy=".")


def test_an_existing_output_directory_is_never_touched(tool: Tool) -> None:
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}})
    (tool.directory / "old").mkdir()
    (tool.directory / "old" / "precious").write_text("keep")
    one_error(tool.collect("--out", "old"), 2, message="old exists already", remedy="does not exist")
    assert (tool.directory / "old" / "precious").read_text() == "keep"


def test_an_adapter_with_a_syntax_error(tool: Tool) -> None:
    (tool.directory / "mine.py").write_text("def load(device, options)\n    pass\n")
    tool.inventory(entries={"ascend01": {"address": "127.0.0.1", "port": 1}}, models={"mine": {"adapter": "./mine.py"}})
    one_error(tool.collect(model="mine"), 2, message=r"mine\.py.*line 1|mine\.py", remedy="mend")


# --- judging ----------------------------------------------------------------------------------------------------------


def test_validate_what_is_not_there(tool: Tool) -> None:
    one_error(tool("validate", "nowhere", "--json"), 2, message="no nowhere", remedy="profile")


def test_validate_what_is_no_profile(tool: Tool) -> None:
    (tool.directory / "notes.txt").write_text("all is well")
    one_error(tool("validate", "notes.txt", "--json"), 2, message="neither a directory nor", remedy="directory")
    (tool.directory / "empty.tar.gz").touch()
    outcome = tool("validate", "empty.tar.gz", "--json")
    assert (outcome.status, outcome.document["verdict"]) == (7, "invalid")


def test_validate_what_is_sound_and_not_proved(tool: Tool) -> None:
    directory = profiles.write(tool.directory)
    for option, status in (("--json", 7), ("--allow-unproven", 0)):
        assert tool("validate", directory.name, "--json", option).status == status
    (directory / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text("[")
    outcome = tool("validate", directory.name, "--json", "--allow-unproven")
    assert (outcome.status, outcome.document["verdict"]) == (7, "invalid")


def test_validate_a_cut_archive(host: Start, tool: Tool) -> None:
    tool.inventory(host())
    whole = Path(tool.directory / tool.collect().document["archive"]["path"]).read_bytes()
    (tool.directory / "cut.tar.gz").write_bytes(whole[:-20])
    outcome = tool("validate", "cut.tar.gz", "--json")
    assert outcome.status == 7
    assert outcome.document["verdict"] == "invalid"


def test_models_of_one_host_do_not_leak(tool: Tool) -> None:
    tool.inventory(entries={"a": {"models": {"only": LLAMA["llama"]}}, "b": {}})
    one_error(tool.collect(host="b", model="only"), 2, message="only", remedy="llama")
