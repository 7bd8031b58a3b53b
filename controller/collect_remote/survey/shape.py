"""What the programs of the survey answer, and what an engine says of a container: read, and checked as a whole."""

from __future__ import annotations

import json
import re
from typing import Any

from ..errors import EnvironmentUnfit, one_line
from ..shape import ANY_NAME, Maybe, Null, misfit, parsed, printable

_TEXT, _NULL_OR_TEXT = Maybe(str), Null(str)
_ANSWER = (int, str)  # exit status and text of a program
_BY_NUMBER = re.compile(r"[0-9]{1,9}")
# Of `collect_agent.npu.look`.
NPU = {
    "npu_smi": _NULL_OR_TEXT,
    "in_container": bool,
    **dict.fromkeys(("info", "mapping", "list", "torch"), Maybe(_ANSWER)),
    **dict.fromkeys(("usages", "processes"), Maybe({_BY_NUMBER: _ANSWER})),
    "owners": Maybe({_BY_NUMBER: (str, str)}),
}
# Of `onhost.project`.
PROJECT = {
    "path": str,
    **dict.fromkeys(("problem", "program"), _NULL_OR_TEXT),
    "entries": [str],
    "texts": {ANY_NAME: str},
    "reached": {ANY_NAME: [str]},
    "hits": {ANY_NAME: [str]},
    "versions": {ANY_NAME: _NULL_OR_TEXT},
}
# Of `onhost.facts`.
FACTS = {
    "python": {"path": str, "version": (int, int, int), "why": str, "others": [str]},
    "versions": dict.fromkeys(("torch", "torch_npu", "transformers", "diffusers"), _NULL_OR_TEXT),
    "agent_present": bool,
    "nodes": [int],
    "models": {ANY_NAME: _NULL_OR_TEXT},
    "environment": {ANY_NAME: str},
    "workdir": str,
    "workdir_writable": bool,
    "free_bytes": int,
    "free_inodes": Null(int),
    "file_system": _NULL_OR_TEXT,
    "mount": {"point": _NULL_OR_TEXT, "id": Null([int])},
    "output": Null(
        {
            **dict.fromkeys(("failed", "sqlite", "blocked"), _NULL_OR_TEXT),
            **dict.fromkeys(("uid", "mode"), Null(int)),
            "euid": int,
        }
    ),
    "path": str,
    **dict.fromkeys(("msprof", "msprof_py", "visible_devices", "cann", "cann_place", "driver_version"), _NULL_OR_TEXT),
    "cann_version": _NULL_OR_TEXT,
    "npu": NPU,
    "project": Null(PROJECT),
}
# Of `onhost.outside`.
OUTSIDE = {
    "python": str,
    "version": (int, int, int),
    "workdir": str,
    "agent_present": bool,
    "npu": NPU,
    "sources": {ANY_NAME: Null([int])},
}
# Of `onhost.trial`.
TRIAL = {"status": int, "seconds": float, "text": str}
# Of `inspect`, whichever engine.
INSPECTED = {
    "Id": str,
    **dict.fromkeys(("Name", "ImageName", "Image"), _TEXT),
    "State": Maybe({"Paused": Maybe(bool), "Running": Maybe(bool), "Status": _TEXT}),
    "Config": Maybe({"Image": _TEXT, "User": _TEXT}),
    "Mounts": Maybe([{"Source": _TEXT, "Destination": _TEXT, "RW": Maybe(bool)}]),
    "HostConfig": Maybe({"Devices": Maybe([{"PathInContainer": _TEXT, "PathOnHost": _TEXT}])}),
}


def read(text: str, shape: Any, who: str) -> dict[str, Any]:
    """An answer of `who` as data. EnvironmentUnfit when it is none of that shape.

    What may be shown is fit for a terminal; the environment is as it was, byte for byte, and npu-smi's text has lines.
    """
    try:
        told = parsed(text)
        where = misfit(told, shape)
        if where is None:
            exact = json.loads(text)
            kept = {"environment": exact["environment"]} if "environment" in shape else {}
            read_by_line = {name: _by_lines(exact[name]) for name in ("npu", "text") if name in shape}
            if told.get("project") and "project" in shape:
                read_by_line["project"] = _project(told["project"], exact["project"]["texts"])
            return {**told, **kept, **read_by_line}
        what = f"its `{one_line(where)}` has another form" if where else one_line(text)
    except ValueError as error:
        what = str(error)
    raise EnvironmentUnfit(
        f"{who} answers the survey in words that are not ours: {what}",
        "see that no login script and no other Python of that name answers in its place",
    )


def _project(told: dict[str, Any], texts: dict[str, str]) -> dict[str, Any]:
    """Of a project the texts have lines; the names of its files are shown, whatever characters they have."""
    named = {field: {printable(name): told[field][name] for name in told[field]} for field in ("reached", "versions")}
    return {**told, **named, "texts": {printable(name): _by_lines(text) for name, text in texts.items()}}


def _by_lines(value: Any) -> Any:
    """`printable` for what is read by lines."""
    if isinstance(value, str):
        return "\n".join(map(printable, value.splitlines()))
    if isinstance(value, dict):
        return {name: _by_lines(part) for name, part in value.items()}
    return [_by_lines(part) for part in value] if isinstance(value, list) else value
