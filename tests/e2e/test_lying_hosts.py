"""A host whose Python says something else than it should: one clear error in words, and the other hosts are told of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness import Tool, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]


def lying(host: SimHost, change: str) -> dict[str, str]:
    """The inventory's keys for a Python whose output goes through sed's `change`."""
    python = host.root / "lying-python"
    python.write_text(f"#!/bin/sh\n{host.root}/bin/python3 \"$@\" | sed -u '{change}'\n")
    python.chmod(0o755)
    return {"python": str(python)}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ('s/"cann_place": [^,]*, //', "cann_place"),
        ('s/"version": \\[[^]]*\\]/"version": ["a"]/', "python.version"),
        ('s/"free_bytes": /"free_bytes": 1e400, "was": /', "free_bytes"),
        ("s/facts {.*/facts [{}]/", r"\[\{\}\]"),
    ],
)
def test_facts_of_another_form(host: Start, tool: Tool, change: str, where: str) -> None:
    ascend = host()
    tool.inventory(ascend, entries={"ascend01": lying(ascend, change)})
    one_error(
        tool.collect("--dry-run"), 5, message=f"words that are not ours: .*{where}", remedy="answers in its place"
    )


def test_a_run_that_fails_when_its_archive_is_announced(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    error = '{"kind":"StorageError","message":"the disk gives back something else","remedy":"look at it"}'
    change = f's/"stage":"send".*/"stage":"end","status":"failed","error":{error},"log":[]}}/'
    tool.inventory(ascend, entries={"ascend01": lying(ascend, change)})
    told = one_error(tool.collect(), 8, message="the disk gives back something else", remedy="look at it")
    assert "attach" not in told["remedy"], "there is nothing that it could bring"
    assert not (tool.profiles / ".incoming").exists()


@pytest.mark.parametrize(
    "change",
    [
        's/"kind":"prefill",//',
        's/"seconds":[0-9.]*/"seconds":"5"/',
        's/"stage":"check".*/"stage":"end","status":"failed"}/',
        's/"size":[0-9]*/"size":1e400/',
        's/"seq":1,/"seq":"1",/',
    ],
)
def test_events_of_another_form_end_the_run(host: Start, tool: Tool, assert_clean: Clean, change: str) -> None:
    ascend = host()
    tool.inventory(ascend, entries={"ascend01": lying(ascend, change)})
    one_error(tool.collect(), 8, message="not ours|none of a run", remedy="no other program|do not trust")
    assert_clean(ascend)


def test_a_run_that_is_left_alone_is_not_left_in_the_dark(host: Start, tool: Tool, assert_clean: Clean) -> None:
    ascend = host()
    tool.inventory(ascend, entries={"ascend01": lying(ascend, 's/"devices":\\[/"devices":[1,/')})
    one_error(tool.collect("--detach"), 8, message="not ours", remedy="no other program")
    assert_clean(ascend)


def test_what_a_host_says_cannot_paint_the_terminal(host: Start, tool: Tool) -> None:
    ascend = host()
    red = r"\\u001b[31m\\u009b"
    changes = (
        f's/"stage":"precheck"/"stage":"pre{red}","self":1/',
        f's/"kind":"decode"/"kind":"{red}d"/',
        f's/"why": "/"why": "{red}/',
    )
    tool.inventory(ascend, entries={"ascend01": lying(ascend, "; ".join(changes))})
    outcome = tool("--host", "ascend01", "--model", "llama")
    assert "pre [31m" in outcome.err
    assert "[31m d step" in outcome.err
    assert "( [31m named in the inventory" in outcome.err
    assert all(letter.isprintable() for letter in (outcome.out + outcome.err).replace("\n", ""))


@pytest.mark.parametrize("command", ["runs", "clean"])
def test_answers_of_another_form(host: Start, tool: Tool, command: str) -> None:
    ascend = host()
    change = 's/"removed"/"moved"/; s/"runs":\\[/"runs":[{"run":"r","seconds":"5"}/'
    tool.inventory(ascend, entries={"ascend01": lying(ascend, change)})
    outcome = tool(command, "--host", "ascend01", "--json")
    one_error(outcome, 8, message="in words that are not ours", remedy="no other program")


@pytest.mark.parametrize("command", ["doctor", "devices"])
def test_one_host_does_not_hide_the_others(host: Start, tool: Tool, command: str) -> None:
    """Its npu-smi shows no table, so that `devices` too asks the Python."""
    odd, fit = host(npu_smi_text="no table"), host("ascend02")
    tool.inventory(odd, fit, entries={"ascend01": lying(odd, 's/"cann_place": [^,]*, //')})
    outcome = tool(command, "--host", "ascend01,ascend02", "--json")
    assert outcome.status == 5
    first, second = outcome.document["hosts"]
    assert "cann_place" in str(first)
    assert second["devices"] if command == "devices" else second["verdict"] != "failure"
