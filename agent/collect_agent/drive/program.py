"""Drive a program that is not ours to its profile: start it, follow its receipts, talk to it, end it.

The run hears of it in the words of the template's worker, and looks at the device at the same two gates: before a
profiler of it starts (the shim waits for us), and when a window has closed.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import signal
import subprocess
import time
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

from .. import events, shim, troubles
from ..ending import ending
from ..failure import Failure
from ..run import family, process, room, together
from ..run.rundir import RunDir
from . import diagnosis
from .http import Conversation
from .lost import lost
from .misplaced import misplaced
from .receipts import Receipts
from .story import Report, Story

TICK_S = 0.1
TOGETHER_S = 2.0  # for the other ranks to come to the gate: one may need another to come so far
ENDING_S = 30.0
LOOK_EVERY_S = 2.0
QUIET_S = 10.0  # without a word of the others when a rank has ended, before they are taken to wait for it
LOG_BYTES = 1 << 18


def drive(run: RunDir) -> int:
    """Run what `drive.json` says; 0 when everything is recorded that the plan expects."""
    family.die_with_parent()
    voice = events.inherited_voice()
    with open(os.path.join(run.path, "drive.json"), encoding="utf-8") as file:
        launch: Dict[str, Any] = json.load(file)
    plan = run.read_plan()
    driver = Driver(run, plan["expected"], launch, voice, plan["node"])
    try:
        with driver.started() as program:
            driver.follow(program)
    except Failure as failure:
        voice.say("error", **failure.to_json())
        return 1
    return 0


class Driver:
    """One program, its story, and the gates it comes to."""

    def __init__(
        self,
        run: RunDir,
        expected: Dict[str, Any],
        launch: Dict[str, Any],
        voice: events.Voice,
        node: Optional[Dict[str, Any]],
    ) -> None:
        """`node`: the place of this host in a job on several."""
        self._run, self._launch, self._voice, self._node = run, launch, voice, node
        self._receipts = Receipts(_made(run.receipts))
        calls = [one["call"] for one in (launch["shim"] or {}).get("step_on", ())]
        self._story = Story(expected["steps"], expected["ranks"], bool(launch["trigger"]), calls)
        self._names: Dict[str, str] = {}  # what the plan cannot know
        self._phases_told: List[str] = []
        self._held: List[Report] = []  # steps of a conversation, until it is known what was compiled in them
        self._gate_since: Optional[float] = None
        self._began = time.time()
        self._heard = time.monotonic()

    @contextlib.contextmanager
    def started(self) -> "Iterator[subprocess.Popen[bytes]]":
        """The program in a process group of its own, which is asked to end when the body is left."""
        environment = self._environment()
        self._names.update(
            run=self._run.path,
            id=self._run.id,
            pythonpath=environment.get("PYTHONPATH", ""),
            # The supervisor tells where a job on several hosts meets.
            master_addr=os.environ.get("MASTER_ADDR", "127.0.0.1"),
            port=os.environ.get("MASTER_PORT") or str(together.free_port("127.0.0.1")),
        )
        argv = [word.format(**self._names) for word in self._launch["argv"]]
        environment.update((name, value.format(**self._names)) for name, value in self._launch["env"].items())
        try:
            program = subprocess.Popen(
                argv,
                cwd=self._launch["cwd"],
                env=environment,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=family.die_with_parent,
            )
        except OSError as error:
            raise troubles.NOT_STARTED(command=argv[0], cwd=self._launch["cwd"], why=error.strerror) from error
        self._voice.say("load")
        try:
            yield program
        finally:
            self._end(program)

    def follow(self, program: "subprocess.Popen[bytes]") -> None:
        """Until everything is recorded, and the program has ended where that is what the plan waits for."""
        conversation = None
        if self._launch["trigger"]:
            url = self._launch["server"].format(**self._names)
            conversation = Conversation(url, self._launch["trigger"], self._run.log)
            conversation.start()
        looked = time.monotonic()
        while True:
            status = program.poll()
            self._hear()
            if time.monotonic() - looked > LOOK_EVERY_S:
                looked = time.monotonic()
                self._look_around()
            talked = conversation is not None and self._talked(conversation)
            if conversation is None or talked:
                self._look_when_recorded()
            if self._story.over and (conversation is None or talked) and self._launch["stop"] == "recorded":
                return
            if talked and conversation is not None:
                self._end(program)
                conversation, status = None, program.poll()
                self._hear()
            if status is not None:
                self._hear()
                self._look_when_recorded()
                self._ended(status, conversation)
                return
            time.sleep(TICK_S)

    def _ended(self, status: int, conversation: Optional[Conversation]) -> None:
        if self._story.over and conversation is None:
            return
        said = self._last_words(status)
        if conversation is not None:
            with contextlib.suppress(Exception):
                while not conversation.said.empty():
                    self._talked(conversation)
            raise troubles.SERVER_ENDED(
                doing=conversation.doing, ending=ending(status), said=": " + said if said else "", log=self._run.log
            )
        raise diagnosis.diagnose(self._story, self._receipts.all(), said, status, self._run.log)

    def _hear(self) -> None:
        """New lines of the receipts; the gate, where ranks stand at it."""
        for line in self._receipts.news():
            self._heard = time.monotonic()
            for report in self._story.tell(line):
                self._say(report)
        if self._story.waiting and not os.path.exists(self._run.gate):
            self._gate_since = self._gate_since or time.monotonic()
            together = self._story.waiting >= set(self._story.ranks)
            if together or time.monotonic() - self._gate_since > TOGETHER_S:
                self._voice.gate("loaded")
                with open(self._run.gate, "wb"):
                    pass

    def _look_when_recorded(self) -> None:
        for phase in self._story.steps:
            if phase not in self._phases_told and self._story.recorded(phase):
                self._phases_told.append(phase)
                for number, report in enumerate(step for step in self._held if step["window"] == phase):
                    self._voice.say(**dict(report, recompiles=0 if number else self._story.recompiles(phase)))
                self._voice.gate("recorded", window=phase)

    def _look_around(self) -> None:
        full = room.lacking(self._run)
        if full:
            raise full
        if self._launch["shim"] is not None:
            self._look_for_strangers()
            self._look_for_the_lost()
            self._look_for_the_misplaced()

    def _look_for_strangers(self) -> None:
        """Failure for a process of ours that has torch_npu loaded, and not the shim: nothing would come of it.

        A library or the kernel forks without Python's hooks: until it is another program, such a child is its parent.
        """
        for pid in process.of_run(self._run.id):
            if pid in self._receipts.of or process.forked_from(pid) in self._receipts.of:
                continue
            if process.has_mapped(pid, "torch_npu"):
                self._hear()
                if pid not in self._receipts.of:
                    who = "pid {} ({}), which uses torch_npu".format(pid, process.command(pid))
                    raise troubles.SHIM_NOT_LOADED(who=who, said="", log=self._run.log)

    def _look_for_the_lost(self) -> None:
        """Failure when a rank has ended before its time, and nothing was heard of the others since."""
        if self._story.over or time.monotonic() - self._heard < QUIET_S:
            return
        missing = self._story.wanted - self._story.closed
        found = lost(self._receipts.of, missing, lambda pid: process.start_time(pid) is not None)
        if found is not None:
            said = found[1] or self._last_words(0)
            raise troubles.RANK_LOST(rank=found[0], said=": " + said if said else "", log=self._run.log)

    def _look_for_the_misplaced(self) -> None:
        """Failure when the launcher has numbered the hosts otherwise than the job does: nothing would be recorded."""
        if self._node is None:
            return
        count = len(os.environ["ASCEND_RT_VISIBLE_DEVICES"].split(","))
        own = range(self._node["rank"] * count, (self._node["rank"] + 1) * count)
        rank = misplaced(map(process.environment, self._receipts.of), own, self._node["count"] * count)
        if rank is not None:
            raise troubles.RANK_MISPLACED(rank=rank, first=own[0], last=own[-1])

    def _talked(self, conversation: Conversation) -> bool:
        """Pass on what the conversation has to say; whether it is over. Raises the Failure that ended it."""
        while not conversation.said.empty():
            said = conversation.said.get()
            if isinstance(said, Failure):
                raise said
            if said is None:
                return True
            if said["stage"] == "profile":
                self._held.append(said)
            else:
                self._say(said)
        return False

    def _say(self, report: Report) -> None:
        self._voice.say(**report)

    def _environment(self) -> Dict[str, str]:
        """That of the run, with the shim in it."""
        result = dict(os.environ)
        for name in (events.PIPE_VARIABLE, events.GATE_VARIABLE):
            result.pop(name, None)
        asked = self._launch["shim"]
        if asked is None:
            return result
        shim.install(_made(self._run.shim))
        request = dict(asked, output=self._run.profile, receipts=self._run.receipts, gate=self._run.gate)
        path = os.path.join(self._run.path, "shim.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(request, file, indent=1)
        return shim.environment(self._run.shim, path, result)

    def _last_words(self, status: int) -> str:
        """The first exception in the program's logs, those of its other ranks included; else how a failure ends."""
        logs = [self._run.log, *self._own_logs()]
        said = next(filter(None, (_found(diagnosis.cause, path) for path in logs)), "")
        return said or (_found(diagnosis.last, self._run.log) if status else "")

    def _own_logs(self) -> List[str]:
        """Of this run: a framework may keep those of earlier ones in the same directory."""
        found = [
            path for pattern in self._launch["logs"] for path in glob.glob(os.path.join(self._launch["cwd"], pattern))
        ]
        return sorted(path for path in found if os.path.getmtime(path) >= self._began - 1)

    def _end(self, program: "subprocess.Popen[bytes]") -> None:
        """Ask its process group to end. The supervisor ends what does not, and what has left the group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)
        until = time.monotonic() + ENDING_S
        while program.poll() is None and time.monotonic() < until:
            time.sleep(TICK_S)


def _found(search: Callable[[Iterable[str]], str], path: str) -> str:
    """What `search` finds in the end of a log; nothing in one that cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_BYTES))
            return search(file)
    except OSError:
        return ""


def _made(directory: str) -> str:
    os.makedirs(directory, exist_ok=True)
    return directory
