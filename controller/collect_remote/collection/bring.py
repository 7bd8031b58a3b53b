"""From a run on a host to its published result: follow -> pull -> verify -> publish.

A result is brought as soon as it is packed, while the host reads it back; it is published when that has gone well.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from collect_agent.events import Event
from collect_agent.output import archive
from collect_agent.output.manifest import stages
from collect_agent.output.tarstream import ArchiveError
from collect_agent.run.rundir import ARCHIVE, PARTIAL

from ..errors import CollectError, ConnectError, Interrupted, TransferError, Trouble, UnreachableError
from ..parallel import in_background
from ..results import store
from ..results.profile import Profile
from ..ssh.stream import Stream
from . import transfer
from .run import Over, Run, failed
from .session import Log
from .wire import Sent, checked_manifest, partial_manifest, sent_files

DAMAGED = Trouble(
    "archive-damaged",
    TransferError,
    "{what}",
    "what came is not what the host has packed, or is no archive of ours; nothing of it is published",
    "bring it again",
    (
        "the pulled archive ends early: the gzip stream is not closed",
        "the pulled archive member '../evil' leaves the target directory",
    ),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Brought:
    """What a run has packed, here and verified: the manifest of its archive, and the files, the archive first."""

    manifest: dict[str, Any]
    files: tuple[Sent, ...]


def bring(run: Run, place: store.Place, asked: Mapping[str, Any], log: Log) -> Profile:
    """Follow `run` until its result is packed, and publish that; `asked` is what it was started with.

    Raises the CollectError that says what went wrong, in the run or here; of a profile that is not valid, what there is
    of it is here then, if the run was asked to salvage it.
    """
    with brought(run, place, asked, log) as result:
        _publish(place, result.manifest, result.files, log)
        log.kept = f"the result is in {place.final}"
    return Profile(place.final, result.manifest, place.final / ARCHIVE)


@contextlib.contextmanager
def brought(
    run: Run, place: store.Place, asked: Mapping[str, Any], log: Log, on_event: Callable[[Event], None] | None = None
) -> Iterator[Brought]:
    """The result of `run` in `place.incoming`; the host removes its own when the block is left well.

    `on_event`: told of the run's events when they are logged. Raises as `bring`.
    """
    event = _follow(run, log, on_event, may_go_on=not asked["orphan_s"])
    if event.get("status") == "failed":
        error = failed(event)
        if "files" in event:
            log.kept = _kept(run, place)
            error.remedy += f"; {_salvage(run, sent_files(event['files'], PARTIAL), store.partial(place), asked, log)}"
            log.kept = ""
        raise error
    log.kept = _kept(run, place)
    manifest: dict[str, Any] = {}

    def verify(file: Sent) -> None:
        digested = in_background(lambda: transfer.verify(place.incoming, file))
        try:
            if file.name == ARCHIVE:
                log(stage="verify")
                manifest.update(checked_manifest(_read(place.incoming / ARCHIVE), asked))
        finally:
            digested.result()  # what arrived damaged is told as that

    files = sent_files(event["files"], ended=event["stage"] == "end")
    try:
        with transfer.Sink(place.incoming, files, verify) as sink, _pulled(run, sink, log) as stream:
            yield Brought(manifest, sink.files)
            with contextlib.suppress(UnreachableError):
                stream.send(b"ok\n")  # lost, it costs the host some space and us nothing
                stream.status()  # comes when the run is removed there: what we say is done is done
    except Over as over:
        log.kept = ""  # there is no result
        raise over.error from None


def _kept(run: Run, place: store.Place) -> str:
    out = "" if place.latest else f" --out {shlex.quote(str(place.final))}"
    return f"the result is kept on the host in {run.directory}: `{run.attach}{out}` brings it"


def _salvage(run: Run, files: tuple[Sent, ...], place: store.Place, asked: Mapping[str, Any], log: Log) -> str:
    """Bring what is not valid, and say what has become of it; the host keeps all of it."""
    if os.path.lexists(place.final):
        return f"what there is of it is in {place.final} already"
    try:
        verify = functools.partial(transfer.verify, place.incoming)
        with transfer.Sink(place.incoming, files, verify) as sink, _pulled(run, sink, log):
            _publish(place, partial_manifest(_read(place.incoming / PARTIAL), asked), files, log)
    except CollectError as error:
        return f"what there is of it could not be brought: {error.message}; `{run.attach}` tries it again"
    return f"what there is of it was brought to {place.final / PARTIAL}"


def _pulled(run: Run, sink: transfer.Sink, log: Log) -> Stream:
    def moved(done: int, of: int) -> None:
        if not sink.has(sink.archive):  # what follows it is small
            log(stage="pull", bytes=done, of=of)

    moved(sink.received, sink.received + sink.left)
    return transfer.pull(run, sink, moved)


def _publish(place: store.Place, manifest: dict[str, Any], files: tuple[Sent, ...], log: Log) -> None:
    log(stage="publish")
    manifest["archive"] = dataclasses.asdict(files[0])
    manifest["stages"] = stages(log.events)
    store.publish(place, manifest)


def _follow(run: Run, log: Log, on_event: Callable[[Event], None] | None, *, may_go_on: bool) -> Event:
    """Follow the run to the event that announces what it has to send, or tells why there is nothing.

    Whatever else ends the following, the run is not left behind, unless it `may_go_on` without us.
    """
    try:
        with contextlib.closing(run.events()) as events:
            for event in events:
                if event["stage"] == "end":
                    break
                if event["stage"] == "pack":
                    run.remote.prepare()  # to pull
                log(**{name: value for name, value in event.items() if name != "files"})
                if on_event:
                    on_event(event)
                if "files" in event:
                    break
    except KeyboardInterrupt as interrupt:
        state = f"run {run.id} goes on: {run.how_to_go_on}" if may_go_on else stopped(run)
        error = Interrupted(f"interrupted: {state}")
        error.of_run = run.stopped
        raise error from interrupt
    except ConnectError:
        raise  # it could not be stopped either; it ends by itself
    except BaseException:
        stopped(run)
        raise
    return event


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
