"""Where profiles lie: a directory of one, a tree of them, the parser's output alone, an archive. Each file is read
once.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..output.archive import (
    MANIFEST,
    MANIFEST_NAME,
    MAX_MANIFEST,
    ROOT,
    Digesting,
    compare,
    parse_manifest,
    read_archive,
)
from ..output.tarstream import ArchiveError, Entry
from .facts import INFO_NAME, OUTPUT, Facts
from .observe import File, observe, split

PHASES = ("prefill", "decode", "both", "forward", "train", "rollout")


class _Profiles:
    """Facts of every profile below one root. `above` is the path from its names down to what was given."""

    def __init__(self, above: str = "") -> None:
        self._facts: Dict[str, Facts] = {}
        self._above = above

    def add(self, file: File) -> None:
        """`file.path` is relative to what was given; files that belong to no profile are left unread."""
        place = split(self._above + file.path)
        if place is None:
            return
        directory, path = place
        if directory not in self._facts:
            parent, name = os.path.split(directory)
            phase = os.path.basename(parent)
            given = directory[len(self._above) :] or "."
            self._facts[directory] = Facts(given, name, phase if phase in PHASES else None)
        observe(self._facts[directory], file._replace(path=path))

    def facts(self) -> List[Facts]:
        return [self._facts[directory] for directory in sorted(self._facts)]


def from_archive(path: str) -> Tuple[List[Facts], Optional[Dict[str, Any]]]:
    """Facts and manifest (None: it has none) of the archive `path`, read once; ArchiveError when it is not sound."""
    profiles = _Profiles()

    def visit(entry: Entry) -> None:
        profiles.add(File(entry.name, entry.size, entry.mtime, entry.content))

    files, text = read_archive(path, visit=visit)
    manifest = None if text is None else parse_manifest(text)
    if manifest is not None:
        compare(files, manifest)
    return profiles.facts(), manifest


def from_directory(path: str) -> Tuple[List[Facts], Optional[Dict[str, Any]], List[str]]:
    """Facts and manifest of the profiles at the directory `path`, and the files that are not what the manifest lists.

    Files are named as if the path above them had been given too. OSError when one cannot be read.
    """
    root = os.path.abspath(path)
    names = os.listdir(root)
    above = ""
    if os.path.basename(root) == OUTPUT:
        if any(INFO_NAME.match(name) for name in os.listdir(os.path.dirname(root))):
            return from_directory(os.path.dirname(root))
        above = OUTPUT + "/"
    elif "kernel_details.csv" in names or "trace_view.json" in names:
        above = OUTPUT + "/"
    elif root.endswith("_ascend_pt"):
        above = "/".join(root.split(os.sep)[-2:]) + "/"
    manifest, start = _manifest_of(root)
    listed = {item["path"]: item["sha256"] for item in manifest["files"]} if manifest else {}
    profiles = _Profiles(above)
    for place, name, status in _files(root):
        if start + name not in listed and split(above + name) is None:
            continue
        with open(place, "rb", buffering=0) as raw:
            file = File(name, status.st_size, int(status.st_mtime), raw, place)
            if start + name not in listed:
                profiles.add(file)
                continue
            digesting = Digesting(raw)
            profiles.add(file._replace(raw=digesting))
            if digesting.finish() == listed[start + name]:
                del listed[start + name]
    return profiles.facts(), manifest, sorted(listed)


def _manifest_of(root: str) -> Tuple[Optional[Dict[str, Any]], str]:
    """The manifest in `root` or in the profile_l1 below it, with what precedes the names of `root` in its list."""
    for name, start in ((MANIFEST_NAME, ROOT + "/"), (MANIFEST, "")):
        try:
            with open(os.path.join(root, name), "rb") as file:
                return parse_manifest(file.read(MAX_MANIFEST)), start
        except (FileNotFoundError, ArchiveError):
            continue  # none, or one of another tool
    return None, ""


def _files(root: str) -> Iterator[Tuple[str, str, os.stat_result]]:
    """(place, path relative to `root`, status) of every regular file below `root`, in order. No link is followed."""
    for directory, directories, names in os.walk(root):
        directories.sort()
        for name in sorted(names):
            place = os.path.join(directory, name)
            status = os.lstat(place)
            if stat.S_ISREG(status.st_mode):
                yield place, os.path.relpath(place, root).replace(os.sep, "/"), status
