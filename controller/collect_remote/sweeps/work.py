"""One attempt at a cell: a plain function with plain data in and out, wherever it runs.

It may be called again for an attempt that was begun before, by a tool that was killed or on a worker that was lost:
then what that one has left is looked for first, published here or going on there.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from collect_agent.events import Event

from ..cancel import Cancel
from ..collection import manage
from ..collection.pipeline import collect, fall_back, fallback_id
from ..errors import CollectError, ConnectError, Interrupted, ProfileInvalid, TransferError, internal
from ..inventory import Host
from ..request import Request
from ..results.profile import Profile
from ..routes.choose import model_of
from .cells import Outcome
from .summary import summarize, versions


@dataclass(frozen=True, slots=True)
class Task:
    """What to run, on which host, under which id; `request.out` is where its result goes.

    again: it may have been begun before.
    """

    host: Host
    request: Request
    run_id: str
    again: bool = False


def perform(task: Task, on_event: Callable[[Event], None] | None = None, cancel: Cancel | None = None) -> Outcome:
    """How it ended; nothing is raised."""
    stopped = "lost" if task.again else "failed"  # not by us
    try:
        profile = _earlier(task, on_event, cancel) if task.again else None
        if profile is None:
            stopped = "failed"
            profile = collect(task.request, task.host, on_event, cancel=cancel, run_id=task.run_id)
        return Outcome(
            "valid",
            directory=str(profile.directory),
            summary=summarize(profile),
            versions=versions(profile),
        )
    except Interrupted as error:
        asked = cancel is not None and cancel.is_set
        return ended(error, task.host.name, "interrupted" if asked else stopped)
    except CollectError as error:
        return ended(error, task.host.name)
    except KeyboardInterrupt as error:
        return ended(Interrupted(f"interrupted: {error}"), task.host.name, "interrupted")
    except Exception as error:  # noqa: BLE001 - one cell must not end the sweep
        return ended(internal(error), task.host.name)


def ended(error: CollectError, host: str, state: str = "failed") -> Outcome:
    """What was lost on the way may be there, whole; what the run itself has ended with is all there is of it."""
    lost = isinstance(error, (ConnectError, TransferError, Interrupted)) and not error.of_run
    return Outcome(state, told(error, host), left=lost)


def told(error: CollectError, host: str) -> dict[str, object]:
    """An error as plain data, with the entries of its class and of those above, by which it may be tried again."""
    error.host = error.host or host
    kinds = [cls.kind_entry for cls in type(error).__mro__ if issubclass(cls, CollectError)]
    return {**error.to_json(), "kinds": list(dict.fromkeys(kinds)), "exit_code": error.exit_code}


def _earlier(task: Task, on_event: Callable[[Event], None] | None, cancel: Cancel | None) -> Profile | None:
    """What came of the attempt before; None when there is nothing of it. The errors of `collect` when it failed."""
    out = task.request.out
    if out is not None and out.is_dir():
        profile = Profile.at(out)
        if profile.verdict != "valid":
            raise ProfileInvalid(
                f"run {task.run_id} came to a profile that is {profile.verdict}; what there is of it is in {out}",
                f"`collect-remote validate {out}` shows why",
            )
        with contextlib.suppress(CollectError):  # it may have been removed there, and need not be
            manage.clean(task.host, [profile.manifest["run_id"]], results=True)
        return profile
    fallback = model_of(task.request, task.host).fallback
    for run_id in ([fallback_id(task.run_id)] if fallback else []) + [task.run_id]:
        try:
            return manage.attach(
                *(task.host, run_id),
                out=out,
                reconnect_for=task.request.reconnect_for,
                on_event=on_event,
                cancel=cancel,
            )
        except CollectError as error:
            if error.entry in (manage.NO_RUN.id, manage.NEVER_STARTED.id):
                continue
            if run_id != task.run_id:
                raise
            return fall_back(task.request, task.host, error, run_id, on_event, cancel)
    return None


def placed(request: Request, root: Path, run_id: str) -> Request:
    """The request with a place for its result: as in `store`, below the directory of the sweep."""
    return dataclasses.replace(request, out=root / request.host / request.model / run_id)
