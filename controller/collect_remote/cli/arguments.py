"""The arguments of every command. Nothing heavy is imported, and only the command that is called gets its arguments."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from .. import __version__
from ..choices import AIC_METRICS, EXPORTS, PHASES, PHASES_OF_TEMPLATE
from ..errors import UsageError
from ..wrappers import SCENES
from . import commands, devices_command, sweep_command, values


class _Parser(argparse.ArgumentParser):
    """`fill` adds the arguments, when it is known that they are needed."""

    fill: Callable[[_Parser], None] | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)  # `--js` would be --json for some and nothing for others

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        fill, self.fill = self.fill, None
        if fill is not None:
            fill(self)
        for word in args or ():
            if word.startswith("--") and word.endswith("=--"):  # argparse, before Python 3.13, makes a list of it
                self.error(f"argument {word[:-3]}: expected one argument")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see {self.prog} --help")


class _Command(argparse._SubParsersAction):  # type: ignore[type-arg]  # of a stub; there is none at run time
    """Refuses what was said of a collection before the name of another command, which would not hear of it."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *rest: Any) -> None:
        known = _Parser(add_help=False)
        _add_shared(known)
        shared = {action.dest for action in known._actions}
        for action in parser._actions:
            if action.dest not in shared and getattr(namespace, action.dest, action.default) != action.default:
                parser.error(f"{action.option_strings[0]} before {values[0]!r} is of no use to it")
        super().__call__(parser, namespace, values, *rest)


def _add_shared(parser: _Parser, absent: Any = None) -> None:
    """Options that stand before or after a subcommand: `absent` as SUPPRESS keeps what was said before it."""
    parser.add_argument(
        "-i",
        "--inventory",
        dest="more_inventories" if absent else "inventories",  # those behind a subcommand come to the others
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="or a directory of them; again for more (default: inventory.yaml)",
    )
    for name, text in (
        ("--json", "one JSON document on stdout, everything else on stderr"),
        ("--debug", "show the traceback of an error"),
    ):
        parser.add_argument(name, action="store_true", default=absent or False, help=text)


def parser() -> argparse.ArgumentParser:
    """Parses into a namespace whose `command` is what `commands` has to be called for it."""
    main = _Parser(
        prog="collect-remote",
        description="Collect a verified torch_npu profile from a remote Ascend host.",
        epilog="Exit codes: 0 good, 2 usage or inventory, 3 host unreachable or refused, 4 no free device, "
        "5 host not fit, 6 run failed, 7 profile not valid, 8 transfer or storage failed, 9 a sweep with failures, "
        "130 interrupted.",
    )
    _add_shared(main)
    main.set_defaults(command=commands.collect, more_inventories=[])
    main.add_argument("--version", action="version", version=f"collect-remote {__version__}")
    what = main.add_argument_group("what to collect")
    what.add_argument("--host", help="a host of the inventory")
    what.add_argument(
        "--nodes",
        action="append",
        default=[],
        metavar="HOST",
        help="further hosts of one job, of which --host is the master: again, or a,b, for more",
    )
    what.add_argument("--model", help="a model of the inventory")
    what.add_argument("--phase", choices=PHASES, help="default: both where the model has prefill and decode")
    _add_how_to_collect(what)
    what.add_argument(
        "--yes", action="store_true", help="ask nothing: take the defaults (never asked without a terminal)"
    )
    what.add_argument("--detach", action="store_true", help="start the run and leave it: attach brings its result")
    _add_profiler(main.add_argument_group("torch_npu.profiler"))
    output = main.add_argument_group("output")
    output.add_argument("--out", type=Path, metavar="DIR", help="default: profiles/<host>/<model>/<run id>")
    _add_archive(output)
    output.add_argument("--dry-run", action="store_true", help="show device and plan, change nothing")
    others = main.add_subparsers(title="other commands", metavar="COMMAND", parser_class=_Parser, action=_Command)
    for name, (command, text, arguments) in COMMANDS.items():
        others.add_parser(name, help=text).fill = functools.partial(_fill, command=command, arguments=arguments)
    return main


def _fill(parser: _Parser, command: Command, arguments: Callable[[_Parser], None]) -> None:
    _add_shared(parser, argparse.SUPPRESS)
    parser.set_defaults(command=command)
    arguments(parser)


