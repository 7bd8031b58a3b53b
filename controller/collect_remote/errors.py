"""Every way a command can end badly: one class a cause, each with its exit code.

An error is one sentence that says what is wrong (`message`) and one that says what to do (`remedy`). The pipeline adds
where it happened (`stage`, `host`) and, for a run that failed, the end of its log. Nothing else decides an exit status.
Every error names its entry of docs/troubleshooting.md: that of its `Trouble`, else that of its class.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from collect_agent.failure import Failure

from .shape import printable

LONGEST = 500  # characters of a message that somebody else wrote


class CollectError(Exception):
    """A fault of the tool itself."""

    exit_code = 1
    kind_entry = "internal"
    advice = "run it again with `--debug`, and report what it shows"

    def __init__(self, message: str, remedy: str = "", *, stage: str = "", host: str = "", entry: str = "") -> None:
        super().__init__(message)
        self.kind = type(self).__name__  # as it stands in `--json` output
        self.message = message
        self.remedy = remedy
        self.stage = stage
        self.host = host
        self.log: tuple[str, ...] = ()
        self.of_run = False  # the run itself has ended with it: there is nothing to go on with
        self._entry = entry

    @property
    def entry(self) -> str:
        """Its heading in docs/troubleshooting.md."""
        return self._entry or self.kind_entry

    def belongs_to(self, entry: str) -> None:
        """What raised it did not know a better entry than that of its class; whoever handles it may."""
        self._entry = self._entry or entry

    def to_json(self) -> dict[str, str]:
        return {
            "kind": self.kind,
            "message": self.message,
            "remedy": self.remedy,
            "entry": self.entry,
            "stage": self.stage,
            "host": self.host,
        }


class UsageError(CollectError):
    """The command line asks for something that cannot be."""

    exit_code = 2
    kind_entry = "usage"
    advice = "see `collect-remote --help`, or `collect-remote COMMAND --help`"


class InventoryError(UsageError):
    """An inventory, or a file beside it, is missing, malformed or inconsistent."""

    kind_entry = "inventory"
    advice = "the message has file, line and column; [inventory.md](inventory.md) has every key"


class ConnectError(CollectError):
    """The host could not be reached or did not let us in."""

    exit_code = 3
    kind_entry = "connection"
    advice = "try `ssh HOST`; [connections.md](connections.md) says what is honoured of ~/.ssh/config"


class UnreachableError(ConnectError):
    """No TCP connection, no SSH banner, or the connection was lost and did not come back."""

    kind_entry = "unreachable"
    advice = "check that the host is up, the network on the way, and the load of the host"


class LoginHangs(UnreachableError):
    """We are in, and the account's login scripts do not come to an end; or the network stands still."""

    kind_entry = "login-hangs"


class AuthError(ConnectError):
    """The host refused the user or the key."""

    kind_entry = "login-refused"


class HostKeyError(ConnectError):
    """The host's key is unknown or not the one we know."""

    kind_entry = "host-key"
    advice = "see `host_key` in the inventory, and known_hosts"


class NoFreeDevice(CollectError):
    """Every NPU is occupied, unhealthy, leased, or outside what was asked for."""

    exit_code = 4
    kind_entry = "no-free-device"
    advice = "wait for one (`--wait 30m`), or see what `collect-remote devices --host HOST` says of every one"


class EnvironmentUnfit(CollectError):
    """Something the run needs is not on the host: Python, torch_npu, msprof, npu-smi, space."""

    exit_code = 5
    kind_entry = "host-unfit"
    advice = "`collect-remote doctor --host HOST` shows everything that would stop a collection there"


class RunFailed(CollectError):
    """The run on the host ended without a profile: the model raised, hung, or the profiler failed."""

    exit_code = 6
    kind_entry = "run-failed"
    advice = "read the end of the log, which is shown; all of it is in `<workdir>/runs/<run id>/run.log` on the host"


class ProfileInvalid(CollectError):
    """There is a profile, and it does not pass its checks."""

    exit_code = 7
    kind_entry = "profile-invalid"
    advice = "[checks.md](checks.md) says what every check looks at; `--salvage` brings what there is"


