"""The directory that a run writes to, as the profiler and its parser will see it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import CollectError, EnvironmentUnfit, StorageError
from ..estimate import Need
from ..survey import Facts
from .check import Check, failed, ok, warned

ACCEPTED = re.compile(r"[A-Za-z0-9_./-]+")  # by every release of the profiler and of msprof
NETWORK = re.compile(r"nfs|cifs|smb|9p|afs|ceph|lustre|gpfs|glusterfs|beegfs|panfs|fuse\.(?!overlay)")
OTHERS_MAY_WRITE = 0o022
ANOTHER = "name another directory with `workdir` in the inventory"
LOCAL = "name a directory on a local disk with `workdir` in the inventory"


def checks(facts: Facts, need: Need) -> Iterator[Check]:
    yield path(facts)
    yield writable(facts)
    yield space(facts, need)
    yield inodes(facts, need)
    if facts.output is not None:
        yield files(facts)
        yield owner(facts)
        yield mode(facts)
        yield database(facts)
    yield file_system(facts)


def path(facts: Facts) -> Check:
    if ACCEPTED.fullmatch(facts.workdir):
        return ok("output-path", f"{facts.workdir}: the profiler accepts its characters")
    rejected = "".join(sorted(set(re.sub(r"[A-Za-z0-9_./-]", "", facts.workdir))))
    return failed(
        "output-path",
        EnvironmentUnfit(
            f"the Ascend profiler rejects paths like {facts.workdir!r}, for {rejected!r}",
            "give a `workdir` of letters, digits, '_', '-', '.' and '/' in the inventory",
        ),
    )


def writable(facts: Facts) -> Check:
    """The directory, and what earlier runs, perhaps another account's, have left of ours in it."""
    if not facts.workdir_writable:
        return failed("output-writable", EnvironmentUnfit(f"cannot write to {facts.workdir} {facts.place}", ANOTHER))
    blocked = facts.output and facts.output["blocked"]
    if blocked:
        return failed(
            "output-writable",
            EnvironmentUnfit(
                f"cannot write {facts.place}: {blocked}",
                f"{ANOTHER}, one for each account; or have its owner move it away",
            ),
        )
    return ok("output-writable", f"{facts.workdir} can be written")


def space(facts: Facts, need: Need) -> Check:
    have, wanted = facts.free_bytes >> 20, need.bytes >> 20
    if facts.free_bytes >= need.bytes:
        return ok("output-space", f"{have} MiB free, {wanted} MiB needed (20 times what is recorded)")
    return failed(
        "output-space",
        StorageError(
            f"not enough space {facts.place} in {facts.workdir}: need at least {wanted} MiB, have {have} MiB",
            f"free some, ask for fewer steps, or {ANOTHER}",
        ),
    )


def inodes(facts: Facts, need: Need) -> Check:
    if facts.free_inodes is None:
        return ok("output-inodes", "the file system does not count inodes")
    if facts.free_inodes >= need.inodes:
        return ok("output-inodes", f"{facts.free_inodes} inodes free, {need.inodes} needed")
    return failed(
        "output-inodes",
        StorageError(
            f"not enough inodes {facts.place} in {facts.workdir}: "
            f"need at least {need.inodes}, have {facts.free_inodes}",
            f"remove files there, or {ANOTHER}",
        ),
    )


def files(facts: Facts) -> Check:
    """`facts.output` is there: the directory can be written."""
    assert facts.output is not None  # noqa: S101
    problem = facts.output["failed"]
    if problem is None:
        return ok("output-files", "a directory and a file were made, written, renamed and removed")
    full = re.search("No space left|quota", problem)
    kind: type[CollectError] = StorageError if full else EnvironmentUnfit
    return failed("output-files", kind(f"cannot use {facts.workdir} {facts.place}: {problem}", LOCAL))


def owner(facts: Facts) -> Check:
    """The parser wants data of root or of its own user (torch_npu 2.13.0, _cann_export.py)."""
    assert facts.output is not None  # noqa: S101
    uid, euid = facts.output["uid"], facts.output["euid"]
    if uid in (None, 0, euid):
        return ok("output-owner", f"files belong to {'root' if uid == 0 else f'uid {euid}, this session'}")
    return failed(
        "output-owner",
        EnvironmentUnfit(
            f"{facts.workdir} gives files to uid {uid}, this session is uid {euid}: the Ascend parser refuses them",
            LOCAL,
        ),
    )


def mode(facts: Facts) -> Check:
    """The parser wants directories that nobody else may write to (torch_npu 2.13.0, _path_manager.py)."""
    assert facts.output is not None  # noqa: S101
    found = facts.output["mode"]
    if found is None or not found & OTHERS_MAY_WRITE:
        return ok("output-mode", "nobody else may write to new directories")
    return failed(
        "output-mode",
        EnvironmentUnfit(
            f"{facts.workdir} makes directories that others may write to (mode {found:o} under umask 027): the Ascend "
            "parser refuses them",
            LOCAL,
        ),
    )


def database(facts: Facts) -> Check:
    assert facts.output is not None  # noqa: S101
    problem = facts.output["sqlite"]
    if problem is None:
        return ok("output-database", "a SQLite database was written and read")
    return failed(
        "output-database",
        EnvironmentUnfit(f"SQLite does not work in {facts.workdir}: {problem}; the Ascend parser needs it", LOCAL),
    )


def file_system(facts: Facts) -> Check:
    kind = facts.file_system or "unknown"
    if NETWORK.match(kind):
        return warned("output-file-system", f"{facts.workdir} lies on {kind}: parsing is slow or fails there", LOCAL)
    return ok("output-file-system", f"{facts.workdir} lies on {kind}")