def _add_how_to_collect(what: argparse._ActionsContainer) -> None:
    what.add_argument("--warmup-steps", type=int, default=2, metavar="N", help="outside the profiler (default 2)")
    what.add_argument(
        "--steps",
        type=values.steps,
        metavar="N",
        help="active ones, or all (default 10; forward 5, train 3, prefill 1)",
    )
    what.add_argument(
        "--route", type=values.route, metavar="NAME", help="instead of the model's own: auto, template, ..."
    )
    what.add_argument(
        "--ranks", type=values.ranks, default=(), metavar="0,3", help="to profile, where a program has several"
    )
    what.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="ID",
        help="NPU, NPU.chip or logic:N (default: the best free one); again, or a,b, for more",
    )
    what.add_argument("--devices", type=int, default=1, metavar="N", help="how many, close together (default 1)")
    _add_what_is_free(what)
    what.add_argument("--wait", type=values.duration, default=0.0, metavar="T", help="for a free device: 90s, 30m, 2h")
    what.add_argument("--allow-shared", action="store_true", help="accept a profile that others disturbed")
    what.add_argument(
        "--timeout", type=values.duration, default=3600.0, metavar="T", help="of the run: 90s, 30m, 2h (default 1h)"
    )
    _add_reconnect_for(what)


def _add_archive(output: argparse._ActionsContainer) -> None:
    output.add_argument("--keep-raw", action="store_true", help="put what the profiler recorded into the archive too")
    output.add_argument("--salvage", action="store_true", help="bring what there is of a profile that is not valid")


def _add_profiler(profiler: argparse._ActionsContainer) -> None:
    profiler.add_argument("--level", type=int, choices=(0, 1, 2), default=1)
    profiler.add_argument("--aic-metrics", choices=AIC_METRICS, default="PipeUtilization")
    profiler.add_argument("--with-stack", action="store_true")
    profiler.add_argument("--record-shapes", action="store_true")
    profiler.add_argument("--profile-memory", action="store_true")
    profiler.add_argument("--export", choices=EXPORTS, default="text")


def _devices(devices: _Parser) -> None:
    _add_several_hosts(devices)
    devices.add_argument("--from-file", type=Path, metavar="TXT", help="a saved `npu-smi info`, instead of a host")
    devices.add_argument("--map-file", type=Path, metavar="TXT", help="the `npu-smi info -m` that goes with it")
    devices.add_argument(
        "--watch",
        nargs="?",
        type=values.duration,
        const=5.0,
        metavar="T",
        help="ask again and again, every T (default 5s)",
    )
    _add_what_is_free(devices)


def _doctor(doctor: _Parser) -> None:
    _add_several_hosts(doctor)
    doctor.add_argument("--model", help="look for its files too")


def _sweep(sweep: _Parser) -> None:
    sweep.add_argument(
        "action", nargs="?", choices=("status", "retry"), help="look at a sweep; run its --failed cells again"
    )
    sweep.add_argument("--host", "--model", "--phase", type=values.plural, help=argparse.SUPPRESS)
    sweep.add_argument("--nodes", type=values.one_host, default=[], help=argparse.SUPPRESS)
    cells = sweep.add_argument_group("cells")
    _add_hosts(cells)
    cells.add_argument("--models", action="append", default=[], metavar="A,B", help="default: all that the hosts have")
    cells.add_argument("--phases", action="append", default=[], metavar="A,B", help=f"of {', '.join(PHASES)}")
    cells.add_argument(
        "--matrix", type=Path, metavar="FILE", help="YAML: these, and any option below, in several values"
    )
    asked = _Parser(prog=sweep.prog, add_help=False)
    for container in (cells, asked):
        _add_how_to_collect(container)
        _add_profiler(container)
        _add_archive(container)
    of_cells = {action.dest: action.default for action in cells._group_actions}
    axes = {action.option_strings[0][2:]: action.nargs == 0 for action in asked._actions}  # 0: a switch
    for name in (name for name, switch in axes.items() if switch):  # which a matrix turns off too
        asked.add_argument(f"--no-{name}", dest=name.replace("-", "_"), action="store_false", default=False)
    asked.add_argument("--host")
    asked.add_argument("--model")
    asked.add_argument("--phase", choices=PHASES)
    going = sweep.add_argument_group("the sweep")
    going.add_argument("--dir", type=Path, metavar="DIR", help="of the sweep (default: sweeps/<time>, sweeps/latest)")
    going.add_argument("--resume", action="store_true", help="go on with a sweep: what is valid is not run again")
    going.add_argument("--failed", action="store_true", help="with retry: the cells that failed")
    going.add_argument("--jobs", type=values.several, default=64, metavar="N", help="cells at once (default 64)")
    going.add_argument("--per-host", type=values.several, default=1, metavar="N", help="... on one host (default 1)")
    going.add_argument(
        "--retry",
        type=values.retries,
        action="append",
        default=[],
        metavar="KIND=N",
        help="try a cell again that ended so: unreachable=3, no-free-device=5, ... (default unreachable=2, transfer=1)",
    )
    going.add_argument(
        "--max-fail", type=values.share, metavar="N", help="cells that may fail before the rest is left: 20 or 20%%"
    )
    going.add_argument(
        "--cell-timeout", type=values.duration, metavar="T", help="for one attempt at a cell, all included"
    )
    going.add_argument("--dask", metavar="tcp://HOST:PORT", help="run the cells on the workers of this cluster")
    sweep.set_defaults(of_cells=of_cells, axes=axes, reparse=lambda words, base: _reparsed(asked, words, base))