class TransferError(CollectError):
    """The archive could not be brought here whole, or could not be stored."""

    exit_code = 8
    kind_entry = "transfer"
    advice = "`collect-remote attach RUN --host HOST` brings it: a result stays on the host until it is published here"


class StorageError(TransferError):
    """A disk is full or a directory cannot be written, here or on the host."""

    kind_entry = "storage"
    advice = "free some space; `--out` here and `workdir` in the inventory name other directories"


class Interrupted(CollectError):
    """The user pressed Ctrl-C: what has become of the run is said."""

    exit_code = 130
    kind_entry = "interrupted"
    advice = "a run that was stopped is started again; what goes on, or has a result, is brought by `attach`"


def kinds() -> list[str]:
    """The entries of all classes, by which errors are told apart."""
    waiting, found = [CollectError], []
    for cls in waiting:
        found.append(cls.kind_entry)
        waiting += cls.__subclasses__()
    return found


E = TypeVar("E", bound=CollectError)


@dataclass(frozen=True, slots=True)
class Trouble(Generic[E]):
    """A kind of trouble: what we say of it, and an entry of docs/troubleshooting.md, which is made of these.

    `message` and `remedy` have the words of one case in braces; directly behind a word, what may be missing. `cause`:
    what they do not say. `seen`: what one reads when the message is in somebody else's words.
    """

    id: str
    error: type[E]
    message: str
    cause: str
    remedy: str
    seen: tuple[str, ...] = ()

    def __call__(self, **words: object) -> E:
        return self.error(self.message.format(**words), self.remedy.format(**words), entry=self.id)


def internal(error: Exception) -> CollectError:
    """A fault of ours, with the place where it came up."""
    place = error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    where = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place else ""
    return CollectError(
        f"internal error: {one_line(repr(error))}{where}", "run it again with --debug and report what it shows"
    )


def from_agent(error: dict[str, str], *, stage: str = "", host: str = "") -> CollectError:
    """The error that the agent reported, as one of ours; an unknown kind is a failed run.

    The failures of npu-smi are many, and all mean that the host is not fit: they keep their kind.
    """
    classes: dict[str, type[CollectError]] = {
        cls.__name__: cls
        for cls in (
            *(UsageError, NoFreeDevice, EnvironmentUnfit, RunFailed, ProfileInvalid),
            *(TransferError, StorageError, Interrupted),
        )
    }
    message, remedy = one_line(str(error["message"])), one_line(str(error["remedy"]))
    where = {"stage": stage, "host": host, "entry": error.get("entry", "")}
    if error["kind"].startswith("NpuSmi"):
        unfit = EnvironmentUnfit(message, remedy, **where)
        unfit.kind = error["kind"]
        return unfit
    return classes.get(error["kind"], RunFailed)(message, remedy, **where)


def storage_error(directory: Path, error: OSError, option: str = "--out") -> StorageError:
    """What the operating system says of a directory here, which `option` names."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StorageError(
        f"cannot write to {directory}: {error.strerror or error}",
        f"free some space, or write elsewhere with {option}"
        if full
        else f"choose a directory you may write to with {option}",
    )


def one_line(text: str, longest: int = LONGEST) -> str:
    """Somebody else's words, fit for a terminal: one line, no control characters, no flood."""
    plain = " ".join(printable(text).split())
    return plain if len(plain) <= longest else plain[:longest] + " ..."


def noise_error(lines: Iterable[str]) -> CollectError | None:
    """The error that stands in what a host printed besides what it was asked for, if it is one that we know.

    bash itself needs space, in /tmp, for a here-document; then no program of ours starts that could say so.
    """
    full = [line for line in lines if "No space left on device" in line]
    if not full:
        return None
    from collect_agent.troubles import NOT_WRITTEN  # every command imports us, and few need the tables

    return StorageError(
        f"a disk of the host is full: {one_line(full[-1])}",
        "free some space there, also in /tmp, or name another directory with `workdir` in the inventory",
        entry=NOT_WRITTEN.id,
    )


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """What the agent's pure parts raise when they are used here, as errors of ours."""
    try:
        yield
    except Failure as failure:
        raise from_agent(failure.to_json()) from failure
