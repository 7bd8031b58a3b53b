"""Not for the Pythons of hosts, which run these tests as they are.

Six properties of what npu-smi prints are held to ten thousand examples and more together, in CI to fewer. Whatever
`validate` and `presence.tell` say in these tests is described by the manifest's schema.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

import manifests
from collect_agent.npu import presence

settings.register_profile("many", deadline=None, max_examples=int(os.environ.get("COLLECT_REMOTE_EXAMPLES", "2000")))


@pytest.fixture(autouse=True)
def as_the_schema_says(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    tell = presence.tell

    def told(*moments: Any) -> Any:
        seen = tell(*moments)
        manifests.check(seen, "#/$defs/proof/properties/presence")
        return seen

    monkeypatch.setattr(presence, "tell", told)
    if hasattr(request.module, "validate"):
        monkeypatch.setattr(request.module, "validate", manifests.validate)
