"""Every way a command can end badly: one class a cause, each with its exit code.

An error is one sentence that says what is wrong (`message`) and one that says what to do (`remedy`). The pipeline adds
where it happened (`stage`, `host`) and, for a run that failed, the end of its log. Nothing else decides an exit status.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator
from pathlib import Path

from collect_agent.failure import Failure

from .shape import printable

LONGEST = 500  # characters of a message that somebody else wrote


class CollectError(Exception):
    """Root of all errors this package raises on purpose."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "", *, stage: str = "", host: str = "") -> None:
        super().__init__(message)
        self.kind = type(self).__name__  # as it stands in `--json` output
        self.message = message
        self.remedy = remedy
        self.stage = stage
        self.host = host
        self.log: tuple[str, ...] = ()

    def to_json(self) -> dict[str, str]:
        return {
            "kind": self.kind,
            "message": self.message,
            "remedy": self.remedy,
            "stage": self.stage,
            "host": self.host,
        }


class UsageError(CollectError):
    """The command line asks for something that cannot be."""

    exit_code = 2


class InventoryError(UsageError):
    """The inventory file is missing, malformed or inconsistent."""


class ConnectError(CollectError):
    """The host could not be reached or did not let us in."""

    exit_code = 3


class UnreachableError(ConnectError):
    """No TCP connection, no SSH banner, or the connection was lost and did not come back."""


class LoginHangs(UnreachableError):
    """We are in, and the account's login scripts do not come to an end; or the network stands still."""


class AuthError(ConnectError):
    """The host refused the user or the key."""


class HostKeyError(ConnectError):
    """The host's key is unknown or not the one we know."""


class NoFreeDevice(CollectError):
    """Every NPU is occupied, unhealthy, leased, or outside what was asked for."""

    exit_code = 4


class EnvironmentUnfit(CollectError):
    """Something the run needs is not on the host: Python, torch_npu, msprof, npu-smi, space."""

    exit_code = 5


class RunFailed(CollectError):
    """The run on the host ended without a profile: the model raised, hung, or the profiler failed."""

    exit_code = 6


class ProfileInvalid(CollectError):
    """There is a profile, and it does not pass its checks."""

    exit_code = 7


class TransferError(CollectError):
    """The archive could not be brought here whole, or could not be stored."""

    exit_code = 8


class StorageError(TransferError):
    """A disk is full or a directory cannot be written, here or on the host."""


class Interrupted(CollectError):
    """The user pressed Ctrl-C; the run on the host was stopped."""

    exit_code = 130


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
    if error["kind"].startswith("NpuSmi"):
        unfit = EnvironmentUnfit(message, remedy, stage=stage, host=host)
        unfit.kind = error["kind"]
        return unfit
    return classes.get(error["kind"], RunFailed)(message, remedy, stage=stage, host=host)


def storage_error(directory: Path, error: OSError) -> StorageError:
    """What the operating system says of a directory here."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StorageError(
        f"cannot write to {directory}: {error.strerror or error}",
        "free some space, or write elsewhere with --out" if full else "choose a directory you may write to with --out",
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
    return StorageError(
        f"a disk of the host is full: {one_line(full[-1])}",
        "free some space there, also in /tmp, or name another directory with `workdir` in the inventory",
    )


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """What the agent's pure parts raise when they are used here, as errors of ours."""
    try:
        yield
    except Failure as failure:
        raise from_agent(failure.to_json()) from failure
