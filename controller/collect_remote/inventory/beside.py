"""host_vars/ and group_vars/: the variables that lie beside an inventory, a file or a directory for each name."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from . import document
from .hosts import Caution
from .sources import EXTENSIONS, ignored, listed, variable_files
from .variables import Variables, read
from .words import suggestion

MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Beside:
    """What lies beside the inventories: for every name the blocks of variables, the strongest last."""

    blocks: dict[str, list[Variables]] = field(default_factory=dict)
    cautions: list[Caution] = field(default_factory=list)


def read_beside(directory: Path, kind: str, names: Collection[str], others: Collection[str]) -> Beside:
    """The `kind`_vars ("group" or "host") of one directory, for these names.

    What is there for no name, or hidden behind another file, is not read and told of: `others` are the names of the
    other kind, for those who took the wrong directory. Raises InventoryError.
    """
    result, place = Beside(), directory / f"{kind}_vars"
    if not os.path.lexists(place):
        return result
    there = {path.name for path in listed(place)}
    taken: dict[str, str] = {}
    for name in names:
        found = next((name + extension for extension in EXTENSIONS if name + extension in there), None)
        if found is not None:
            taken[found] = name
            result.blocks[name] = list(_blocks(place / found, f"{kind} {name}"))
    unread = [place / entry for entry in sorted(there - taken.keys()) if not ignored(entry)]
    by_name = {name: place / entry for entry, name in taken.items()}
    result.cautions.extend(_cautions(unread, kind, names, others, by_name))
    return result


def _blocks(path: Path, owner: str) -> Iterator[Variables]:
    for file in variable_files(path):
        root = document.read(file, "make it a file that you can read")
        if root and not root.empty:
            yield read(root, owner)


def _cautions(
    unread: Iterable[Path], kind: str, names: Collection[str], others: Collection[str], taken: Mapping[str, Path]
) -> Iterator[Caution]:
    """Why files are not read; of those that no name fits, in one for all of them."""
    unknown = {}
    for path in unread:
        name = path.stem if path.suffix in EXTENSIONS and not path.is_dir() else path.name
        if name in taken:
            yield Caution(f"{path} is not read: {taken[name]} is there as well", "keep one of them")
        elif name in others:
            other = "host" if kind == "group" else "group"
            remedy = f"move it to {path.parents[1] / f'{other}_vars'}"
            yield Caution(f"{path} is not read: {name!r} is a {other}", remedy)
        else:
            unknown[name] = path
    if unknown:
        yield _unknown(unknown, kind, names)


def _unknown(paths: Mapping[str, Path], kind: str, names: Collection[str]) -> Caution:
    name, path = next(iter(paths.items()))
    if len(paths) == 1:
        return Caution(f"{path} is not read: the inventory has no {kind} {name!r}", suggestion(name, names))
    shown = ", ".join([*paths][:MOST_SHOWN]) + (", ..." if len(paths) > MOST_SHOWN else "")
    message = f"{len(paths)} files in {path.parent} are not read: the inventory has no {kind}s {shown}"
    return Caution(message, f"mend those names that are misspelt; {suggestion(name, names)}")
