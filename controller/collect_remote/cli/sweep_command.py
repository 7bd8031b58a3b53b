"""`collect-remote sweep`: which cells, and the sweep begun, gone on with, or looked at."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shlex
from typing import TYPE_CHECKING

from ..errors import UsageError
from . import given
from .say import show, warn

if TYPE_CHECKING:
    from ..inventory import Inventory
    from ..sweeps.cells import Cell
    from ..sweeps.schedule import Limits


def sweep(options: argparse.Namespace) -> int:
    begun = options.resume or options.action is not None
    if begun and (of_cells := [name for name, usual in options.of_cells.items() if getattr(options, name) != usual]):
        raise UsageError(
            f"--{of_cells[0].replace('_', '-')} does not go with a sweep that was begun: it has its cells",
            "leave it out, or begin another sweep",
        )
    if options.failed != (options.action == "retry"):
        raise UsageError("--failed and `sweep retry` go together", "collect-remote sweep retry --failed")
    from ..sweeps import engines, live, whole
    from ..sweeps.schedule import exhausted

    if options.action == "status":
        result = whole.status(options.dir)
        show(options, result.document, result.text)
        return result.exit_code
    known = given.inventory(options)
    cells, limits = () if begun else _cells(options, known), _limits(options)
    with engines.dask(options.dask) if options.dask else contextlib.nullcontext(engines.here) as engine_of:
        place = whole.found(options.dir) if begun else whole.begin(cells, options.dir)
        if options.action == "retry":
            whole.retry(options.dir)
        with engine_of(place) as engine:
            _open_files(limits.jobs)
            result = whole.go_on(place, known, limits, live.view, engine)
    if exhausted(result.cells, limits) and any(one.state == "pending" for one in result.cells):
        warn(
            f"more than {limits.max_fail} of the cells have failed: no further one was begun",
            f"see to the causes, then `collect-remote sweep retry --failed --dir {shlex.quote(str(place))}`",
        )
    show(options, result.document, result.text, f"the results are in {place}")
    return result.exit_code


def _open_files(jobs: int) -> None:
    """Have the system allow as many as that takes, where it lets us: the usual 1024 are not enough for 200 cells."""
    import resource

    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 64 + 8 * jobs  # connection, result and lock of a cell; `ssh` has pipes too
    if allowed != resource.RLIM_INFINITY and allowed < needed:
        more = needed if most == resource.RLIM_INFINITY else min(needed, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, most))


def _cells(options: argparse.Namespace, known: Inventory) -> tuple[Cell, ...]:
    from ..sweeps import matrix, plan

    vary = matrix.load(options.matrix, options.axes) if options.matrix else matrix.Matrix()
    hosts = known.select(",".join(options.hosts) if options.hosts else vary.hosts or "all")
    axes = {"model": given.listed(options.models), "phase": given.listed(options.phases)}
    axes = {"model": plan.models_of(hosts), **vary.axes, **{name: values for name, values in axes.items() if values}}
    vary = dataclasses.replace(vary, axes=axes)
    vary.check(known)
    return plan.expand(hosts, vary.wanted(lambda words: given.request(options.reparse(words, options))))


def _limits(options: argparse.Namespace) -> Limits:
    from ..sweeps.schedule import RETRIES, Limits

    retries = {**RETRIES, **dict(options.retry)}
    return Limits(options.jobs, options.per_host, retries, options.max_fail, options.cell_timeout)
