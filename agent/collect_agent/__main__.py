"""`python agent.pyz COMMAND ...`: the agent's commands, each imported only when it is called.

start                 a plan as JSON on descriptor 3: create the run, detach its supervisor, follow it
follow RUN SEQ        the events of a run after SEQ
stop RUN              end a run and prove it
meet RUN NUMBER PORT  let a run go on from a meeting with the other hosts of its job
send RUN OFFSET       the result files of a run, from a byte offset
pour RUN OFFSET       the rest of the file that a byte offset is in, as it is
runs WORKDIR          what is there
clean WORKDIR [--results] [RUN...]      remove what has ended
validate PATH         judge a profile
supervise RUN, work RUN, drive RUN, attend RUN      what `start` starts
keep                  on the host of a container: lease its run's devices there; what to keep, as JSON, on stdin
bridge RUN            in the container: the way between a run and its keeper
"""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, List


def main(arguments: List[str]) -> int:
    import json

    from .run.rundir import RunDir

    command, *rest = arguments
    if command == "start":
        from . import events
        from .failure import Failure
        from .run.follow import follow
        from .run.start import start

        try:
            with open(3, encoding="utf-8") as plan:
                run = start(json.load(plan))
        except Failure as failure:
            sys.stdout.write(events.on_wire(events.failed(failure)))
            return 1
        return follow(run)
    if command == "follow":
        from .run.follow import follow

        return follow(RunDir(rest[0]), int(rest[1]))
    if command == "send":
        from .run.send import send

        return send(RunDir(rest[0]), int(rest[1]))
    if command == "pour":
        from .run.send import pour

        return pour(RunDir(rest[0]), int(rest[1]))
    if command in ("stop", "meet", "runs", "clean"):
        return _answer(command, rest)
    if command == "supervise":
        from .run.supervise import supervise

        return supervise(RunDir(rest[0]))
    if command == "work":
        from .worker import work

        return work(RunDir(rest[0]))
    if command == "drive":
        from .drive.program import drive

        return drive(RunDir(rest[0]))
    if command == "attend":
        from .drive.attend import attend

        return attend(RunDir(rest[0]))
    if command == "keep":
        from .boxes.keeper import keep

        return keep()
    if command == "bridge":
        from .boxes.bridge import bridge

        return bridge(RunDir(rest[0]))
    if command == "validate":
        from .validate import validate

        verdict = validate(rest[0])
        json.dump(verdict, sys.stdout, indent=1)
        return 0 if verdict["verdict"] == "valid" else 7
    sys.stderr.write(__doc__ or "")
    return 2


def _answer(command: str, rest: List[str]) -> int:
    """What is answered with one event, and may take its time."""
    from . import events
    from .failure import Failure
    from .run.rundir import RunDir

    answer: Dict[str, Any]
    try:
        with events.beating():
            if command == "stop":
                from .run.stop import stop

                answer = {"left": stop(RunDir(rest[0]))}
            elif command == "meet":
                from .run.together import meet

                meet(RunDir(rest[0]), int(rest[1]), int(rest[2]))
                answer = {"number": int(rest[1])}
            elif command == "runs":
                from .run import listing

                answer = {"runs": listing.runs(rest[0])}
            else:
                from .run.clean import clean

                names = [word for word in rest[1:] if word != "--results"]
                answer = clean(rest[0], names, "--results" in rest, os.path.basename(sys.argv[0]))
    except Failure as failure:
        sys.stdout.write(events.on_wire(events.failed(failure)))
        return 1
    sys.stdout.write(events.on_wire(dict(answer, stage=command)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
