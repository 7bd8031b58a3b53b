"""What commands say: results on stdout, as text or as one JSON document; errors on stderr."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from typing import Any

from ..errors import CollectError, StorageError

PAGE = "docs/troubleshooting.md"
_WRITABLE = "see where its stdout goes: give it a file or a pipe that takes what is written"


def prepare() -> None:
    """StorageError, before anything is done, when stdout is closed. Nobody wants to read a closed stderr."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open to the end
    if sys.stdout is None:
        raise StorageError("stdout is closed: the result could not be told", _WRITABLE)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what its encoding lacks; stderr does so by itself


def complain(error: CollectError, as_json: bool) -> None:
    with contextlib.suppress(OSError):  # nobody may be reading
        explain(error)
    if as_json and sys.stdout is not None:
        with contextlib.suppress(StorageError):  # that is what was complained of
            print_json({"error": error.to_json()})


def put(text: str) -> None:
    """To stdout, at once. StorageError when it does not take that; BrokenPipeError when nobody reads any more."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        mute()
        raise StorageError(f"cannot write the result to stdout: {error.strerror or error}", _WRITABLE) from error


def mute() -> None:
    """What stdout did not take is lost: Python would try again, and complain, when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def explain(error: CollectError) -> None:
    for line in error.log:
        sys.stderr.write(f"    | {line}\n")
    where = f"{error.host}: " if error.host and error.host not in error.message else ""
    during = f" (while {error.stage})" if error.stage else ""
    sys.stderr.write(f"error: {where}{error.message}{during}\n")
    if error.remedy:
        sys.stderr.write(f"  try: {error.remedy}\n")
    sys.stderr.write(f"  see: {page(error.entry)}\n")


def warn(message: str, remedy: str) -> None:
    """Of what is no error. Nobody may be reading."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"warning: {message}\n  try: {remedy}\n")


def page(entry: str) -> str:
    """Where an entry of the troubleshooting page is. Pure."""
    return f"{PAGE}#{entry}"


def print_json(document: Any) -> None:
    put(json.dumps(document, indent=1, default=str) + "\n")


def show(options: argparse.Namespace, document: Any, text: str, done: str = "") -> None:
    """The result; `done` is what an error must not make forget."""
    try:
        if options.json:
            print_json(document)
        else:
            put(text)
    except StorageError as error:
        error.remedy = "; ".join(filter(None, (error.remedy, done)))
        raise
