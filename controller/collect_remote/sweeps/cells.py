"""The cells of a sweep: every host with every model in every phase, as plain data. Pure.

A cell is known by its key, and is the same only as long as everything that decides its result is: see `digest`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from ..errors import UsageError
from ..inventory import Host, ModelSpec
from ..request import Request

T = TypeVar("T")
# Of a cell's request, what does not change the profile, or has a place of its own in the cell.
_NOT_OF_THE_RESULT = ("out", "wait", "timeout", "reconnect_for", "salvage", "host", "model")


@dataclass(frozen=True, slots=True)
class Cell:
    """One profile of a sweep: what is asked of which host.

    `key`: its name there. `digest`: what it stands for. `model_digest`: of what its model is, on whichever host.
    """

    key: str
    host: str
    model: str
    request: Request
    digest: str
    model_digest: str = ""

    @property
    def phase(self) -> str:
        return self.request.phase or "default"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt at a cell ended. Plain data: it crosses processes, and the journal keeps it.

    state: "valid", "failed", "interrupted" (we were asked to leave; its run was stopped), or "lost" (an earlier tool's
    run is there and has no result: to be run anew). error: `CollectError.to_json` and `kinds`, the entries of its class
    and of those above it. directory: of the published result. summary: see `summary.summarize`. versions: of what took
    part, from the manifest. left: its run, or the result of it, may still be on the host, to go on with.
    """

    state: str
    error: Mapping[str, Any] | None = None
    directory: str | None = None
    summary: Mapping[str, Any] | None = None
    versions: Mapping[str, Any] = field(default_factory=dict)
    left: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """What the journal knows of a cell.

    state: "pending", "running", "valid", "failed". attempts: begun so far. run_id, began, ended: of the last of them,
    in seconds since the epoch. outcome: of the last that has ended. due: when it may be tried again.
    """

    cell: Cell
    state: str = "pending"
    attempts: int = 0
    run_id: str | None = None
    began: float | None = None
    ended: float | None = None
    outcome: Outcome | None = None
    due: float = 0.0


def cell(host: Host, request: Request, tool: str, more: str = "") -> Cell:
    """`tool`: the version of collect-remote and its agent. `more`: what tells the cell from others of the phase."""
    key = f"{request.host}/{request.model}/{request.phase or 'default'}{more}"
    model = model_digest(host.model(request.model))
    return Cell(key, request.host, request.model, request, digest(host, request, tool), model)


def digest(host: Host, request: Request, tool: str) -> str:
    """Of everything here that decides the result: the host, its model's parameters, the request, the tool.

    A user's own adapter counts by its text. The releases on the host are known after a run: see `schedule.stale`.
    """
    said = {name: value for name, value in _plain(host).items() if name != "models"}
    model = host.model(request.model)
    return _digest([said, asked_for(request), _plain(model), _own_adapter(model), tool])


def asked_for(request: Request) -> dict[str, Any]:
    """What of a request decides the profile, but for host and model."""
    return {name: value for name, value in _plain(request).items() if name not in _NOT_OF_THE_RESULT}


def model_digest(model: ModelSpec) -> str:
    """The same wherever hosts run the same model: of the `path` to it, which may differ, the last name counts."""
    options = {**model.options}
    if isinstance(options.get("path"), str):
        options["path"] = PurePosixPath(options["path"]).name
    return _digest([_own_adapter(model) or model.adapter, model.route, options])


def _own_adapter(model: ModelSpec) -> str:
    """The text of a user's own, the fallback's for a route; of others nothing. UsageError when it cannot be read."""
    if model.fallback is not None:
        return _own_adapter(model.fallback)
    adapter = model.adapter or ""
    try:
        return Path(adapter).read_text(encoding="utf-8", errors="replace") if adapter.endswith(".py") else ""
    except OSError as error:
        raise UsageError(f"cannot read the adapter of model {model.name}: {error}", "mend the file") from error


def _digest(document: Any) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _plain(thing: Any) -> dict[str, Any]:
    """Its fields, one level deep: mappings of an inventory need not be dicts."""
    return {name.name: getattr(thing, name.name) for name in dataclasses.fields(thing)}


def product(axes: Mapping[str, Iterable[T]]) -> list[dict[str, T]]:
    """Every combination, the last axis the quickest."""
    names = list(axes)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*axes.values())]
