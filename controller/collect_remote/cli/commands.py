"""What the commands do: call, and show what came of it. No logic, and nothing is imported before it is needed."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from . import given
from .say import print_json, put, show

if TYPE_CHECKING:
    from ..inventory import Host
    from ..request import Request


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
    from ..routes.choose import model_of
    from . import asking, progress

    request = given.request(options)
    known = given.inventory(options)
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
    from ..collection import pipeline
    from . import render

    if request.nodes:
        from ..nodes import job

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


def _host(options: argparse.Namespace) -> Host:
    return given.inventory(options).host(options.host)


def runs(options: argparse.Namespace) -> int:
    from ..collection import manage
    from . import render

    host = _host(options)
    listed = manage.runs(host)
    show(options, {"host": host.name, "runs": [dataclasses.asdict(run) for run in listed]}, render.runs_text(listed))
    return 0


def attach(options: argparse.Namespace) -> int:
    from ..collection import manage
    from . import progress, render

    host, report = _host(options), progress.reporter()
    try:
        result = manage.attach(host, options.run, out=options.out, reconnect_for=options.reconnect_for, on_event=report)
    finally:
        report.close()
    text, done = render.result_text(result), f"the result is in {result.directory}"
    show(options, render.result_document(result), text, done)
    return 0


def stop(options: argparse.Namespace) -> int:
    from ..collection import manage
    from . import progress, render

    was = manage.stop(_host(options), options.run, progress.reporter())
    show(options, {"run": was.run, "was": was.state, "left": []}, render.stopped_text(was))
    return 0


def clean(options: argparse.Namespace) -> int:
    from ..collection import manage
    from . import progress, render

    done = manage.clean(_host(options), options.runs, results=options.results, on_event=progress.reporter())
    show(options, dataclasses.asdict(done), render.cleaned_text(done))
    return 0


def doctor(options: argparse.Namespace) -> int:
    if (options.host is None) == (options.hosts is None):
        remedy = "doctor --host HOST[,HOST...], or --hosts PATTERN, and --model MODEL if you like"
        raise UsageError("name hosts, by name or by pattern", remedy)
    from ..checks import doctor
    from . import doctor_report

    reports = doctor.examine_all(given.hosts(options), options.model)
    if options.json:
        print_json(doctor_report.document(reports))
    else:
        put(doctor_report.text(reports))
    return doctor.worst(reports)


def inventory(options: argparse.Namespace) -> int:
    from . import inventory_report as report

    known = given.inventory(options)
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


def validate(options: argparse.Namespace) -> int:
    from collect_agent.validate import validate

    from ..errors import ProfileInvalid
    from . import render

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
        from ..wrappers import marker
        from ..wrappers.printed import module

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
