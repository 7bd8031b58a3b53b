"""What the run wrote: find it, see that it is parsed, and list what goes into the archive.

Only what lies in the run's own directory is looked at. What the profiler did not parse, because it refused or failed,
is parsed here: in place first, then in copies on other file systems. How it was parsed goes into the manifest.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from .. import cpus
from ..run import process
from ..run.rundir import RunDir
from ..troubles import NO_DATA, NOT_PARSED
from ..validate.messages import explain
from . import elsewhere, pack, parse, parsed

Emit = Callable[..., Any]
Parsed = Dict[str, Any]

TICK_S, BEAT_S = 0.2, 5.0
PROCESSORS = 2  # that one parser keeps busy: its own, and msprof's
QUIET_S = 5.0  # who neither writes nor computes for so long is no parser at work
# torch_npu prints its messages to stdout as "[date time] [LEVEL] [pid] profiler.py: text" (torch_npu 2.13.0).
_MESSAGE = re.compile(r"\[(?:ERROR|WARNING)\] \[\d+\] profiler\.py: (.*)")
_CALL = re.compile(r"Call \w+ failed\. Exception: ")


class Harvest(NamedTuple):
    """found: directories of the profiles by phase. parsed: how each came by its output, by the directory's name:

    {"how": "online" | "offline" | "not at all", "where": directory, "tried": [{"where", "how", "problem"}]}
    """

    found: Dict[str, List[str]]
    parsed: Dict[str, Parsed]


def harvest(run: RunDir, plan: Dict[str, Any], environment: Dict[str, str], emit: Emit) -> Harvest:
    """Every profile of the expected phases, parsed as far as it can be.

    `environment` is that of the program that wrote it. Failure when a phase left nothing behind.
    """
    found = {phase: profiles(run, phase) for phase in plan["expected"]["steps"]}
    missing = [phase for phase in found if not found[phase]]
    if len(missing) == len(found) or (missing and not plan["salvage"]):
        said = messages(run.log)
        raise NO_DATA(window=missing[0], said=": " + said[-1] if said else "", log=run.log)
    hand = _Hand(run, plan["expected"]["export"], environment, emit)
    hand.parse_in_place([path for paths in found.values() for path in paths])
    return Harvest(found, {os.path.basename(path): hand.attend_to(path) for paths in found.values() for path in paths})


def settle(run: RunDir, plan: Dict[str, Any], emit: Emit) -> None:
    """Wait for parsers that outlive the program: as long as a profile is unparsed and they write or compute."""
    begun = told = changed = time.monotonic()
    before: Any = None
    while True:
        paths = [path for phase in plan["expected"]["steps"] for path in profiles(run, phase)]
        left = process.of_run(run.id)
        if not left or not any(parsed.unfinished(path, plan["expected"]["export"]) for path in paths):
            return
        now, state = time.monotonic(), (process.ticks(left), _sizes(paths))
        changed, before = (changed, before) if state == before else (now, state)
        if now - changed > QUIET_S:
            return
        if now - told >= BEAT_S:
            told = now
            emit(stage="parse", seconds=round(now - begun))
        time.sleep(TICK_S)


def profiles(run: RunDir, phase: str) -> List[str]:
    """The directories that the profiler has made for a phase of this run."""
    directory = os.path.join(run.profile, phase)
    if not os.path.isdir(directory):
        return []
    entries = (entry for entry in os.scandir(directory) if entry.name.endswith("_ascend_pt"))
    return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))


def died_while_parsing(run: RunDir, plan: Dict[str, Any], last: Dict[str, Any]) -> bool:
    """Whether a program whose last report was `last` had recorded everything: its parser can be started again.

    Not with several ranks, here or on other hosts: torchrun ends the others in whatever they are doing.
    """
    phases = list(plan["expected"]["steps"])
    alone = len(plan["expected"]["ranks"]) == 1 and plan["node"] is None
    if last["stage"] != "parse" or last.get("window") != phases[-1] or not alone:
        return False
    paths = [profiles(run, phase) for phase in phases]
    return all(found and all(parsed.is_closed(path) for path in found) for found in paths)


def check(harvested: Harvest) -> Dict[str, Any]:
    """The check `parsed`: how the profiles came by their output. Pure."""
    failed = [how for how in harvested.parsed.values() if how["how"] == "not at all"]
    if failed:
        problem, remedy = _told(failed[0])
        return {"id": NOT_PARSED.id, "verdict": "fail", "message": problem, "remedy": remedy}
    offline = sorted({how["where"] for how in harvested.parsed.values() if how["how"] == "offline"})
    message = "by an offline parse in " + ", ".join(offline) if offline else "by the profiler itself"
    return {"id": NOT_PARSED.id, "verdict": "pass", "message": message, "remedy": ""}


def _told(how: Parsed) -> Tuple[str, str]:
    """What went wrong and what to do, of a profile that could not be parsed."""
    online, *offline = how["tried"]
    problem = (offline or [online])[0]["problem"]
    known = explain([problem])
    places = ["in place" if attempt["where"] == how["where"] else attempt["where"] for attempt in offline]
    again = " (parsed anew in vain: {})".format(", ".join(places)) if places else ""
    message = NOT_PARSED.message.format(problem=problem, again=again)
    return message, known[0].message.remedy if known else NOT_PARSED.remedy


def members(harvested: Harvest, keep_raw: bool) -> List[pack.Member]:
    """(name in the archive, path) of every file to pack; directories keep the names that torch_npu gave them."""
    result: List[pack.Member] = []
    for phase, directories in harvested.found.items():
        for directory in directories:
            left_out = [] if keep_raw else parsed.raw(directory)
            name = "/".join(("profile_l1", phase, os.path.basename(directory)))
            result += pack.tree(directory, name, _all_but(left_out))
    return result


def _all_but(names: List[str]) -> Callable[[str], bool]:
    return lambda path: path not in names


def messages(log: str) -> List[str]:
    """What torch_npu.profiler complained about, in order: the run's log is the only place where it is said."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return [match.group(1).strip() for match in map(_MESSAGE.search, file) if match]


