"""A published result, and what is in it: files of its archive as text, as rows, as data frames."""

from __future__ import annotations

import difflib
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from collect_agent.output.archive import ROOT, check_archive, parse_manifest
from collect_agent.output.manifest import FORMAT
from collect_agent.output.parsed import OUTPUT
from collect_agent.output.tarstream import ArchiveError
from collect_agent.run.rundir import ARCHIVE, PARTIAL

from ..errors import ProfileInvalid, UsageError, one_line
from ..shape import Maybe, count, misfit
from .member import BRING_AGAIN, Member, readable
from .store import MANIFEST

if TYPE_CHECKING:
    import pandas

SHOWN = 12  # names in an error
# Of a manifest, what is used here; docs/manifest.schema.json has all of it.
_SHAPE = {
    "verdict": str,
    "profiles": [{"phase": str, "rank": Maybe(count), "directory": str}],
    "files": [{"path": str, "sha256": re.compile(r"[0-9a-f]{64}")}],
}


@dataclass(frozen=True, slots=True)
class Profile:
    """A result: its directory, what its manifest says, and its archive.

    `name` is that of a file in ASCEND_PROFILER_OUTPUT, like "kernel_details.csv", or in the profile's own directory,
    like "profiler_info.json". `phase` and `rank` may be left out where one profile alone has it; a profile on one
    device is rank 0. UsageError when there is no such file, or more than one. ProfileInvalid, while it is read, when it
    is damaged or not the one that the manifest lists.
    """

    directory: Path
    manifest: dict[str, Any]
    archive: Path

    @classmethod
    def at(cls, path: Path | str) -> Profile:
        """The result in a directory, or of an archive alone, which is read to its end and proved whole.

        UsageError when there is none, or it is of another format; ProfileInvalid when it is damaged.
        """
        place = Path(path)
        beside = place / MANIFEST
        with readable(place):
            found = (place / name for name in (ARCHIVE, PARTIAL)) if place.is_dir() else iter((place,))
            archive = next(filter(Path.is_file, found), None)
            alone = not beside.is_file()
        if archive is None:
            raise UsageError(f"there is no {ARCHIVE} at {place}", "give the directory of a result, or its archive")
        manifest = _inside(archive) if alone else _beside(archive, beside)
        _require_form(manifest, archive)
        return cls(archive.parent, manifest, archive)

    @property
    def verdict(self) -> str:
        """valid, invalid or unproven."""
        return str(self.manifest["verdict"])

    def open(self, name: str, *, phase: str | None = None, rank: int | None = None) -> io.TextIOWrapper:
        """A file as UTF-8 text with its own line ends, read as a stream out of the archive; to be closed."""
        return _text(self.archive, self._choose(name, phase, rank))

    def rows(self, name: str, *, phase: str | None = None, rank: int | None = None) -> Iterator[dict[str, str]]:
        """The rows of a table as {column: text as it stands}."""
        return _rows(self.archive, _table(self._choose(name, phase, rank)))

    def load(self, name: str, *, phase: str | None = None, rank: int | None = None) -> pandas.DataFrame:
        """A table as a pandas DataFrame. UsageError without pandas."""
        try:
            import pandas
        except ImportError as error:
            raise UsageError(f"load() needs pandas: {error}", "pip install pandas, or use rows()") from error
        chosen = _table(self._choose(name, phase, rank))
        with _text(self.archive, chosen) as file:
            try:
                frame = pandas.read_csv(file)
            except ValueError as error:
                raise ProfileInvalid(f"{chosen.path} is no table: {one_line(str(error))}", BRING_AGAIN) from error
        frame.columns = frame.columns.str.strip()
        return frame

    def _choose(self, name: str, phase: str | None, rank: int | None) -> Held:
        return choose(held(self.manifest), name, phase, rank)


class Held(NamedTuple):
    """A file of a profile: whose it is, its name for `Profile.open`, its path in the archive, its digest."""

    phase: str
    rank: int
    name: str
    path: str
    sha256: str

    @property
    def whose(self) -> str:
        return f"{self.phase} rank {self.rank}"


