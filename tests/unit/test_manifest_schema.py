"""docs/manifest.schema.json: what lacks a field, or has one of another type, does not pass; what has more does."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import manifests
import results
from collect_agent.npu.device import Device, Process
from collect_agent.npu.presence import tell
from collect_agent.output import manifest
from collect_agent.run.rundir import ARCHIVE, ID, PARTIAL
from collect_agent.validate.registry import FAIL, NA, PASS, UNPROVEN, WARN
from collect_agent.validate.sources import PHASES
from collect_remote.choices import AIC_METRICS, EXPORTS
from collect_remote.choices import PHASES as ASKED
from collect_remote.nodes import merge

# What is there for some runs only; everything else is there for all.
OPTIONAL = {
    *("devices.inside", "proof.ranks", "phases.prefill.ranks", "phases.decode.ranks"),
    *("nodes", "devices.host", "proof.presence.host"),
}
NAMED_BY_DATA = ("phases", "phases.prefill.ranks", "phases.decode.ranks", "expected.steps")
OF_EVERY_CHECK = ("id", "verdict", "message", "remedy")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A published manifest with every part that there can be, one item a list, so that each is changed once."""
    directory = results.publish(tmp_path_factory.mktemp("result"), phase="separate", ranks=2)
    whole: dict[str, Any] = json.loads((directory / "manifest.json").read_text())
    whole["container"] = manifest.container(
        {"container": {"runtime": "docker", "name": "vllm", "id": "5f0c1e", "image": "vllm:1", "user": "root"}}
    )
    whole["devices"][0]["inside"] = 0
    tried = {"where": "/w/both/x_ascend_pt", "how": "online", "problem": "it was not parsed"}
    whole["profiles"][0]["parsed"] = {"how": "offline", "where": "/dev/shm", "tried": [tried]}
    device = Device(npu=3, chip=0, logic=6, processes=(Process(1, "python", 900), Process(2, "other", 900)))
    elsewhere = Device(npu=4, chip=0, logic=7, processes=(Process(1, "python", 900),))
    moment = {"when": "loaded", "own": {1}, "in_container": False, "devices": [device, elsewhere]}
    seen, blind = tell([moment, {"when": "recorded", "error": "it hangs"}], [{"logic": 6, "used_mb": 0}])
    whole["proof"]["presence"] = [seen]
    of_another = {**whole, "expected": {**whole["expected"], "ranks": [2, 3]}}
    job = merge.merged([("ascend01", whole), ("ascend02", of_another)])
    whole |= {name: job[name] for name in ("devices", "proof", "phases", "nodes")}
    manifests.check(whole, "#/$defs/published")
    manifests.check(blind, "#/$defs/blindness")
    return dict(_first(whole))


def _first(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _first(part) for name, part in value.items()}
    return [_first(value[0])] if isinstance(value, list) and value else value


