"""Everything that would stop a collection on a host, found before it does: no model is loaded, nothing is changed."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from collect_agent import remedies
from collect_agent.events import MARK
from collect_agent.npu.look import LATE

from .. import agent_file, containers
from ..errors import CollectError, EnvironmentUnfit, internal, one_line
from ..inventory import Host, ModelSpec
from ..parallel import at_once
from ..request import Request, Window, window
from ..routes.choose import late, ranks_of, wanted
from ..ssh.remote import Remote
from ..survey import probe
from ..survey.environment import restore
from ..survey.onhost.reader import INPUT
from ..survey.shape import TRIAL, read
from ..survey.survey import Facts, survey
from . import Check, Subject, connection, estimate, failed, of_host, of_run, ok, passed_on

OURS = "collect-remote: "  # leads what the program on the host says itself
IMPORT_LIMIT_S = 120.0  # torch and torch_npu from a cold network disk

SURVEY = Subject(
    "survey",
    "bash, the scripts of `setup`, a Python of 3.8 or newer: the host answers; the seconds until then",
    "[exit 5](#exit-5-the-host-is-not-fit)",
)
IMPORT = Subject(
    "import",
    f"`import torch_npu` works, in a process of its own, in the environment of a run, within {IMPORT_LIMIT_S:g} s",
    "source CANN's set_env.sh (`setup` in the inventory), or name the Python that has torch_npu (`python`)",
    "cannot import torch_npu with {python}: {said}",
)
ROUTE = Subject(
    "route",
    "with `--model`, where it has a `route`: the project is there, and a route to a profile fits it",
    "name the route in the inventory (`route:`), see docs/routes.md",
)


@dataclass(frozen=True, slots=True)
class Report:
    """What the doctor found on one host. `facts` is None where it did not get so far."""

    host: str
    checks: tuple[Check, ...]
    facts: Facts | None = field(default=None, repr=False)

    @property
    def verdict(self) -> str:
        """The worst of its checks."""
        found = {check.verdict for check in self.checks}
        return next(verdict for verdict in ("failure", "warning", "ok") if verdict in found)

    @property
    def exit_code(self) -> int:
        """What a collection would end with: the code of the first check that fails."""
        return next((check.error.exit_code for check in self.checks if check.error), 0)


def examine_all(hosts: Sequence[Host], model: str | None = None) -> list[Report]:
    """Many hosts at once, in the order given. UsageError for a host that has no such model."""
    specified = [(host, None if model is None else host.model(model)) for host in hosts]
    return at_once(lambda asked: examine(*asked), specified)


def examine(host: Host, model: ModelSpec | None = None) -> Report:
    checks: list[Check] = []
    facts: Facts | None = None
    try:
        for found in _steps(host, model):
            if isinstance(found, Facts):
                facts = found
            else:
                checks.append(found)
    except CollectError as error:
        checks.append(passed_on(SURVEY, error) if checks else connection.refused(error))
    except Exception as error:  # noqa: BLE001 - the other hosts are told of all the same
        checks.append(passed_on(SURVEY, internal(error)))
    return Report(host.name, tuple(checks), facts)


def _steps(host: Host, model: ModelSpec | None) -> Iterator[Check | Facts]:
    """The checks in the order of a collection, whose run imports torch_npu at last; and the facts behind them."""
    with Remote(host) as remote:
        assert remote.login is not None  # noqa: S101 - it is open
        yield from connection.opened(remote.login)
        begun = time.monotonic()
        facts = survey(remote, host, agent_file.build().name, look=wanted(model) if model else "")
        yield connection.first_output(remote.login)
        yield ok(SURVEY, "the host was looked at", time.monotonic() - begun)
        yield facts
        ranks = ranks_of(model, facts.project) if model and facts.project else 1
        request = Request(host.name, model.name if model else "", device_count=ranks)
        needed, leased = estimate.LEAST, True
        if model is not None:
            decided, route, leased = routed(request, model, facts)
            needed = estimate.need(request, decided) if decided else needed
            yield from route
        yield from of_run(facts, needed, model, request.wish) if leased else of_host(facts, needed, model)
        if all(facts.versions[name] for name in ("torch", "torch_npu")):
            yield importing(remote, facts)


def routed(request: Request, model: ModelSpec, facts: Facts) -> tuple[Window | None, list[Check], bool]:
    """The window of a model, the check of its route, where it has one, and whether it needs a free device. Pure."""
    if facts.project is None:
        return window(request, model), [], True
    try:
        decided, plan = late(request, model, facts.project)
    except CollectError as error:
        return None, [failed(ROUTE, error)], True
    return decided, [ok(ROUTE, f"{plan.route}: {'; '.join(plan.evidence)}")], plan.leased


def importing(remote: Remote, facts: Facts) -> Check:
    """Import torch_npu on the host in the environment of a run, in a process of its own."""
    program = probe.trial()
    start = f"{shlex.quote(facts.python)} - {shlex.quote(MARK)} {IMPORT_LIMIT_S:g}"
    script = f"exec {INPUT}<&0\n{restore(facts.environment)}\n{start} <<'TRIAL'\n{program}\nTRIAL"
    said = ""
    with containers.stream(remote, facts.container, script) as stream:
        for raw in stream.lines(timeout=IMPORT_LIMIT_S + 30.0):
            before, _, answer = raw.decode("utf-8", "replace").partition(MARK)
            word, _, detail = answer.partition(" ")
            if word == "trial":
                return imported(facts.python, read(detail, TRIAL, f"{facts.python} {facts.place}"))
            said = one_line(before) or said
    return failed(IMPORT, EnvironmentUnfit(f"{facts.python} did not run the import: {said}", "see that it starts"))


def imported(python: str, told: dict[str, Any]) -> Check:
    """The verdict on what `onhost.trial` tells. Pure."""
    status, seconds = told["status"], told["seconds"]
    lines = [line for line in map(one_line, told["text"].splitlines()) if line]
    own = [line.removeprefix(OURS) for line in lines if line.startswith(OURS)]
    last = (own or lines or ["it printed nothing"])[-1]
    if status == 0:
        return ok(IMPORT, f"torch_npu can be {last}", seconds)
    if status == LATE:
        message = f"import torch_npu with {python} was not over after {IMPORT_LIMIT_S:g} s: {last}"
        remedy = "a wedged card or a network disk that hangs: see what it waits for, with npu-smi info and df"
    elif status < 0:
        how = f"was killed by {signal.Signals(-status).name}: {remedies.cann_error(lines) or last}"
        message = f"import torch_npu with {python} {how}"
        remedy = "often modules that CANN needs are not in this Python: decorator, scipy, attrs, psutil, sympy, numpy"
    else:
        message = IMPORT.says.format(python=python, said=last)
        remedy = ""
    remedy, entry = remedies.find(told["text"]) or (remedy, "")
    return failed(IMPORT, EnvironmentUnfit(message, remedy, entry=entry), seconds)


def worst(reports: Sequence[Report]) -> int:
    """The exit code of the command: 0 when nothing fails, else the highest of the hosts."""
    return max(report.exit_code for report in reports)
