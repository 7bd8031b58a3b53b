"""Seeded damage to sound profiles: whatever it hits, it is caught, or belongs to a class that no other file can tell.

What cannot be seen in a profile alone, because nothing else says it: whole rows gone from tables that no other file
sums up (api_statistic, operator_details, the memory tables), whole files of that kind from another rank of the same
run, bytes changed inside records of a database, digits below the tolerance of a sum, or of figures that stand in one
file only (core counters, shapes, waiting times). An archive of ours tells them all: its manifest has the digests.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import profiles
from collect_agent.output.archive import extract
from collect_agent.output.pack import pack, tree
from collect_agent.validate import validate
from profiles import Profile

BESIDE = [above / "shared" / "cases" / "profiles" for above in Path(__file__).resolve().parents]  # of the checkout
SAMPLES = [above / name for above in BESIDE for name in ("msinsight-910b-l1-text", "msinsight-910b-l1-db")]
OUTPUT = "ASCEND_PROFILER_OUTPUT"
SUMMED = ("kernel_details.csv", "step_trace_time.csv", "op_statistic.csv")
UNIQUE = (*SUMMED, "api_statistic.csv")
TIED = (*SUMMED, "trace_view.json", "communication.json")  # to the other files of their rank and run
SEEDS = 10


class Ground(NamedTuple):
    """Two ranks of one run, the same two of another run, and what is asked of the first."""

    name: str
    here: Path
    there: Path
    asked: dict[str, Any] | None

    def files(self, *names: str) -> list[Path]:
        return sorted(path for path in self.here.rglob("*") if path.is_file() and (not names or path.name in names))


BASES = {
    "910b": Profile(steps=3, kernels=8, collectives=True),
    "910a": Profile(steps=3, kernels=8, collectives=True, chip="910A", device_column=False),
    "950": Profile(steps=3, kernels=8, collectives=True, chip="950"),
    "level0": Profile(steps=3, kernels=8, level="Level0"),
    "db": Profile(steps=3, kernels=8, export=("db",)),
}


@pytest.fixture(scope="module", params=[*BASES, "sample-text", "sample-db"])
def ground(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ground:
    place = tmp_path_factory.mktemp(request.param)
    here, there = place / "here", place / "there"
    if request.param.startswith("sample"):
        sample = next((path for path in SAMPLES if path.is_dir() and path.name.endswith(request.param[-3:])), None)
        if sample is None:
            pytest.skip("the real exports are not on this machine")
        shutil.copytree(str(sample), str(here))
        for path in here.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        profiles.write(there, rank=0, started=1_600_000_000.0)
        return Ground(request.param, here, there, None)
    base = BASES[request.param]
    for rank in (0, 1):  # ranks of one run are milliseconds apart
        profiles.write(here, base, rank=rank, device=rank, started=base.started + 0.0371 * rank)
        profiles.write(there, base, rank=rank, device=rank, started=base.started + 5000, kernels=9)
    return Ground(request.param, here, there, {**profiles.request(base), "ranks": [0, 1]})


@contextmanager
def damaged(contents: dict[Path, bytes]) -> Iterator[None]:
    sound = {path: path.read_bytes() for path in contents}
    for path, content in contents.items():
        path.write_bytes(content)
    try:
        yield
    finally:
        for path, content in sound.items():
            path.write_bytes(content)


def complaints(ground: Ground) -> dict[tuple[str, str], tuple[str, str]]:
    """(verdict, message) by profile and check, of those that do not pass."""
    result = validate(str(ground.here), ground.asked)
    groups = [("", result["checks"]), *((profile["directory"], profile["checks"]) for profile in result["profiles"])]
    every = {(place, c["id"]): (c["verdict"], c["message"]) for place, checks in groups for c in checks}
    return {check: found for check, found in every.items() if found[0] not in ("pass", "na")}


def cut(ground: Ground, dice: random.Random) -> dict[Path, bytes] | None:
    path = dice.choice(ground.files())
    content = path.read_bytes()
    cut_off = content[: dice.randrange(len(content))]
    if path.suffix == ".json" and not content[len(cut_off) :].strip():
        return None  # white space at the end of a JSON document is no part of it
    if path.suffix == ".csv" and path.name not in SUMMED and cut_off.endswith(b"\n") and b"\n" in cut_off[:-1]:
        return None  # whole rows of a table that nothing else sums up
    return {path: cut_off}


def drop_row(ground: Ground, dice: random.Random) -> dict[Path, bytes] | None:
    return _rows(ground, dice, SUMMED, lambda rows, at: [*rows[:at], *rows[at + 1 :]])


def double_row(ground: Ground, dice: random.Random) -> dict[Path, bytes] | None:
    return _rows(ground, dice, UNIQUE, lambda rows, at: [*rows[:at], rows[at], *rows[at:]])


def _rows(
    ground: Ground, dice: random.Random, names: tuple[str, ...], change: Callable[[list[bytes], int], list[bytes]]
) -> dict[Path, bytes] | None:
    tables = ground.files(*names)
    if not tables:
        return None  # a database export
    path = dice.choice(tables)
    head, *rows = path.read_bytes().splitlines(keepends=True)
    return {path: head + b"".join(change(rows, dice.randrange(len(rows))))}


def rename_column(ground: Ground, dice: random.Random) -> dict[Path, bytes] | None:
    tables = ground.files(*UNIQUE, "operator_details.csv")
    if not tables:
        return None
    path = dice.choice(tables)
    head, rest = path.read_bytes().split(b"\n", 1)
    names = head.rstrip(b"\r").split(b",")
    coming_and_going = () if path.name == "kernel_details.csv" else (b"Device_id", b"Preparing")  # with the version
    at = dice.choice([number for number, name in enumerate(names) if name not in coming_and_going])
    names[at] = b"my_" + names[at]
    return {path: b",".join(names) + (b"\r\n" if head.endswith(b"\r") else b"\n") + rest}


def nul_tail(ground: Ground, dice: random.Random) -> dict[Path, bytes]:
    """As a crash leaves it: blocks that were never written."""
    path = dice.choice(ground.files())
    content = path.read_bytes()
    size = min(len(content), dice.choice([4096, 8192]) if path.suffix == ".db" else dice.randrange(1, 5000))
    if dice.random() < 0.5 and path.suffix != ".db":
        return {path: content + bytes(size)}
    return {path: content[:-size] + bytes(size)}


def swap_ranks(ground: Ground, dice: random.Random) -> dict[Path, bytes]:
    """One file, or profiler_info or a database under the other rank's name."""
    one, two = sorted(ground.here.iterdir())
    names = sorted(path.name for path in (one / OUTPUT).iterdir() if path.name in TIED)
    pairs = [(one / OUTPUT / name, two / OUTPUT / name) for name in names]
    pairs += [(next(one.glob("profiler_info*")), next(two.glob("profiler_info*")))]
    pairs += list(zip(one.glob("*/ascend*.db"), two.glob("*/ascend*.db")))  # noqa: B905 - Python 3.8 runs this too
    first, second = dice.choice(pairs)
    return {first: second.read_bytes(), second: first.read_bytes()}


