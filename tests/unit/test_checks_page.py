"""docs/checks.md is true."""

from __future__ import annotations

from pathlib import Path

import checks_page


def test_the_page_is_what_the_registry_says() -> None:
    path = Path(__file__).resolve().parents[2] / "docs" / "checks.md"
    assert path.read_text(encoding="utf-8") == checks_page.page(), "run: python tests/checks_page.py > docs/checks.md"