def _reparsed(asked: _Parser, words: Sequence[str], base: argparse.Namespace) -> argparse.Namespace:
    """The options of one cell: those of the sweep, and what its matrix says."""
    named = {word.partition("=")[0] for word in words}
    anew = {action.dest: action.default for action in asked._actions if named.intersection(action.option_strings)}
    fresh = argparse.Namespace(**{**vars(base), "host": "", "model": None, "phase": None, "out": None, **anew})
    try:
        return asked.parse_args(words, fresh)
    except UsageError as error:
        where = f"{base.matrix}: " if base.matrix else ""
        raise UsageError(f"{where}{error.message}", error.remedy) from error


def _add_one_host(parser: _Parser) -> None:
    parser.add_argument("--host", required=True, help="a host of the inventory")


def _attach(attach: _Parser) -> None:
    _add_one_host(attach)
    attach.add_argument("run", metavar="RUN", help="its id")
    attach.add_argument("--out", type=Path, metavar="DIR", help="default: profiles/<host>/<model>/<run id>")
    _add_reconnect_for(attach)


def _stop(stop: _Parser) -> None:
    _add_one_host(stop)
    stop.add_argument("run", metavar="RUN", help="its id")


def _clean(clean: _Parser) -> None:
    _add_one_host(clean)
    clean.add_argument("runs", metavar="RUN", nargs="*", help="their ids (default: all that have no result)")
    clean.add_argument("--results", action="store_true", help="also those whose result was not fetched")


def _add_several_hosts(parser: _Parser) -> None:
    parser.add_argument("--host", action="append", metavar="NAME", help="of the inventory; again, or a,b, for more")
    _add_hosts(parser)


def _add_hosts(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--hosts",
        action="append",
        metavar="PATTERN",
        help="groups, names, globs: 'a2:&rack3:!ascend07'; again for more",
    )


def _inventory(inventory: _Parser) -> None:
    inventory.add_argument("pattern", metavar="PATTERN", nargs="?", help="show every key of these hosts")
    inventory.add_argument("--model", help="show the options of this model instead")


def _validate(validate: _Parser) -> None:
    validate.add_argument("path", type=Path, help="a *_ascend_pt directory, a tree of them, an archive")
    validate.add_argument(
        "--allow-unproven", action="store_true", help="exit with 0 when nothing is wrong, though not all is proved"
    )


def _template(template: _Parser) -> None:
    which = template.add_mutually_exclusive_group()
    which.add_argument("--phase", choices=PHASES_OF_TEMPLATE, default="both", help="of the script")
    which.add_argument(
        "--for", dest="scene", choices=SCENES, help="a module that switches a profiler on in your own program"
    )


def _add_reconnect_for(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--reconnect-for",
        type=values.duration,
        default=600.0,
        metavar="T",
        help="try to get a lost connection back (10m)",
    )


def _add_what_is_free(parser: argparse._ActionsContainer) -> None:
    from collect_agent.npu.judge import HEALTH_WORDS

    parser.add_argument(
        "--max-used",
        type=values.amount,
        metavar="SIZE",
        help="memory that may be in use on a free device: 4GB, 4096MB, 10%%",
    )
    parser.add_argument(
        "--allow-health", action="append", default=[], choices=HEALTH_WORDS, help="not only OK; again for more"
    )


Command = Callable[[argparse.Namespace], int]
COMMANDS: dict[str, tuple[Command, str, Callable[[_Parser], None]]] = {
    "devices": (devices_command.devices, "which NPUs are free, and why not", _devices),
    "doctor": (commands.doctor, "what would stop a collection, before it does", _doctor),
    "sweep": (sweep_command.sweep, "many: hosts x models x phases, resumable", _sweep),
    "runs": (commands.runs, "what is on a host: running, finished, orphaned", _add_one_host),
    "attach": (commands.attach, "follow a run to its end and bring its result", _attach),
    "stop": (commands.stop, "end a run and prove it", _stop),
    "clean": (commands.clean, "remove runs that have ended", _clean),
    "inventory": (commands.inventory, "what the inventory says of hosts, and where", _inventory),
    "validate": (commands.validate, "judge a profile: a directory or an archive", _validate),
    "template": (commands.template, "the profiling template as one script, or a module for your own code", _template),
}
