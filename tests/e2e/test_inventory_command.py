"""`collect-remote inventory`: what is said, and where; and what `--hosts` chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness import Tool, one_error
from simhost import SimHost

INVENTORY = """\
all:
  vars:
    user: profiler
    jump: gate
    env: {HF_TOKEN: hf_abc, OMP_NUM_THREADS: 8}
    models:
      llama: {adapter: llama, batch: 1}
      flux: {adapter: diffusers, path: /f}
a2:
  hosts:
    ascend[01:02]: {port: 2222}
a3:
  vars: {models: {llama: {batch: 4}, flux: }}
  hosts: {ascend03: {address: 192.0.2.3, jump: , env: {OMP_NUM_THREADS: }}}
"""


@pytest.fixture
def written(tool: Tool) -> Tool:
    """The tool where that inventory is, and a group_vars beside it."""
    (tool.directory / "inventory.yaml").write_text(INVENTORY)
    (tool.directory / "group_vars" / "a3").mkdir(parents=True)
    (tool.directory / "group_vars" / "a3" / "more.json").write_text('{\n\t"workdir": "/data/a3"\n}\n')
    return tool


def test_every_host_with_its_groups_and_where_it_is(written: Tool) -> None:
    lines = written("inventory").out.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["ascend01", "profiler@ascend01:2222", "a2", "inventory.yaml:11:5"],
        ["ascend02", "profiler@ascend02:2222", "a2", "inventory.yaml:11:5"],
        ["ascend03", "profiler@192.0.2.3", "a3", "inventory.yaml:14:11"],
    ]
    document = written("inventory", "--json").document
    assert document["groups"]["a2"] == ["ascend01", "ascend02"]
    assert document["hosts"][2] == {
        "host": "ascend03",
        "address": "192.0.2.3",
        "port": None,
        "user": "profiler",
        "groups": ["a3"],
        "place": "inventory.yaml:14:11",
    }


def test_every_key_of_a_host_and_where_it_was_said(written: Tool) -> None:
    outcome = written("inventory", "a3", "--json")
    (host,) = outcome.document["hosts"]
    keys = host["keys"]
    assert keys["address"] == {"value": "192.0.2.3", "place": "inventory.yaml:14:22"}
    assert keys["user"] == {"value": "profiler", "place": "inventory.yaml:3:5"}
    assert keys["workdir"] == {"value": "/data/a3", "place": "group_vars/a3/more.json:2:2"}
    assert keys["jump"] == {"value": None, "place": "inventory.yaml:14:42"}
    assert keys["port"] == {"value": None, "place": None}
    assert host["env"] == {
        "HF_TOKEN": {"value": "***", "place": "inventory.yaml:5:11"},
        "OMP_NUM_THREADS": {"value": None, "place": "inventory.yaml:14:56"},
    }
    assert host["models"]["llama"]["value"] == "llama"
    assert host["models"]["flux"] == {"value": None, "place": "inventory.yaml:13:38"}
    text = written("inventory", "ascend03").out
    assert "hf_abc" not in outcome.out + text
    rows = {tuple(line.split()[:2]): line for line in text.splitlines()}
    assert rows["jump", "-"].endswith("taken back in inventory.yaml:14:42")
    assert rows["port", "-"].endswith("(~/.ssh/config, then 22)")


def test_every_option_of_a_model_and_where_it_was_said(written: Tool) -> None:
    hosts = written("inventory", "!ascend02", "--model", "llama", "--json").document["hosts"]
    assert [host["host"] for host in hosts] == ["ascend01", "ascend03"]
    assert hosts[1]["options"] == {
        "adapter": {"value": "llama", "place": "inventory.yaml:7:15"},
        "batch": {"value": 4, "place": "inventory.yaml:13:27"},
    }
    text = written("inventory", "--model", "flux").out
    assert "ascend03  has no model flux" in text
    assert "path     /f         inventory.yaml:8:34" in text
    one_error(written("inventory", "--model", "lama", "--json"), 2, message="no model 'lama'", remedy="'llama'")


def test_mistakes_end_with_one_error(written: Tool) -> None:
    for pattern, message, remedy in (
        ("ascned01", "no host or group 'ascned01'", "did you mean 'ascend0"),
        ("a2:&a3", "leaves no host", "collect-remote inventory"),
        ("a2:", "is empty", "quote it"),
    ):
        one_error(written("inventory", pattern, "--json"), 2, message=message, remedy=remedy)
    (written.directory / "group_vars" / "a2.yml").write_text("usr: me\n")
    one_error(written("inventory", "--json"), 2, message=r"group_vars/a2\.yml:1:1: unknown key 'usr'", remedy="'user'")


def test_several_inventories_before_and_behind_the_command(written: Tool) -> None:
    (written.directory / "more.yaml").write_text("a2: {vars: {user: you}, hosts: {ascend09: }}\n")
    (written.directory / "last.yaml").write_text("all: {hosts: {ascend09: {user: last}}}\n")
    outcome = written("-i", "inventory.yaml", "-i", "more.yaml", "inventory", "-i", "last.yaml", "--json")
    hosts = {host["host"]: host["user"] for host in outcome.document["hosts"]}
    assert hosts == {"ascend01": "you", "ascend02": "you", "ascend03": "profiler", "ascend09": "last"}


def test_a_file_that_is_not_read_is_told_of(written: Tool) -> None:
    (written.directory / "host_vars").mkdir()
    (written.directory / "host_vars" / "ascend1.yml").write_text("user: me\n")
    outcome = written("inventory", "--json")
    assert outcome.status == 0
    (warning,) = outcome.document["warnings"]
    assert outcome.err.splitlines() == [f"warning: {warning['message']}", f"  try: {warning['remedy']}"]
    assert "host_vars/ascend1.yml is not read" in warning["message"]
    assert "did you mean 'ascend" in warning["remedy"]


def test_patterns_choose_the_hosts_that_are_asked(host: Callable[..., SimHost], tool: Tool) -> None:
    tool.inventory(
        *(host(f"ascend{n:02}", npus=1) for n in (1, 2)), entries={"dead": {"address": "127.0.0.1", "port": 1}}
    )
    (tool.directory / "groups.yaml").write_text("a2: {hosts: {ascend02: , ascend01: , dead: }}\n")
    both = ("-i", "inventory.yaml", "-i", "groups.yaml")
    outcome = tool(*both, "devices", "--hosts", "a2:!dead", "--json")
    assert (outcome.status, [entry["host"] for entry in outcome.document["hosts"]]) == (0, ["ascend01", "ascend02"])
    outcome = tool(*both, "doctor", "--hosts", "a2[0]", "--hosts", "!dead", "--json")
    assert [entry["host"] for entry in outcome.document["hosts"]] == ["ascend02"]


@pytest.mark.parametrize("command", ["devices", "doctor"])
def test_hosts_are_named_in_one_way(written: Tool, command: str) -> None:
    options: Any
    for options in ((), ("--host", "ascend01", "--hosts", "a2")):
        one_error(written(command, *options, "--json"), 2, message="name hosts", remedy="--hosts PATTERN")
    one_error(written(command, "--host", "a2", "--json"), 2, message="no host 'a2'", remedy="a group.*--hosts")
