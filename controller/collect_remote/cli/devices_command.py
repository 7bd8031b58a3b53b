"""`collect-remote devices`: of hosts, once or again and again, or of a saved text."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import CollectError, UsageError
from . import given
from .say import complain, put

if TYPE_CHECKING:
    from ..npus.fleet import Answer, Fleet
    from ..npus.judged import Wish


def devices(options: argparse.Namespace) -> int:
    from ..npus.judged import Wish

    if sum(given is not None for given in (options.host, options.hosts, options.from_file)) != 1:
        remedy = "devices --host HOST[,HOST...], or --hosts PATTERN, or --from-file TXT"
        raise UsageError("name hosts, or a saved text", remedy)
    wish = Wish(max_used=options.max_used, allow_health=tuple(options.allow_health))
    if options.from_file:
        if options.watch is not None:
            raise UsageError("a saved text does not change", "leave out --watch")
        return _show([_saved(options, wish)], options)
    if options.map_file:
        raise UsageError("--map-file goes with --from-file", "leave it out: a host is asked for its own")
    from ..npus.fleet import Fleet

    with Fleet(given.hosts(options), wish, again=options.watch is not None) as fleet:
        if options.watch is None:
            return _show(fleet.ask(), options)
        return _watch(fleet, options)


def _watch(fleet: Fleet, options: argparse.Namespace) -> int:
    in_place = sys.stdout.isatty() and not options.json
    try:
        while True:
            started = time.monotonic()
            answers = fleet.ask()
            if in_place:
                put(f"\x1b[H\x1b[2J{time.strftime('%H:%M:%S')}, every {options.watch:g} s\n\n")
            _show(answers, options)
            put("" if options.json or in_place else "\n")
            time.sleep(max(0.0, started + options.watch - time.monotonic()))
    except KeyboardInterrupt:
        return 130


def _saved(options: argparse.Namespace, wish: Wish) -> Answer:
    from collect_agent.npu.judge import judge

    from ..npus import saved
    from ..npus.fleet import Answer

    name = str(options.from_file)
    info, mapping = (None if path is None else saved.load(path) for path in (options.from_file, options.map_file))
    try:
        return Answer(name, judge(saved.read(info or "", mapping), wish))
    except CollectError as error:
        return Answer(name, error=error)


def _show(answers: Sequence[Answer], options: argparse.Namespace) -> int:
    from ..npus import fleet
    from . import device_table

    if options.json:
        put(device_table.json_text(answers, one_line=options.watch is not None))
    else:
        put(device_table.text(answers))
        for answer in answers:
            if answer.error:
                complain(answer.error, as_json=False)
    return fleet.worst(answers)
