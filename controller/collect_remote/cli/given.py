"""What a command line names, as what it stands for: a request, an inventory, hosts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .say import warn

if TYPE_CHECKING:
    from ..inventory import Host, Inventory
    from ..request import Request


def request(options: argparse.Namespace) -> Request:
    from ..request import Request

    further = listed(options.nodes)
    return Request(
        host=options.host,
        model=options.model,
        phase=options.phase,
        warmup_steps=options.warmup_steps,
        steps=None if options.steps == "all" else options.steps,
        all_steps=options.steps == "all",
        route=options.route,
        ranks=options.ranks,
        devices=tuple(name.strip() for names in options.device for name in names.split(",")),
        device_count=options.devices,
        max_used=options.max_used,
        allow_health=tuple(options.allow_health),
        allow_shared=options.allow_shared,
        wait=options.wait,
        level=options.level,
        aic_metrics=options.aic_metrics,
        with_stack=options.with_stack,
        record_shapes=options.record_shapes,
        profile_memory=options.profile_memory,
        export=options.export,
        timeout=options.timeout,
        reconnect_for=options.reconnect_for,
        keep_raw=options.keep_raw,
        salvage=options.salvage,
        out=options.out,
        nodes=(options.host, *further) if further else (),
    )


def inventory(options: argparse.Namespace) -> Inventory:
    from ..inventory import load

    known = load(*(options.inventories + options.more_inventories or [Path("inventory.yaml")]))
    for caution in known.cautions:
        warn(caution.message, caution.remedy)
    return known


def hosts(options: argparse.Namespace) -> list[Host]:
    known = inventory(options)
    if options.hosts is not None:
        return list(known.select(",".join(options.hosts)))
    names = dict.fromkeys(name.strip() for names in options.host for name in names.split(","))
    return [known.host(name) for name in names]


def listed(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for names in given for name in names.split(","))
