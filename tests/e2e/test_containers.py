"""Collections inside containers of a host: `container` in the inventory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness import Tool, gone
from simhost import SimHost
from simhost.containers import Container

Start = Callable[..., SimHost]
Clean = Callable[..., None]


def box(host: SimHost, name: str = "vllm", **options: Any) -> Container:
    """A container of `host`; skips where namespaces cannot be made."""
    try:
        return host.container(name, **options)
    except PermissionError as error:
        pytest.skip(str(error))


@pytest.fixture
def ascend(host: Start) -> SimHost:
    return host(container_engine="docker")


def inside(tool: Tool, host: SimHost, container: str = "vllm", **keys: Any) -> None:
    """Write the inventory: `host`, with `container`."""
    keys = {"workdir": "/workspace/runs", **keys}
    tool.inventory(host, entries={host.name: {"container": container, **keys}})


def test_a_profile_from_a_container(ascend: SimHost, tool: Tool, assert_clean: Clean) -> None:
    container = box(ascend, visible=[2, 5])
    inside(tool, ascend)
    outcome = tool.collect()
    assert outcome.status == 0, outcome.err
    print(outcome.err)
    (device,) = outcome.document["devices"]
    assert (device["label"], device["inside"]) == ("NPU 5 chip 0 (logic 5)", 1)
    assert [use.logic for use in ascend.uses()] == [5]
    manifest = json.loads((tool.directory / outcome.document["directory"] / "manifest.json").read_text())
    print(json.dumps(manifest["proof"], indent=1), manifest["container"])
    assert gone(ascend.processes)
