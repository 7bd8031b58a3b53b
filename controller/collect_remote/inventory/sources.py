"""Which files an inventory consists of, as Ansible chooses them: the inventories themselves, what lies beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import InventoryError

# In the order in which they are looked for; without an extension first.
EXTENSIONS = ("", ".yml", ".yaml", ".json")
# Of a directory of inventories (ansible.inventory.manager, INVENTORY_IGNORE_EXTS).
_IGNORED = re.compile(
    r"\..*|host_vars|group_vars|vars_plugins|.*(?:\.pyc|\.pyo|\.swp|\.bak|~|\.rpm|\.md|\.txt|\.rst|\.orig|\.cfg|\.retry)"
)


def inventory_files(source: Path) -> list[Path]:
    """`source` itself, or the inventories in and below it when it is a directory, by name. Raises InventoryError."""
    if not source.is_dir():
        return [source]
    found = list(_below(source))
    if not found:
        raise InventoryError(f"there is no inventory in {source}", "put a YAML file there, or name another")
    return found


def _below(directory: Path) -> Iterator[Path]:
    for path in listed(directory):
        if ignored(path.name):
            continue
        if path.is_dir():
            yield from _below(path)
        elif path.suffix in EXTENSIONS:
            yield path
        else:
            remedy = "move it away, or name the inventories one by one: INI files and scripts are not read"
            raise InventoryError(f"{path} is no YAML inventory", remedy)


def beside(source: Path) -> Path:
    """The directory whose host_vars and group_vars belong to `source`."""
    return source if source.is_dir() else source.parent


def variable_files(path: Path) -> Iterator[Path]:
    """`path` itself, or the files with variables in and below it when it is a directory, by name.

    Without hidden files and backups, other extensions, and directories whose name has an extension.
    """
    if not path.is_dir():
        yield path
        return
    for inner in listed(path):
        if inner.name.startswith(".") or inner.name.endswith("~"):
            continue
        if inner.is_dir():
            if not inner.suffix:
                yield from variable_files(inner)
        elif inner.suffix in EXTENSIONS:
            yield inner


def ignored(name: str) -> bool:
    """Whether nobody takes a file of this name for one with hosts or variables."""
    return bool(_IGNORED.fullmatch(name))


def listed(directory: Path) -> list[Path]:
    """What is in a directory, by name. Raises InventoryError."""
    try:
        return sorted(directory.iterdir(), key=lambda path: path.name)
    except OSError as error:
        raise InventoryError(
            f"cannot read {directory}: {error.strerror}", "make it a directory that you can read"
        ) from error
