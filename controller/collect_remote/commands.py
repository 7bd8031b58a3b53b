"""What the commands do: call, and show what came of it. No logic, and nothing is imported before it is needed."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import CollectError, UsageError
from .say import complain, print_json, put, show, warn

if TYPE_CHECKING:
    from .devices import Wish
    from .fleet import Answer, Fleet
    from .inventory import Host, Inventory
    from .request import Request
    from .sweeps.cells import Cell
    from .sweeps.schedule import Limits


def collect(options: argparse.Namespace) -> int:
    for name in ("host", "model"):
        if getattr(options, name) is None:
            raise UsageError(f"--{name} is missing", "collect-remote --host HOST --model MODEL, or --help")
    if options.detach and options.out:
        raise UsageError("--detach brings nothing here that could go to --out", "give --out to attach")
    if options.detach and options.nodes:
        raise UsageError(
            "--detach does not go with --nodes: the hosts of a job wait for each other, and who follows all of them "
            "lets them go on",
            "leave one of them out",
        )
    from . import asking, progress
    from .routes.choose import model_of

    request = _request(options)
    known = _inventory(options)
    hosts = [known.host(name) for name in request.nodes or (request.host,)]
    if asking.somebody_is_there() and not (options.yes or options.json):
        request = asking.ask(request, model_of(request, hosts[0]))
    report = progress.reporter()
    try:
        document, text, done = _collected(options, request, hosts, report)
    finally:
        report.close()
    show(options, document, text, done)
    return 0


def _collected(
    options: argparse.Namespace, request: Request, hosts: Sequence[Host], report: Callable[[Any], None]
) -> tuple[Any, str, str]:
    """What was asked for, as a document and as text; and what an error must not make forget."""
    from . import pipeline, render

    if request.nodes:
        from . import job

        if options.dry_run:
            previews = job.preview_job(request, hosts, report)
            return render.previews_document(previews), render.previews_text(previews), ""
        result = job.collect_job(request, hosts, report)
    elif options.dry_run:
        preview = pipeline.preview(request, hosts[0], report)
        return render.preview_document(preview), render.preview_text(preview), ""
    elif options.detach:
        run = pipeline.start(request, hosts[0], report)
        going_on = f"run {run.id} is going on: {run.how_to_go_on}"
        return render.started_document(run), render.started_text(run), going_on
    else:
        result = pipeline.collect(request, hosts[0], report)
    return render.result_document(result), render.result_text(result), f"the result is in {result.directory}"


def _request(options: argparse.Namespace) -> Request:
    from .request import Request

    further = _listed(options.nodes)
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


def _inventory(options: argparse.Namespace) -> Inventory:
    from .inventory import load

    known = load(*(options.inventories + options.more_inventories or [Path("inventory.yaml")]))
    for caution in known.cautions:
        warn(caution.message, caution.remedy)
    return known


def _host(options: argparse.Namespace) -> Host:
    return _inventory(options).host(options.host)


def runs(options: argparse.Namespace) -> int:
    from . import manage, render

    host = _host(options)
    listed = manage.runs(host)
    show(options, {"host": host.name, "runs": [dataclasses.asdict(run) for run in listed]}, render.runs_text(listed))
    return 0


def attach(options: argparse.Namespace) -> int:
    from . import manage, progress, render

    host, report = _host(options), progress.reporter()
    try:
        result = manage.attach(host, options.run, out=options.out, reconnect_for=options.reconnect_for, on_event=report)
    finally:
        report.close()
    text, done = render.result_text(result), f"the result is in {result.directory}"
    show(options, render.result_document(result), text, done)
    return 0


def stop(options: argparse.Namespace) -> int:
    from . import manage, progress, render

    was = manage.stop(_host(options), options.run, progress.reporter())
    show(options, {"run": was.run, "was": was.state, "left": []}, render.stopped_text(was))
    return 0


def clean(options: argparse.Namespace) -> int:
    from . import manage, progress, render

    done = manage.clean(_host(options), options.runs, results=options.results, on_event=progress.reporter())
    show(options, dataclasses.asdict(done), render.cleaned_text(done))
    return 0


def devices(options: argparse.Namespace) -> int:
    from .devices import Wish

    if sum(given is not None for given in (options.host, options.hosts, options.from_file)) != 1:
        remedy = "devices --host HOST[,HOST...], or --hosts PATTERN, or --from-file TXT"
        raise UsageError("name hosts, or a saved text", remedy)
    wish = Wish(max_used=options.max_used, allow_health=tuple(options.allow_health))
    if options.from_file:
        if options.watch is not None:
            raise UsageError("a saved text does not change", "leave out --watch")
        return _show_devices([_saved_devices(options, wish)], options)
    if options.map_file:
        raise UsageError("--map-file goes with --from-file", "leave it out: a host is asked for its own")
    from .fleet import Fleet

    with Fleet(_hosts(options), wish, again=options.watch is not None) as fleet:
        if options.watch is None:
            return _show_devices(fleet.ask(), options)
        return _watch_devices(fleet, options)


def _hosts(options: argparse.Namespace) -> list[Host]:
    known = _inventory(options)
    if options.hosts is not None:
        return list(known.select(",".join(options.hosts)))
    names = dict.fromkeys(name.strip() for names in options.host for name in names.split(","))
    return [known.host(name) for name in names]


def doctor(options: argparse.Namespace) -> int:
    if (options.host is None) == (options.hosts is None):
        remedy = "doctor --host HOST[,HOST...], or --hosts PATTERN, and --model MODEL if you like"
        raise UsageError("name hosts, by name or by pattern", remedy)
    from . import doctor, doctor_report

    reports = doctor.examine_all(_hosts(options), options.model)
    if options.json:
        print_json(doctor_report.document(reports))
    else:
        put(doctor_report.text(reports))
    return doctor.worst(reports)


def inventory(options: argparse.Namespace) -> int:
    from . import inventory_report as report

    known = _inventory(options)
    if options.pattern is None and options.model is None:
        document = report.overview(known)
        show(options, document, report.overview_text(document))
        return 0
    hosts = known.select("all" if options.pattern is None else options.pattern)
    if options.model is None:
        document = report.hosts_document(known, hosts)
        show(options, document, report.hosts_text(document))
    else:
        if not any(options.model in host.models for host in hosts):
            hosts[0].model(options.model)
        document = report.model_document(known, hosts, options.model)
        show(options, document, report.model_text(document))
    return 0


def sweep(options: argparse.Namespace) -> int:
    begun = options.resume or options.action is not None
    if begun and (given := [name for name, usual in options.of_cells.items() if getattr(options, name) != usual]):
        raise UsageError(
            f"--{given[0].replace('_', '-')} does not go with a sweep that was begun: it has its cells",
            "leave it out, or begin another sweep",
        )
    if options.failed != (options.action == "retry"):
        raise UsageError("--failed and `sweep retry` go together", "collect-remote sweep retry --failed")
    from .sweeps import engines, live, whole
    from .sweeps.schedule import exhausted

    if options.action == "status":
        result = whole.status(options.dir)
        show(options, result.document, result.text)
        return result.exit_code
    known = _inventory(options)
    if options.action == "retry":
        whole.retry(options.dir)
    cells, limits = () if begun else _cells(options, known), _limits(options)
    with engines.dask(options.dask) if options.dask else contextlib.nullcontext(engines.here) as engine_of:
        place = whole.found(options.dir) if begun else whole.begin(cells, options.dir)
        with engine_of(place) as engine:
            _open_files(limits.jobs)
            result = whole.go_on(place, known, limits, live.view, engine)
    if exhausted(result.cells, limits):
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
    from .sweeps import matrix, plan

    vary = matrix.load(options.matrix, options.axes) if options.matrix else matrix.Matrix()
    hosts = known.select(",".join(options.hosts) if options.hosts else vary.hosts or "all")
    axes = {"model": _listed(options.models), "phase": _listed(options.phases)}
    axes = {"model": plan.models_of(hosts), **vary.axes, **{name: values for name, values in axes.items() if values}}
    vary = dataclasses.replace(vary, axes=axes)
    for name in vary.hosts_named:
        known.host(name)
    return plan.expand(hosts, vary.wanted(lambda words: _request(options.reparse(words, options))))


def _listed(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.strip() for names in given for name in names.split(","))


def _limits(options: argparse.Namespace) -> Limits:
    from .sweeps.schedule import RETRIES, Limits

    retries = {**RETRIES, **dict(options.retry)}
    return Limits(options.jobs, options.per_host, retries, options.max_fail, options.cell_timeout)


def _saved_devices(options: argparse.Namespace, wish: Wish) -> Answer:
    from collect_agent.npu.judge import judge

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
                put(f"\x1b[H\x1b[2J{time.strftime('%H:%M:%S')}, every {options.watch:g} s\n\n")
            _show_devices(answers, options)
            put("" if options.json or in_place else "\n")
            time.sleep(max(0.0, started + options.watch - time.monotonic()))
    except KeyboardInterrupt:
        return 130


def _show_devices(answers: Sequence[Answer], options: argparse.Namespace) -> int:
    from . import device_table, fleet

    if options.json:
        document = device_table.document(answers)
        print_json(document, indent=1 if options.watch is None else None)
    else:
        put(device_table.text(answers))
        for answer in answers:
            if answer.error:
                complain(answer.error, as_json=False)
    return fleet.worst(answers)


def validate(options: argparse.Namespace) -> int:
    from collect_agent.validate import validate

    from . import render
    from .errors import ProfileInvalid

    if not options.path.exists():
        raise UsageError(f"there is no {options.path}", "give a profile directory or a profile_l1.tar.gz")
    if not options.path.is_dir() and not options.path.name.endswith((".tar.gz", ".tgz")):
        raise UsageError(f"{options.path} is neither a directory nor a .tar.gz", "give the directory that holds it")
    try:
        verdict = validate(str(options.path))
    except OSError as error:
        place = error.filename or options.path
        raise UsageError(f"{place} cannot be read: {error.strerror}", "see to its rights, or copy it") from error
    if options.json:
        print_json(verdict)
    else:
        put(render.verdict_text(verdict))
    accepted = ("valid", "unproven") if options.allow_unproven else ("valid",)
    return 0 if verdict["verdict"] in accepted else ProfileInvalid.exit_code


def template(options: argparse.Namespace) -> int:
    if options.scene:
        from .wrappers import marker
        from .wrappers.printed import module

        text = module(options.scene)
        document = {"for": options.scene, "marker": marker(options.scene), "module": text}
    else:
        from .standalone import script

        text = script(options.phase)
        document = {"phase": options.phase, "script": text}
    if options.json:
        print_json(document)
    else:
        put(text)
    return 0
