"""A host of an inventory over each transport."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from collect_remote.inventory import Host, load
from simhost import SimHost

Entry = Callable[..., Host]


@pytest.fixture(params=["paramiko", "openssh"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def entry(tmp_path: Path, client_home: Path, transport: str) -> Entry:
    """The inventory's host for a simulated one, ``entry(sim, port=link.port)``; None takes a key out."""

    def made(sim: SimHost, **changes: Any) -> Host:
        said = {**sim.inventory_entry(), "transport": transport, **changes}
        path = tmp_path / "inventory.yaml"
        keys = {key: value for key, value in said.items() if value is not None}
        path.write_text(yaml.safe_dump({"all": {"hosts": {sim.name: keys}}}))
        return load(path).host(sim.name)

    return made
