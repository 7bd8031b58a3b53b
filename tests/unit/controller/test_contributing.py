"""CONTRIBUTING.md shows a route as it is, and a route is a small thing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import collect_remote.routes
from collect_remote.routes import routes

HERE = Path(collect_remote.routes.__file__).parent
PAGE = Path(__file__).resolve().parents[3] / "CONTRIBUTING.md"


def test_the_route_on_the_page_is_the_one_in_the_file() -> None:
    (shown,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown == (HERE / "mindie_sd.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["mindie_sd", "diffusers", "script", "dynamic", "wrapper"])
def test_a_route_is_one_file_of_under_100_lines(name: str) -> None:
    text = (HERE / f"{name}.py").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 100
    assert "ROUTE" in text


def test_every_route_is_described() -> None:
    page = (PAGE.parent / "docs" / "routes.md").read_text(encoding="utf-8")
    for name in routes():
        assert re.search(rf"^## .*\b{re.escape(name)}\b", page, re.MULTILINE) or f"`{name}`" in page, name
