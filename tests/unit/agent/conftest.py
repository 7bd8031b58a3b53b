"""Six properties of what npu-smi prints are held to ten thousand examples and more together."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("many", deadline=None, max_examples=2000)
