"""What a collection has published, as tests of the routes look at it."""

from __future__ import annotations

import csv
import io
import json
import tarfile

from harness import Outcome, Tool


class Collected:
    """What was published."""

    def __init__(self, tool: Tool, outcome: Outcome) -> None:
        assert outcome.status == 0, outcome.err
        self.archive = tool.directory / outcome.document["archive"]["path"]
        self.manifest = json.loads((self.archive.parent / "manifest.json").read_text())

    @property
    def profiles(self) -> list[tuple[str, int, str, str]]:
        """(phase, rank, level, metrics) of each."""
        return sorted((p["phase"], p["rank"] or 0, p["level"], p["metrics"]) for p in self.manifest["profiles"])

    def operators(self, name: str, phase: str) -> list[int]:
        """How often it was called, by profile."""
        counts = []
        with tarfile.open(self.archive) as tar:
            for member in tar.getmembers():
                if f"/{phase}/" in member.name and member.name.endswith("/operator_details.csv"):
                    text = io.TextIOWrapper(tar.extractfile(member), "utf-8")  # type: ignore[arg-type]
                    counts.append([row["Name"] for row in csv.DictReader(text)].count(name))
        return counts


def level1(phase: str, ranks: int) -> list[tuple[str, int, str, str]]:
    return [(phase, rank, "Level1", "PipeUtilization") for rank in range(ranks)]


def profiles(tool: Tool, outcome: Outcome) -> list[tuple[str, int | None, int]]:
    """(phase, rank, steps) of every profile of a result that is valid."""
    assert outcome.status == 0, outcome.err
    manifest = json.loads((tool.directory / outcome.document["directory"] / "manifest.json").read_text())
    assert manifest["verdict"] == "valid"
    assert {profile["level"] for profile in manifest["profiles"]} == {"Level1"}
    assert {profile["metrics"] for profile in manifest["profiles"]} == {"PipeUtilization"}
    return sorted((one["phase"], one["rank"], len(one["steps"])) for one in manifest["profiles"])
