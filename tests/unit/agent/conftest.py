"""Five properties of npu-smi's tables are held to ten thousand examples together."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("many", deadline=None, max_examples=2000)