def _sizes(paths: List[str]) -> int:
    total = 0
    for path in paths:
        for folder, _, names in os.walk(path):
            for name in names:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_size
                except OSError:
                    continue  # temporary, and gone
    return total


class _Hand:
    """Parses the profiles of one run; what has worked for one is tried first for the next."""

    def __init__(self, run: RunDir, export: List[str], environment: Dict[str, str], emit: Emit) -> None:
        self._run, self._export, self._environment, self._emit = run, export, environment, emit
        self._places: Optional[List[elsewhere.Place]] = None
        self._worked: Optional[elsewhere.Place] = None
        self._before: Dict[str, str] = {}  # what was wrong with those that were parsed together
        self._in_place: Dict[str, parse.Ended] = {}

    def parse_in_place(self, directories: List[str]) -> None:
        """Where several wait for a parser (every rank of a program whose own was switched off), parse them together."""
        problems = {one: parsed.unfinished(one, self._export) for one in directories if not parsed.hopeless(one)}
        waiting = {one: problem for one, problem in problems.items() if problem}
        if len(waiting) < 2:
            return
        for directory in waiting:
            parse.close_to_others(directory)
        self._before = waiting
        self._in_place = self._parse({one: parse.limit_s(one) for one in waiting}, "{} in place".format(len(waiting)))

    def attend_to(self, directory: str) -> Parsed:
        """Have the profile parsed, and say how. OSError when what was parsed elsewhere cannot be brought back."""
        problem = self._before.get(directory) or parsed.unfinished(directory, self._export)
        if not problem:
            return {"how": "online", "where": directory, "tried": []}
        hopeless = parsed.hopeless(directory)
        if hopeless:
            said = [text for text in messages(self._run.log) if _CALL.match(text)]
            problem = ": ".join([hopeless, *said[:1]])
        tried = [{"how": "online", "where": directory, "problem": problem}]
        if hopeless:
            return {"how": "not at all", "where": directory, "tried": tried}
        for place in self._order(directory):
            where = place.path if place else directory
            ended = self._at(directory, place)
            left = parsed.unfinished(directory, self._export)
            if not left or not (ended.problem or place):
                # It is parsed; or the parser has nothing to complain of, and there is no more in the data.
                self._worked = place
                return {"how": "offline", "where": where, "tried": tried}
            tried.append({"how": "offline", "where": where, "problem": ended.problem or left})
            if not ended.movable:
                break
        return {"how": "not at all", "where": directory, "tried": tried}

    def _order(self, directory: str) -> Iterator[Optional[elsewhere.Place]]:
        """Where to try, lazily: where it has worked before, in place (None), on other file systems."""
        first = None if directory in self._in_place else self._worked
        if first:
            yield first
        yield None
        if self._places is None:
            need = elsewhere.TIMES * elsewhere.raw_bytes(directory)
            self._places = elsewhere.places(self._run, self._environment, need)
        rest = sorted(self._places, key=lambda place: place != self._worked)
        yield from (place for place in rest if place != first)

    def _at(self, directory: str, place: Optional[elsewhere.Place]) -> parse.Ended:
        if place is None:
            if directory in self._in_place:
                return self._in_place.pop(directory)
            parse.close_to_others(directory)
            return self._parse_one(directory, directory)
        with contextlib.ExitStack() as stack:
            try:
                copy = stack.enter_context(elsewhere.Copy(self._run, directory, place))
            except OSError as error:
                return parse.Ended("it cannot be copied to {}: {}".format(place.path, error.strerror), movable=True)
            ended = self._parse_one(copy.directory, place.path)
            if not parsed.unfinished(copy.directory, self._export):
                copy.bring_back()
            return ended

    def _parse_one(self, directory: str, where: str) -> parse.Ended:
        return self._parse({directory: parse.limit_s(directory)}, where)[directory]

    def _parse(self, limits: Dict[str, float], where: str) -> Dict[str, parse.Ended]:
        def beat(seconds: float) -> None:
            self._emit(stage="harvest", parse="offline", where=where, seconds=round(seconds))

        beat(0)
        at_once = max(1, cpus.count() // PROCESSORS)
        return parse.parse_all(limits, at_once, self._export, self._environment, self._run.work, beat)