def mix_runs(ground: Ground, dice: random.Random) -> dict[Path, bytes] | None:
    foreign = {path.name: path for path in ground.there.rglob("*") if path.is_file()}
    tied = [path for path in ground.files() if path.name in TIED or path.name.startswith(("profiler_info", "ascend"))]
    known = [path for path in tied if path.name in foreign and foreign[path.name].read_bytes() != path.read_bytes()]
    if not known:
        return None
    path = dice.choice(known)
    return {path: foreign[path.name].read_bytes()}


def change_digit(ground: Ground, dice: random.Random) -> dict[Path, bytes] | None:
    """One of the digits above the tolerance of the sums, in a time or a count."""
    tables = ground.files(*SUMMED, "trace_view.json")
    if not tables:
        return None
    path = dice.choice(tables)
    content = path.read_bytes()
    if path.name == "trace_view.json":
        places = _kernel_starts(path)
    else:
        columns, body = content.split(b"\n", 1)
        places = [len(columns) + 1 + at for at in _telling_digits(columns.decode().strip().split(","), body)]
    at = dice.choice(places)
    digit = b"%d" % ((content[at] - ord("0") + dice.randrange(1, 10)) % 10)
    return {path: content[:at] + digit + content[at + 1 :]}


def _kernel_starts(trace: Path) -> list[int]:
    """Places of the last digits of the starts of compute kernels on the device."""
    text = trace.read_bytes().decode()
    events = json.loads(text)
    names = (event for event in events if event["name"] == "process_name")
    device = next(event["pid"] for event in names if event["args"]["name"] == "Ascend Hardware")
    rows = csv.DictReader(io.StringIO((trace.parent / "kernel_details.csv").read_bytes().decode()))
    kernels = {row["Start Time(us)"].strip() for row in rows if not row["Name"].startswith("hcom_")}
    slices = (event for event in events if event["ph"] == "X" and event["pid"] == device and event["ts"] in kernels)
    end = re.compile(r'"ts": "\d+\.\d+')
    return [text.index(piece) + end.search(piece).end() - 1 for piece in map(json.dumps, slices)]  # type: ignore[union-attr]


