"""The two questions to a person at a terminal who has not said what to record: which phases, and how many steps."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence

from ..errors import UsageError
from ..inventory import ModelSpec
from ..request import Request, default_steps, kinds, recorded
from ..routes.route import ALL_STEPS as ALL

Answer = Callable[[str], str]  # a question -> what was typed; "" for the default


def somebody_is_there() -> bool:
    """A pipeline has no terminal on both ends."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def typed(question: str) -> str:
    """On stderr: stdout is for the result. The end of the input is an empty answer."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def ask(request: Request, model: ModelSpec, answer: Answer = typed) -> Request:
    """The request with what it left open. Asked again until the answer can be used; nothing that has one choice is.

    Nor is anything where nobody knows yet what can be chosen: the route of the model is seen in its project.
    """
    phases = choices(model)
    if not phases:
        return request
    if request.phase is None and len(phases) > 1:
        phase = _ask(f"phase ({', '.join(phases)}) [{phases[0]}]: ", phases[0], phases.__contains__, answer)
        request = dataclasses.replace(request, phase=phase)
    chosen = request.phase or phases[0]
    if request.steps is None and not request.all_steps and chosen not in ("prefill", "rollout"):
        what = "decode" if chosen in ("both", "separate") else chosen
        endless = f", or {ALL}" if _has_an_end(model) else ""
        usual = str(default_steps(chosen))
        said = _ask(
            f"{what} steps{endless} [{usual}]: ", usual, lambda text: _usable(text, chosen, request, endless), answer
        )
        request = dataclasses.replace(request, steps=None if said == ALL else int(said), all_steps=said == ALL)
    return request


def choices(model: ModelSpec) -> Sequence[str]:
    """The phases of a model, the default first; none where the host has to be asked before."""
    from ..routes import AUTO, routes

    if model.route == AUTO:
        return ()
    if model.route is not None:
        route = routes()[model.route]
        return [phase for phase in route.phases if phase not in route.lacking(model.options)]
    can = kinds(model)
    if "decode" in can:
        return ("both", "prefill", "decode", "separate", *(["forward"] if "forward" in can else []))
    return [kind for kind in ("forward", "prefill") if kind in can]


def _has_an_end(model: ModelSpec) -> bool:
    from ..routes import routes

    if model.route is None:
        return False
    route = routes()[model.route]
    return route.all_steps and ALL not in route.lacking(model.options)


def _ask(question: str, usual: str, usable: Callable[[str], bool], answer: Answer) -> str:
    for _ in range(3):
        said = answer(question) or usual
        if usable(said):
            return said
    raise UsageError(f"{said!r} is no answer to: {question.rstrip(': ')}", "say it with --phase and --steps")


def _usable(text: str, phase: str, request: Request, endless: str) -> bool:
    if text == ALL:
        return bool(endless)
    try:
        recorded(phase, int(text), request.warmup_steps)
    except ValueError:
        return False
    return True