def fields(value: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(its path, what holds it, its name or place) of everything in a document."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in list(parts):
        here = f"{path}.{name}".lstrip(".") if isinstance(name, str) else path
        yield here, value, name
        yield from fields(part, here)


def other_type(value: Any) -> Any:
    """What a careless writer would put there."""
    match value:
        case bool():
            return str(value)
        case int() | float():
            return str(value)
        case str():
            return 7
        case list():
            return {"0": "first"}
        case dict():
            return list(value)
    return {}


def test_the_document_that_is_changed_has_every_field(everything: dict[str, Any]) -> None:
    there = {path for path, _, _ in fields(everything)}
    whole = manifests.schema()
    described = {
        f"{place}.{name}".lstrip(".")
        for place, part in [
            *(("", whole), *((name, whole["$defs"][name]) for name in ("request", "expected", "container", "proof")))
        ]
        for name in part["properties"]
    }
    assert described <= there
    for part in ("device", "node", "look", "versions", "stage", "profile", "parsed", "file", "archive", "rank_proof"):
        assert all(any(path.endswith("." + name) for path in there) for name in whole["$defs"][part]["properties"])


def test_a_field_of_another_type_does_not_pass(everything: dict[str, Any]) -> None:
    passed = []
    for path, holder, name in fields(everything):
        kept = holder[name]
        holder[name] = other_type(kept)
        if manifests.misfit(everything, "#/$defs/published") is None:
            passed.append(path)
        holder[name] = kept
    assert passed == []


def test_a_field_that_is_gone_does_not_pass(everything: dict[str, Any]) -> None:
    """But what is there for some runs only, figures of checks, and names that are data."""
    passed = []
    for path, holder, name in list(fields(everything)):
        above, _, last = path.rpartition(".")
        figure = above.endswith("checks") and last not in OF_EVERY_CHECK
        if isinstance(holder, list) or path in OPTIONAL or above in NAMED_BY_DATA or figure:
            continue
        kept = holder.pop(name)
        if manifests.misfit(everything, "#/$defs/published") is None:
            passed.append(path)
        holder[name] = kept
    assert passed == []


def test_readers_pass_over_what_they_do_not_know_and_we_write_nothing_undescribed(everything: dict[str, Any]) -> None:
    objects = {path: holder[name] for path, holder, name in fields(everything) if isinstance(holder[name], dict)}
    assert len(objects) > 20
    for path, part in {"": everything, **objects}.items():
        if path not in NAMED_BY_DATA:
            part["later"] = 1
            assert manifests.misfit(everything, "#/$defs/published") is None, path
            assert manifests.misfit(everything, "#/$defs/published", strict=True), path
            del part["later"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("format", "collect-remote/2"),
        ("verdict", "good"),
        ("run_id", "../../etc/passwd"),
        ("archive.name", "other.tar.gz"),
        ("archive.sha256", "0" * 63 + "X"),
        ("archive.size", -1),
        ("expected.level", "Level9"),
        ("phases", {"warm": {}}),
        ("files", [{"path": "/etc/passwd", "size": 1, "sha256": "0" * 64}]),
    ],
)
def test_what_code_has_closed_is_closed(everything: dict[str, Any], path: str, value: Any) -> None:
    document = copy.deepcopy(everything)
    *above, name = path.split(".")
    holder = document
    for part in above:
        holder = holder[part]
    holder[name] = value
    assert manifests.misfit(document, "#/$defs/published")


def test_the_closed_sets_are_those_of_the_code() -> None:
    parts = manifests.schema()["$defs"]
    assert manifests.schema()["properties"]["format"]["const"] == manifest.FORMAT
    assert manifests.schema()["properties"]["run_id"]["pattern"] == f"^{ID.pattern}$"
    assert parts["phase"]["enum"] == list(PHASES)
    assert parts["request"]["properties"]["phase"]["enum"] == [*ASKED, None]
    assert parts["metrics"]["enum"] == list(AIC_METRICS)
    assert parts["export"]["enum"] == list(EXPORTS)
    assert parts["archive"]["properties"]["name"]["enum"] == [ARCHIVE, PARTIAL]
    assert set(parts["check"]["properties"]["verdict"]["enum"]) == {PASS, FAIL, WARN, UNPROVEN, NA}


def test_the_manifest_inside_an_archive_needs_no_word_of_the_archive(everything: dict[str, Any]) -> None:
    inside = {name: part for name, part in everything.items() if name != "archive"}
    assert manifests.misfit(inside) is None
    assert "archive" in str(manifests.misfit(inside, "#/$defs/published"))


def test_the_schema_is_one_and_describes_every_field() -> None:
    Draft202012Validator.check_schema(manifests.schema())
    undescribed = [path for path, part in _properties(manifests.schema()) if not _description(part)]
    assert undescribed == []


def _properties(part: Any, path: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    if not isinstance(part, dict):
        return
    for name, inner in part.items():
        if name == "properties":
            yield from ((f"{path}/{field}", body) for field, body in inner.items())
        if isinstance(inner, dict):
            yield from _properties(inner, f"{path}/{name}")


def _description(part: dict[str, Any]) -> str:
    """Its own, or that of what it refers to."""
    while "description" not in part and "$ref" in part:
        target: Any = manifests.schema()
        for name in part["$ref"].removeprefix("#/").split("/"):
            target = target[name]
        part = target
    return str(part.get("description", ""))


def test_results_of_every_shape_fit(tmp_path: Path) -> None:
    for number, (phase, ranks) in enumerate([("decode", 1), ("prefill", 2), ("both", 1), ("separate", 1)]):
        results.publish(tmp_path, phase=phase, ranks=ranks, run=f"20261129_104205_00000{number}")
    manifests.check_published(tmp_path)