def held(manifest: Mapping[str, Any]) -> list[Held]:
    """Every file that a manifest lists. Pure."""
    files = []
    for profile in manifest["profiles"]:
        start = f"{ROOT}/{profile['directory']}/"
        for file in manifest["files"]:
            if file["path"].startswith(start):
                name = file["path"].removeprefix(start).removeprefix(OUTPUT + "/")
                files.append(Held(profile["phase"], profile["rank"] or 0, name, file["path"], file["sha256"]))
    return files


def choose(files: Sequence[Held], name: str, phase: str | None, rank: int | None) -> Held:
    """The one file of this name, phase and rank; None stands for any. UsageError for none, and for several. Pure."""
    of_these = [file for file in files if phase in (None, file.phase) and rank in (None, file.rank)]
    if not of_these:
        what = " ".join([*([phase] if phase else []), *([f"rank {rank}"] if rank is not None else [])])
        there = ", ".join(dict.fromkeys(file.whose for file in files)) or "nothing"
        raise UsageError(f"there is no profile of {what or 'any phase'}", f"there is: {one_line(there)}")
    hits = [file for file in of_these if file.name == name]
    if not hits:
        names = sorted({file.name for file in of_these})
        nearest = difflib.get_close_matches(name, names, n=SHOWN, cutoff=0)
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise UsageError(f"there is no {name!r} in the profile", f"there is: {one_line(', '.join(nearest))}{more}")
    if len(hits) > 1:
        there = ", ".join(file.whose for file in hits)
        raise UsageError(f"{len(hits)} profiles have {name!r}", f"say which with phase and rank: {one_line(there)}")
    return hits[0]


def _table(file: Held) -> Held:
    if not file.name.endswith(".csv"):
        raise UsageError(f"{file.name} is no table", "rows() and load() take .csv files, open() takes any text")
    return file


def _text(archive: Path, file: Held) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BufferedReader(Member(archive, file.path, file.sha256)), "utf-8-sig", newline="")


def _rows(archive: Path, file: Held) -> Iterator[dict[str, str]]:
    from collect_agent.trace.stream import Damage
    from collect_agent.validate import tables

    with Member(archive, file.path, file.sha256) as raw:
        try:
            lines = tables.rows(raw)
            header = next(lines)
            for line in lines:
                yield dict(zip(header, line, strict=True))
        except Damage as damage:
            raise ProfileInvalid(f"{file.path} {damage}", BRING_AGAIN) from damage


def _inside(archive: Path) -> dict[str, Any]:
    with readable(archive):
        manifest: dict[str, Any] = check_archive(str(archive))["manifest"]
        return manifest


def _beside(archive: Path, path: Path) -> dict[str, Any]:
    """The manifest beside an archive, which must be as large as it says."""
    with readable(path):
        text, size = path.read_bytes(), archive.stat().st_size
    try:
        manifest = parse_manifest(text)
    except ArchiveError as error:
        raise ProfileInvalid(f"{path} {error.what}", f"give the archive alone: {archive}") from error
    stated = manifest.get("archive")
    stated = stated.get("size") if isinstance(stated, dict) else None
    if stated != size:
        raise ProfileInvalid(f"{archive} has {size} bytes, its manifest says {one_line(repr(stated))}", BRING_AGAIN)
    return manifest


def _require_form(manifest: Mapping[str, Any], archive: Path) -> None:
    if manifest.get("format") != FORMAT:
        raise UsageError(
            f"the manifest of {archive} is of the format {one_line(repr(manifest.get('format')))}, not {FORMAT!r}",
            "read it with a release of collect-remote that knows this format",
        )
    where = misfit(manifest, _SHAPE)
    if where is not None:
        raise ProfileInvalid(f"the manifest of {archive} is not as it was written: its {one_line(where)}", BRING_AGAIN)
