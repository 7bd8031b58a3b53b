"""The directory that a run writes to, as the profiler and its parser will see it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..errors import CollectError, EnvironmentUnfit, StorageError
from ..survey.survey import Facts
from .check import Check, Subject, failed, ok, warned
from .estimate import Need

ACCEPTED = re.compile(r"[A-Za-z0-9_./-]+")  # by every release of the profiler and of msprof
NETWORK = re.compile(r"nfs|cifs|smb|9p|afs|ceph|lustre|gpfs|glusterfs|beegfs|panfs|fuse\.(?!overlay)")
OTHERS_MAY_WRITE = 0o022
ANOTHER = "name another directory with `workdir` in the inventory"
LOCAL = "name a directory on a local disk with `workdir` in the inventory"


PATH = Subject(
    "output-path",
    "the real path of `workdir` has only characters that every release of the profiler accepts",
    "give a `workdir` of letters, digits, '_', '-', '.' and '/' in the inventory",
    "the Ascend profiler rejects paths like {workdir!r}, for {rejected!r}",
)
WRITABLE = Subject(
    "output-writable",
    "it, or the nearest of its parents that exists, can be written; so can `runs` and `agent` in it, where they "
    "are there",
    f"{ANOTHER}, one for each account",
    "cannot write to {workdir} {place}",
)
SPACE = Subject(
    "output-space",
    "20 times what is going to be recorded is free: 1 MiB a step at Level1 is reckoned, half at Level0, two at "
    "Level2, four times that with stacks, twice with shapes or memory; never less than 256 MiB",
    f"free some, ask for fewer steps, or {ANOTHER}",
    "not enough space {place} in {workdir}: need at least {wanted} MiB, have {have} MiB",
)
INODES = Subject(
    "output-inodes",
    "2,000 inodes a window are free",
    f"remove files there, or {ANOTHER}",
    "not enough inodes {place} in {workdir}: need at least {wanted}, have {have}",
)
FILES = Subject(
    "output-files",
    "a directory and a file can be made, written, renamed, and removed",
    LOCAL,
    "cannot use {workdir} {place}: {problem}",
)
OWNER = Subject(
    "output-owner",
    "they belong to root or to this user: the parser refuses others (NFS with root_squash, mapped containers)",
    LOCAL,
    "{workdir} gives files to uid {uid}, this session is uid {euid}: the Ascend parser refuses them",
)
MODE = Subject(
    "output-mode",
    "nobody else may write to a new directory under umask 027: the parser refuses such",
    LOCAL,
    "{workdir} makes directories that others may write to (mode {mode:o} under umask 027): the Ascend parser refuses "
    "them",
)
DATABASE = Subject(
    "output-database",
    "SQLite works there (network file systems may have no locks)",
    LOCAL,
    "SQLite does not work in {workdir}: {problem}; the Ascend parser needs it",
)
FILE_SYSTEM = Subject(
    "output-file-system",
    "it is none of a network (a warning)",
    LOCAL,
    "{workdir} lies on {kind}: parsing is slow or fails there",
)


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
        return ok(PATH, f"{facts.workdir}: the profiler accepts its characters")
    rejected = "".join(sorted(set(re.sub(r"[A-Za-z0-9_./-]", "", facts.workdir))))
    return failed(PATH, EnvironmentUnfit(PATH.says.format(workdir=facts.workdir, rejected=rejected)))


def writable(facts: Facts) -> Check:
    """The directory, and what earlier runs, perhaps another account's, have left of ours in it."""
    if not facts.workdir_writable:
        return failed(WRITABLE, EnvironmentUnfit(WRITABLE.says.format(workdir=facts.workdir, place=facts.place)))
    blocked = facts.output and facts.output["blocked"]
    if blocked:
        remedy = f"{WRITABLE.remedy}; or have its owner move it away"
        return failed(WRITABLE, EnvironmentUnfit(f"cannot write {facts.place}: {blocked}", remedy))
    return ok(WRITABLE, f"{facts.workdir} can be written")


def space(facts: Facts, need: Need) -> Check:
    have, wanted = facts.free_bytes >> 20, need.bytes >> 20
    if facts.free_bytes >= need.bytes:
        return ok(SPACE, f"{have} MiB free, {wanted} MiB needed (20 times what is recorded)")
    says = SPACE.says.format(place=facts.place, workdir=facts.workdir, wanted=wanted, have=have)
    return failed(SPACE, StorageError(says))


def inodes(facts: Facts, need: Need) -> Check:
    if facts.free_inodes is None:
        return ok(INODES, "the file system does not count inodes")
    if facts.free_inodes >= need.inodes:
        return ok(INODES, f"{facts.free_inodes} inodes free, {need.inodes} needed")
    says = INODES.says.format(place=facts.place, workdir=facts.workdir, wanted=need.inodes, have=facts.free_inodes)
    return failed(INODES, StorageError(says))


def files(facts: Facts) -> Check:
    """`facts.output` is there: the directory can be written."""
    assert facts.output is not None  # noqa: S101
    problem = facts.output["failed"]
    if problem is None:
        return ok(FILES, "a directory and a file were made, written, renamed and removed")
    full = re.search("No space left|quota", problem)
    kind: type[CollectError] = StorageError if full else EnvironmentUnfit
    return failed(FILES, kind(FILES.says.format(workdir=facts.workdir, place=facts.place, problem=problem)))


def owner(facts: Facts) -> Check:
    """The parser wants data of root or of its own user (torch_npu 2.13.0, _cann_export.py)."""
    assert facts.output is not None  # noqa: S101
    uid, euid = facts.output["uid"], facts.output["euid"]
    if uid in (None, 0, euid):
        return ok(OWNER, f"files belong to {'root' if uid == 0 else f'uid {euid}, this session'}")
    return failed(OWNER, EnvironmentUnfit(OWNER.says.format(workdir=facts.workdir, uid=uid, euid=euid)))


def mode(facts: Facts) -> Check:
    """The parser wants directories that nobody else may write to (torch_npu 2.13.0, _path_manager.py)."""
    assert facts.output is not None  # noqa: S101
    found = facts.output["mode"]
    if found is None or not found & OTHERS_MAY_WRITE:
        return ok(MODE, "nobody else may write to new directories")
    return failed(MODE, EnvironmentUnfit(MODE.says.format(workdir=facts.workdir, mode=found)))


def database(facts: Facts) -> Check:
    assert facts.output is not None  # noqa: S101
    problem = facts.output["sqlite"]
    if problem is None:
        return ok(DATABASE, "a SQLite database was written and read")
    return failed(DATABASE, EnvironmentUnfit(DATABASE.says.format(workdir=facts.workdir, problem=problem)))


def file_system(facts: Facts) -> Check:
    kind = facts.file_system or "unknown"
    if NETWORK.match(kind):
        return warned(FILE_SYSTEM, FILE_SYSTEM.says.format(workdir=facts.workdir, kind=kind))
    return ok(FILE_SYSTEM, f"{facts.workdir} lies on {kind}")
