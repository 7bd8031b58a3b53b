"""From a run on a host to its published result: follow -> pull -> verify -> publish."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect_agent import archive
from collect_agent.manifest import stages
from collect_agent.rundir import ARCHIVE, PARTIAL
from collect_agent.tarstream import ArchiveError

from . import store, transfer
from .errors import CollectError, ConnectError, Interrupted, TransferError, Trouble, UnreachableError, from_agent
from .remote import Stream
from .run import Run
from .session import Log
from .wire import Sent, checked_manifest, log_lines, partial_manifest, sent_files

DAMAGED = Trouble(
    "archive-damaged",
    TransferError,
    "{what}",
    "what came is not what the host has packed, or is no archive of ours; nothing of it is kept here",
    "bring it again",
    (
        "the pulled archive ends early: the gzip stream is not closed",
        "the pulled archive member '../evil' leaves the target directory",
    ),
)


@dataclass(frozen=True, slots=True)
class Result:
    """A published profile: its directory and what its manifest says."""

    directory: Path
    manifest: dict[str, Any]

    @property
    def archive(self) -> Path:
        return self.directory / ARCHIVE


def bring(run: Run, place: store.Place, incoming: Path, asked: Mapping[str, Any], log: Log) -> Result:
    """Follow `run` to its end and publish what it has; `asked` is what it was started with.

    `incoming` is where the files grow. Raises the CollectError that says what went wrong, in the run or here; of a
    profile that is not valid, what there is of it is here then, if the run was asked to salvage it.
    """
    files, failed = _follow(run, log, may_go_on=not asked["orphan_s"])
    if failed:
        if files:
            failed.remedy += f"; {_salvage(run, files, store.partial(place), incoming, asked, log)}"
        raise failed
    log.kept = f"the result is kept on the host in {run.directory}: `{run.attach}` brings it"
    with _pulled(run, files, incoming, log) as stream:
        manifest = checked_manifest(_read(incoming / ARCHIVE), asked)
        _publish(place, manifest, files, log)
        log.kept = f"the result is in {place.final}"
        with contextlib.suppress(UnreachableError):
            stream.send(b"ok\n")  # lost, it costs the host some space and us nothing
            stream.status()  # comes when the run is removed there: what we say is done is done
    return Result(place.final, manifest)


def _salvage(
    run: Run, files: tuple[Sent, ...], place: store.Place, incoming: Path, asked: Mapping[str, Any], log: Log
) -> str:
    """Bring what is not valid, and say what has become of it; the host keeps all of it."""
    if os.path.lexists(place.final):
        return f"what there is of it is in {place.final} already"
    try:
        with _pulled(run, files, incoming, log):
            _publish(place, partial_manifest(_read(incoming / PARTIAL), asked), files, log)
    except CollectError as error:
        return f"what there is of it could not be brought: {error.message}"
    return f"what there is of it was brought to {place.final / PARTIAL}"


def _pulled(run: Run, files: tuple[Sent, ...], incoming: Path, log: Log) -> Stream:
    log(stage="pull", bytes=0, of=sum(file.size for file in files))
    stream = transfer.pull(run, files, incoming, lambda done, of: log(stage="pull", bytes=done, of=of))
    log(stage="verify")
    return stream


def _publish(place: store.Place, manifest: dict[str, Any], files: tuple[Sent, ...], log: Log) -> None:
    log(stage="publish")
    manifest["archive"] = next(dataclasses.asdict(file) for file in files if file.name in (ARCHIVE, PARTIAL))
    manifest["stages"] = stages(log.events)
    store.publish(place, manifest)


def _follow(run: Run, log: Log, *, may_go_on: bool) -> tuple[tuple[Sent, ...], CollectError | None]:
    """Follow the run to its end: the files it has to send, and the error of a bad one, with the end of its log.

    Whatever else ends the following, the run is not left behind, unless it `may_go_on` without us.
    """
    try:
        for event in run.events():
            if event["stage"] == "end":
                break
            if event["stage"] == "pack":
                run.remote.prepare()  # to pull
            log(**event)
    except KeyboardInterrupt as interrupt:
        state = f"run {run.id} goes on: {run.how_to_go_on}" if may_go_on else stopped(run)
        raise Interrupted(f"interrupted: {state}") from interrupt
    except ConnectError:
        raise  # it could not be stopped either; it ends by itself
    except BaseException:
        stopped(run)
        raise
    if event.get("status") == "done":
        return sent_files(event.get("files", [])), None
    error = from_agent(event["error"], stage=log.stage, host=run.remote.host.name)
    error.log = log_lines(event["log"])
    return (sent_files(event["files"], PARTIAL) if "files" in event else ()), error


def stopped(run: Run) -> str:
    """Stop the run on the host; what has become of it, in words."""
    try:
        left = run.stop()
    except (CollectError, KeyboardInterrupt) as error:
        why = str(error) or "interrupted again while stopping it"
        return f"run {run.id} may still be going on ({why}): {run.how_to_go_on}"
    what = f"pids {left} could not be ended" if left else "nothing of it is left and its device is free"
    return f"run {run.id} was stopped on {run.remote.host.name}, {what}"


def _read(path: Path) -> Any:
    """Read the pulled archive to its end, as the host did, and hold it against its manifest; that manifest."""
    try:
        return archive.check_archive(str(path))["manifest"]
    except ArchiveError as error:
        raise DAMAGED(what=f"the pulled {error}") from error