def _telling_digits(columns: list[str], body: bytes) -> list[int]:
    """Places of digits in times and counts whose change is beyond the tolerance: 1 us, or a ten-thousandth of a sum."""
    wanted = ("Duration(us)", "Count", "Total Time(us)", "Computing", "Free", "Stage", "Communication")
    numbers: dict[str, list[re.Match[bytes]]] = {}
    start = 0
    for line in body.splitlines(keepends=True):
        commas = [match.start() for match in re.finditer(rb',(?=(?:[^"]*"[^"]*")*[^"]*$)', line.rstrip(b"\r\n"))]
        for column, begin in zip(columns, [0, *(comma + 1 for comma in commas)]):  # noqa: B905
            number = re.compile(rb"\d+").match(body, start + begin)
            if column in wanted and number:
                numbers.setdefault(column, []).append(number)
        start += len(line)
    places = []
    for column, found in numbers.items():
        least = 1 if column == "Count" else max(10, sum(int(number.group()) for number in found) / 5000)
        places += [at for n in found for at in range(*n.span()) if 10 ** (n.end() - 1 - at) >= least]
    return places


DAMAGES = [cut, drop_row, double_row, rename_column, nul_tail, swap_ranks, mix_runs, change_digit]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_anywhere_is_caught(
    ground: Ground, damage: Callable[[Ground, random.Random], dict[Path, bytes] | None]
) -> None:
    sound = complaints(ground)
    assert ground.asked is None or sound == {}
    assert {verdict for verdict, _ in sound.values()} <= {"unproven"}
    for seed in range(SEEDS):
        contents = damage(ground, random.Random(f"{ground.name} {seed}"))
        if contents is None or all(path.read_bytes() == content for path, content in contents.items()):
            continue
        with damaged(contents):
            found = complaints(ground)
        new = {told[0] for check, told in found.items() if sound.get(check) != told}
        # A column that no rule rests on is named, and no more: releases rename and add some.
        enough = {"fail", "unproven", "warn"} if damage is rename_column else {"fail", "unproven"}
        assert new & enough, f"seed {seed}: {[path.name for path in contents]} {found}"


def test_an_archive_tells_what_a_profile_alone_cannot(tmp_path: Path) -> None:
    base = BASES["910b"]
    for rank in (0, 1):
        profiles.write(tmp_path / "tree" / "decode", base, rank=rank, device=rank)
    asked = {**profiles.request(base), "ranks": [0, 1]}

    def manifest(files: list[dict[str, Any]]) -> dict[str, Any]:
        return {"expected": {**asked, "warmup": None}, "phases": asked["warmup"], "files": files}

    pack(tree(str(tmp_path / "tree"), "profile_l1"), str(tmp_path / "p.tar.gz"), manifest=manifest)
    extract(str(tmp_path / "p.tar.gz"), str(tmp_path / "out"))
    ground = Ground("out", tmp_path / "out", tmp_path, None)
    assert complaints(ground) == {}
    one, two = ground.files("operator_details.csv")
    counters = ground.files("kernel_details.csv")[0]
    for contents in (
        {one: one.read_bytes() + b"aten::mm,,,1,1,1,1,1,1\r\n"},
        {one: one.read_bytes().replace(b"12.5", b"12.6", 1), two: two.read_bytes().replace(b"12.5", b"12.6")},
        {counters: counters.read_bytes().replace(b",0.361,", b",0.362,", 1)},
    ):
        assert all(path.read_bytes() != content for path, content in contents.items())
        with damaged(contents):
            assert {check: told[0] for check, told in complaints(ground).items()} == {("", "manifest"): "fail"}
    assert complaints(ground) == {}
