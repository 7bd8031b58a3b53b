"""Manifests held against docs/manifest.schema.json: every field in its form, and none that it does not describe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from collect_agent import validate as agent
from collect_agent.output.archive import check_archive

SCHEMA = Path(__file__).resolve().parents[1] / "docs" / "manifest.schema.json"
LARGE = 64 << 20  # bytes of an archive that takes its time to read


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SCHEMA.read_text())
    return loaded


def closed(part: Any) -> Any:
    """The same schema for those who write: an object has the fields that are described and no others."""
    if isinstance(part, list):
        return [closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    inner = {name: closed(item) for name, item in part.items()}
    named = isinstance(part.get("properties"), dict) and "additionalProperties" not in part
    return {**inner, "additionalProperties": False} if named else inner


@cache
def validator(part: str, *, strict: bool) -> Draft202012Validator:
    """Of the part of the schema at a JSON pointer like "#/$defs/check"."""
    whole = closed(schema()) if strict else schema()
    root = Draft202012Validator(whole)
    return root if part == "#" else root.evolve(schema={"$ref": whole["$id"] + part})


def misfit(document: Any, part: str = "#", *, strict: bool = False) -> str | None:
    """Where and why `document` is not what the schema says, or None. `strict`: undescribed fields are faults."""
    error = best_match(validator(part, strict=strict).iter_errors(document))
    return error and f"{error.json_path}: {error.message[:500]}"


def check(document: Any, part: str = "#") -> None:
    fault = misfit(document, part, strict=True)
    assert fault is None, fault


def check_published(directory: Path) -> None:
    """Every manifest of the results below `directory`, that in the archive and that beside it."""
    for path in _manifests(directory):
        beside = json.loads(path.read_text())
        check(beside, "#/$defs/published")
        archive = path.with_name(beside["archive"]["name"])
        if beside["archive"]["size"] < LARGE:
            inside = check_archive(str(archive))["manifest"]
            check(inside)
            assert {**beside, "stages": inside["stages"]} == {**inside, "archive": beside["archive"]}


def _manifests(directory: Path) -> Iterator[Path]:
    """Those with an archive beside them; what `latest` leads to comes once."""
    for path in directory.rglob("manifest.json"):
        if any(path.parent.glob("profile_l1*.tar.gz")) and path.parent.resolve() == path.parent:
            yield path


def validate(path: str, expected: dict[str, Any] | None = None) -> dict[str, Any]:
    """The agent's `validate`, its checks held against the schema: whatever they find, it is described there."""
    result = agent.validate(path, expected)
    for found in [*result["checks"], *(one for profile in result["profiles"] for one in profile["checks"])]:
        check(found, "#/$defs/check")
    return result
