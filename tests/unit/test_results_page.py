"""The code of docs/results.md does what the page says; its first block, which collects, is run end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

import manifests
import pages
import results

_, SUMS, TRACES = pages.code("results.md")


@pytest.fixture
def latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A result where the page looks for it."""
    models = tmp_path / "profiles" / "ascend01" / "llama"
    directory = results.publish(models)
    (models / "latest").symlink_to(directory.name)
    monkeypatch.chdir(tmp_path)
    return directory


def test_times_are_summed_up_by_the_rows(latest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(SUMS, {})  # noqa: S102 - our own page
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[0].split() == ["FlashAttentionScore", "1760.820", "us"]  # 88.041 us twice in each of ten steps


def test_traces_are_read_and_an_error_names_the_way_out(latest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(TRACES, {})  # noqa: S102 - our own page
    traces, error = capsys.readouterr().out.splitlines()
    assert traces.startswith("decode ")
    assert "there is no 'kernel_detail.csv' in the profile - there is: kernel_details.csv" in error


def test_the_fields_of_the_page_are_those_of_the_manifest() -> None:
    page = (pages.DOCS / "results.md").read_text()
    described = manifests.schema()["properties"]
    named = [name for name in described if f"`{name}`" in page or f"`{name}[" in page]
    assert set(described) - set(named) <= {"run_id", "host", "model", "route", "visible_devices"}
