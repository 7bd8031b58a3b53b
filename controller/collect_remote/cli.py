"""The command line: parses, calls, renders. No logic, and nothing heavy is imported before it is needed."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import __version__
from .errors import CollectError, Interrupted, UsageError

if TYPE_CHECKING:
    from .devices import Wish
    from .fleet import Answer, Fleet
    from .inventory import Host


LONGEST_H = 48


def run() -> int:
    """The command as a process of its own."""
    # paramiko imports invoke for a part of its ssh_config parser that `ssh -G` replaces here, and takes half of its
    # own import time for it. It does without where there is none.
    sys.modules["invoke"] = None  # type: ignore[assignment]
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status (the README lists them)."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
            signal.signal(number, _interrupt)
    debug, as_json = "--debug" in given, "--json" in given
    try:
        options = _parser().parse_args(given)
        if options.command is None:
            return _collect(options)
        status: int = options.command(options)
    except CollectError as error:
        if debug:
            raise
        _complain(error, as_json)
        return error.exit_code
    except KeyboardInterrupt:
        _complain(Interrupted("interrupted"), as_json)
        return Interrupted.exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): nothing is left to say, not even at shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if debug:
            raise
        remedy = "run it again with --debug and report what it shows"
        _complain(CollectError(f"internal error: {error!r}", remedy), as_json)
        return CollectError.exit_code
    return status


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _complain(error: CollectError, as_json: bool) -> None:
    with contextlib.suppress(OSError):  # nobody may be reading
        explain(error)
    if as_json:
        _print_json({"error": error.to_json()})


def explain(error: CollectError) -> None:
    for line in error.log:
        sys.stderr.write(f"    | {line}\n")
    where = f"{error.host}: " if error.host and error.host not in error.message else ""
    during = f" (while {error.stage})" if error.stage else ""
    sys.stderr.write(f"error: {where}{error.message}{during}\n")
    if error.remedy:
        sys.stderr.write(f"  try: {error.remedy}\n")


def _print_json(document: Any, indent: int | None = 1) -> None:
    json.dump(document, sys.stdout, indent=indent, default=str)
    sys.stdout.write("\n")


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)  # `--js` would be --json for some and nothing for others

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, f"see {self.prog} --help")


def _shared_options(absent: Any = None) -> _Parser:
    """Options that stand before or after a subcommand: `absent` as SUPPRESS keeps what was said before it."""
    shared = _Parser(add_help=False)
    shared.add_argument("-i", "--inventory", type=Path, default=absent, metavar="FILE", help="default: inventory.yaml")
    for name, text in (
        ("--json", "one JSON document on stdout, everything else on stderr"),
        ("--debug", "show the traceback of an error"),
    ):
        shared.add_argument(name, action="store_true", default=absent or False, help=text)
    return shared


def _parser() -> argparse.ArgumentParser:
    from .request import AIC_METRICS, EXPORTS, PHASES

    parser = _Parser(
        prog="collect-remote",
        parents=[_shared_options()],
        description="Collect a verified torch_npu profile from a remote Ascend host.",
        epilog="Exit codes: 0 good, 2 usage or inventory, 3 host unreachable or refused, 4 no free device, "
        "5 host not fit, 6 run failed, 7 profile not valid, 8 transfer or storage failed, 130 interrupted.",
    )
    parser.set_defaults(command=None)
    parser.add_argument("--version", action="version", version=f"collect-remote {__version__}")
    what = parser.add_argument_group("what to collect")
    what.add_argument("--host", help="a host of the inventory")
    what.add_argument("--model", help="a model of the inventory")
    what.add_argument("--phase", choices=PHASES, help="default: both where the model has prefill and decode")
    what.add_argument("--warmup-steps", type=int, default=2, metavar="N", help="outside the profiler (default 2)")
    what.add_argument("--steps", type=int, metavar="N", help="active decode steps (default 10, forward 5, prefill 1)")
    what.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="ID",
        help="NPU, NPU.chip or logic:N (default: the best free one); again, or a,b, for more",
    )
    what.add_argument("--devices", type=int, default=1, metavar="N", help="how many, close together (default 1)")
    _add_what_is_free(what)
    what.add_argument("--wait", type=_duration, default=0.0, metavar="T", help="for a free device: 90s, 30m, 2h")
    what.add_argument("--allow-shared", action="store_true", help="accept a profile that others disturbed")
    what.add_argument(
        "--timeout", type=_duration, default=3600.0, metavar="T", help="of the run: 90s, 30m, 2h (default 1h)"
    )
    profiler = parser.add_argument_group("torch_npu.profiler")
    profiler.add_argument("--level", type=int, choices=(0, 1, 2), default=1)
    profiler.add_argument("--aic-metrics", choices=AIC_METRICS, default="PipeUtilization")
    profiler.add_argument("--with-stack", action="store_true")
    profiler.add_argument("--record-shapes", action="store_true")
    profiler.add_argument("--profile-memory", action="store_true")
    profiler.add_argument("--export", choices=EXPORTS, default="text")
    what.add_argument("--detach", action="store_true", help="start the run and leave it: attach brings its result")
    _add_reconnect_for(what)
    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, metavar="DIR", help="default: profiles/<host>/<model>/<run id>")
    output.add_argument("--dry-run", action="store_true", help="show device and plan, change nothing")

    commands = parser.add_subparsers(title="other commands", metavar="COMMAND", parser_class=_Parser)

    devices = commands.add_parser(
        "devices", parents=[_shared_options(argparse.SUPPRESS)], help="which NPUs are free, and why not"
    )
    devices.add_argument("--host", action="append", metavar="NAME", help="of the inventory; again, or a,b, for more")
    devices.add_argument("--from-file", type=Path, metavar="TXT", help="a saved `npu-smi info`, instead of a host")
    devices.add_argument("--map-file", type=Path, metavar="TXT", help="the `npu-smi info -m` that goes with it")
    devices.add_argument(
        "--watch", nargs="?", type=_duration, const=5.0, metavar="T", help="ask again and again, every T (default 5s)"
    )
    _add_what_is_free(devices)
    devices.set_defaults(command=_devices)

    _add_run_commands(commands)

    doctor = commands.add_parser(
        "doctor", parents=[_shared_options(argparse.SUPPRESS)], help="what would stop a collection, before it does"
    )
    doctor.add_argument("--host", action="append", metavar="NAME", help="of the inventory; again, or a,b, for more")
    doctor.add_argument("--model", help="look for its files too")
    doctor.set_defaults(command=_doctor)

    validate = commands.add_parser(
        "validate", parents=[_shared_options(argparse.SUPPRESS)], help="judge a profile: a directory or an archive"
    )
    validate.add_argument("path", type=Path)
    validate.set_defaults(command=_validate)

    template = commands.add_parser(
        "template", parents=[_shared_options(argparse.SUPPRESS)], help="the profiling template as one script"
    )
    template.add_argument("--phase", choices=PHASES, default="both")
    template.set_defaults(command=_template)
    return parser


def _add_run_commands(commands: Any) -> None:
    """Those about runs that are on a host."""

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = commands.add_parser(
            name, parents=[_shared_options(argparse.SUPPRESS)], help=text
        )
        parser.add_argument("--host", required=True, help="a host of the inventory")
        parser.set_defaults(command=run)
        return parser

    add("runs", _runs, "what is on a host: running, finished, orphaned")
    attach = add("attach", _attach, "follow a run to its end and bring its result")
    attach.add_argument("run", metavar="RUN", help="its id")
    attach.add_argument("--out", type=Path, metavar="DIR", help="default: profiles/<host>/<model>/<run id>")
    _add_reconnect_for(attach)
    stop = add("stop", _stop, "end a run and prove it")
    stop.add_argument("run", metavar="RUN", help="its id")
    clean = add("clean", _clean, "remove runs that have ended")
    clean.add_argument("runs", metavar="RUN", nargs="*", help="their ids (default: all that have no result)")
    clean.add_argument("--results", action="store_true", help="also those whose result was not fetched")


def _add_reconnect_for(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--reconnect-for", type=_duration, default=600.0, metavar="T", help="try to get a lost connection back (10m)"
    )


def _add_what_is_free(parser: argparse._ActionsContainer) -> None:
    from collect_agent.npu.judge import HEALTH_WORDS

    parser.add_argument(
        "--max-used", type=_amount, metavar="SIZE", help="memory that may be in use on a free device: 4GB, 4096MB, 10%%"
    )
    parser.add_argument(
        "--allow-health", action="append", default=[], choices=HEALTH_WORDS, help="not only OK; again for more"
    )


def _amount(text: str) -> str:
    from collect_agent.npu import UsageError, used_limit

    try:
        used_limit(text, 0)
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error.message}: {error.remedy}") from error
    return text


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", text)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90s, 30m or 2h")
    seconds = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]
    if seconds > LONGEST_H * 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is too long: at most {LONGEST_H}h")
    return seconds


def _collect(options: argparse.Namespace) -> int:
    for name in ("host", "model"):
        if getattr(options, name) is None:
            raise UsageError(f"--{name} is missing", "collect-remote --host HOST --model MODEL, or --help")
    if options.detach and options.out:
        raise UsageError("--detach brings nothing here that could go to --out", "give --out to attach")
    from . import inventory, pipeline, progress, render
    from .request import Request

    request = Request(
        host=options.host,
        model=options.model,
        phase=options.phase,
        warmup_steps=options.warmup_steps,
        steps=options.steps,
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
        out=options.out,
    )
    host = inventory.load(options.inventory or Path("inventory.yaml")).host(request.host)
    report = progress.reporter()
    try:
        if options.dry_run:
            preview = pipeline.preview(request, host, report)
            document, text = render.preview_document(preview), render.preview_text(preview)
        elif options.detach:
            run = pipeline.start(request, host, report)
            document, text = render.started_document(run), render.started_text(run)
        else:
            result = pipeline.collect(request, host, report)
            document, text = render.result_document(result), render.result_text(result)
    finally:
        report.close()
    _show(options, document, text)
    return 0


def _show(options: argparse.Namespace, document: Any, text: str) -> None:
    if options.json:
        _print_json(document)
    else:
        sys.stdout.write(text)


def _host(options: argparse.Namespace) -> Host:
    from . import inventory

    return inventory.load(options.inventory or Path("inventory.yaml")).host(options.host)


def _runs(options: argparse.Namespace) -> int:
    from . import manage, render

    host = _host(options)
    listed = manage.runs(host)
    _show(options, {"host": host.name, "runs": [dataclasses.asdict(run) for run in listed]}, render.runs_text(listed))
    return 0


def _attach(options: argparse.Namespace) -> int:
    from . import manage, progress, render

    host, report = _host(options), progress.reporter()
    try:
        result = manage.attach(host, options.run, out=options.out, reconnect_for=options.reconnect_for, on_event=report)
    finally:
        report.close()
    _show(options, render.result_document(result), render.result_text(result))
    return 0


def _stop(options: argparse.Namespace) -> int:
    from . import manage, progress, render

    was = manage.stop(_host(options), options.run, progress.reporter())
    _show(options, {"run": was.run, "was": was.state, "left": []}, render.stopped_text(was))
    return 0


def _clean(options: argparse.Namespace) -> int:
    from . import manage, progress, render

    done = manage.clean(_host(options), options.runs, results=options.results, on_event=progress.reporter())
    _show(options, dataclasses.asdict(done), render.cleaned_text(done))
    return 0


def _devices(options: argparse.Namespace) -> int:
    from .devices import Wish

    if (options.host is None) == (options.from_file is None):
        raise UsageError("name hosts, or a saved text", "devices --host HOST[,HOST...], or --from-file TXT")
    wish = Wish(max_used=options.max_used, allow_health=tuple(options.allow_health))
    if options.from_file:
        if options.watch is not None:
            raise UsageError("a saved text does not change", "leave out --watch")
        return _show_devices([_saved_devices(options, wish)], options)
    if options.map_file:
        raise UsageError("--map-file goes with --from-file", "leave it out: a host is asked for its own")
    from .fleet import Fleet

    with Fleet(_hosts(options), wish) as fleet:
        if options.watch is None:
            return _show_devices(fleet.ask(), options)
        return _watch_devices(fleet, options)


def _hosts(options: argparse.Namespace) -> list[Host]:
    from . import inventory

    known = inventory.load(options.inventory or Path("inventory.yaml"))
    names = dict.fromkeys(name.strip() for names in options.host for name in names.split(","))
    return [known.host(name) for name in names]


def _doctor(options: argparse.Namespace) -> int:
    if options.host is None:
        raise UsageError("--host is missing", "collect-remote doctor --host HOST[,HOST...] [--model MODEL]")
    from . import doctor, doctor_report

    reports = doctor.examine_all(_hosts(options), options.model)
    if options.json:
        _print_json(doctor_report.document(reports))
    else:
        sys.stdout.write(doctor_report.text(reports))
    return doctor.worst(reports)


def _saved_devices(options: argparse.Namespace, wish: Wish) -> Answer:
    from collect_agent.npu import judge

    from . import saved
    from .fleet import Answer

    name = str(options.from_file)
    info, mapping = (None if path is None else saved.load(path) for path in (options.from_file, options.map_file))
    try:
        return Answer(name, judge(saved.read(info or "", mapping), wish))
    except CollectError as error:
        return Answer(name, error=error)


def _watch_devices(fleet: Fleet, options: argparse.Namespace) -> int:
    in_place = sys.stdout.isatty() and not options.json
    try:
        while True:
            started = time.monotonic()
            answers = fleet.ask()
            if in_place:
                sys.stdout.write(f"\x1b[H\x1b[2J{time.strftime('%H:%M:%S')}, every {options.watch:g} s\n\n")
            _show_devices(answers, options)
            sys.stdout.write("" if options.json or in_place else "\n")
            sys.stdout.flush()
            time.sleep(max(0.0, started + options.watch - time.monotonic()))
    except KeyboardInterrupt:
        return 130


def _show_devices(answers: Sequence[Answer], options: argparse.Namespace) -> int:
    from . import device_table, fleet

    if options.json:
        document = device_table.document(answers)
        _print_json(document, indent=1 if options.watch is None else None)
    else:
        sys.stdout.write(device_table.text(answers))
        sys.stdout.flush()
        for answer in answers:
            if answer.error:
                _complain(answer.error, as_json=False)
    return fleet.worst(answers)


def _validate(options: argparse.Namespace) -> int:
    from collect_agent.validate import validate

    from . import render
    from .errors import ProfileInvalid

    if not options.path.exists():
        raise UsageError(f"there is no {options.path}", "give a profile directory or a profile_l1.tar.gz")
    verdict = validate(str(options.path))
    if options.json:
        _print_json(verdict)
    else:
        sys.stdout.write(render.verdict_text(verdict))
    return 0 if verdict["verdict"] == "valid" else ProfileInvalid.exit_code


def _template(options: argparse.Namespace) -> int:
    from .standalone import script

    text = script(options.phase)
    if options.json:
        _print_json({"phase": options.phase, "script": text})
    else:
        sys.stdout.write(text)
    return 0
