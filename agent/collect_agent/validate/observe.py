"""Files of a profile, each read once and in any order, into `Facts`."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from ..trace import reading
from ..trace.stream import CHUNK, Damage, buffered
from . import aggregates, communication, database, kernels, messages
from .facts import INFO_NAME, OUTPUT, Facts, FileFact, Info

MAX_DOCUMENT = 4 << 20  # decoded, it takes ten times that


class File(NamedTuple):
    """A file of a profile. `path` is relative to the profile; `place` is where it lies, None inside an
    archive.
    """

    path: str
    size: int
    mtime: int
    raw: io.RawIOBase
    place: Optional[str] = None


def split(path: str) -> Optional[Tuple[str, str]]:
    """(profile directory, path in it) for the path of a file below some root; None when it belongs to no
    profile.

    A profile is a directory named `*_ascend_pt`, as torch_npu names them, or one that holds
    `profiler_info*.json` or `ASCEND_PROFILER_OUTPUT` under another name.
    """
    parts = path.split("/")
    for count, part in enumerate(parts[:-1]):
        if part == OUTPUT:
            return "/".join(parts[:count]), "/".join(parts[count:])
        if part.endswith("_ascend_pt"):
            return "/".join(parts[: count + 1]), "/".join(parts[count + 1 :])
    if INFO_NAME.match(parts[-1]):
        return "/".join(parts[:-1]), parts[-1]
    return None


def observe(facts: Facts, file: File) -> None:
    """Read `file` as far as it tells something, into `facts`; damage is a fact too."""
    facts.files[file.path] = FileFact(file.size, file.mtime)
    folder, _, name = file.path.rpartition("/")
    try:
        if not folder and INFO_NAME.match(name):
            facts.info = Info(name, _document(file))
        elif not folder and name.endswith(".json"):
            _document(file)
        elif folder == "logs":
            _merge(facts, messages.read(file.raw))
        elif folder == OUTPUT and name.endswith(".db"):
            facts.databases[name] = _database(file)
        elif folder == OUTPUT and name == "trace_view.json":
            facts.trace = reading.read(file.raw, file.size)
        elif folder == OUTPUT and name in _READERS:
            setattr(facts, *_READERS[name](file.raw))
        elif folder == OUTPUT and name.endswith(".csv"):
            aggregates.other(file.raw, name)
        elif folder == OUTPUT and name == "communication.json":
            facts.collectives = communication.starts(_document(file))
        elif folder == OUTPUT and name.endswith(".json"):
            _document(file)
    except ImportError:
        pass  # no sqlite3 in this Python: the check of databases finds the file unread
    except Damage as damage:
        facts.damage[file.path] = str(damage)


_READERS: Dict[str, Callable[[io.RawIOBase], Tuple[str, Any]]] = {
    "kernel_details.csv": lambda raw: ("kernels", kernels.read(raw)),
    "step_trace_time.csv": lambda raw: ("step_times", aggregates.step_times(raw)),
    "op_statistic.csv": lambda raw: ("op_statistic", aggregates.op_statistic(raw)),
    "api_statistic.csv": lambda raw: ("api_statistic", aggregates.api_statistic(raw)),
}


def _document(file: File) -> Dict[str, Any]:
    """The JSON object in `file`; an empty one for a file too large to decode, which has to look like one."""
    source = buffered(file.raw)
    text = source.read(MAX_DOCUMENT + 1)
    if len(text) > MAX_DOCUMENT:
        _look_at_ends(text, source)
        return {}
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damage("is not JSON: %s" % error) from error
    if not isinstance(document, dict):
        raise Damage("is not a JSON object")
    return document


def _look_at_ends(text: bytes, rest: io.BufferedReader) -> None:
    """Damage when what begins with `text` and goes on with `rest` is no whole JSON object, as far as its ends tell."""
    if text.lstrip()[:1] != b"{":
        raise Damage("is not a JSON object")
    end = b""
    while text:
        if b"\0" in text:
            raise Damage("holds NUL bytes")
        end, text = text.rstrip()[-1:] or end, rest.read(CHUNK)
    if end != b"}":
        raise Damage("is truncated: it does not end as a JSON object")


def _database(file: File) -> database.Database:
    if file.place:
        return database.read(file.place)
    with tempfile.NamedTemporaryFile(suffix=".db") as copy:  # SQLite seeks, an archive does not
        shutil.copyfileobj(file.raw, copy, CHUNK)
        copy.flush()
        return database.read(copy.name)


def _merge(facts: Facts, found: "list[messages.Found]") -> None:
    known = {item.message.id: item for item in facts.messages}
    for item in found:
        before = known.get(item.message.id)
        known[item.message.id] = before._replace(times=before.times + item.times) if before else item
    facts.messages = list(known.values())
