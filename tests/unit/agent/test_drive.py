"""A program that is not ours: its receipts as the run's reports, what went wrong, and the talk with a server."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collect_agent.drive.diagnosis import cause, diagnose, last
from collect_agent.drive.http import Conversation
from collect_agent.drive.receipts import Receipts
from collect_agent.drive.story import Story
from collect_agent.failure import Failure

SCHEDULE = {"skip_first": 2, "wait": 0, "warmup": 1, "active": 3}
DEVICE = {"count": 1, "name": "Ascend910B3", "index": 0, "memory_free_bytes": 5, "memory_total_bytes": 9}


class Process:
    """What one process of a program writes, line by line."""

    def __init__(self, pid: int = 7, rank: int = 0) -> None:
        self.pid, self.rank, self.lines = pid, rank, []  # type: ignore[var-annotated]

    def say(self, say: str, **fields: Any) -> Process:
        self.lines.append({"say": say, "time": float(len(self.lines)), "pid": self.pid, **fields})
        return self

    def begun(self, phase: str = "decode", schedule: dict[str, int] | None = None, number: int = 1) -> Process:
        self.say("alive").say("imported", torch="2.13.0", torch_npu="2.13.0")
        self.say("profiler", id=number, phase=phase, rank=self.rank, wanted=True, schedule=schedule)
        return self.say("device", **DEVICE).say("waiting", id=number).say("opened", id=number)

    def steps(self, *states: str, number: int = 1) -> Process:
        for at, state in enumerate(states):
            self.say("step", id=number, n=at, state=state, seconds=0.5, recompiles=1)
        return self

    def closed(self, number: int = 1, *, complete: bool = True) -> Process:
        return self.say("closed", id=number, directory="d", how="schedule", complete=complete)


ALL_STATES = ("NONE", "NONE", "WARMUP", "RECORD", "RECORD", "RECORD_AND_SAVE")


def told(story: Story, *processes: Process) -> list[dict[str, Any]]:
    return [report for process in processes for line in process.lines for report in story.tell(line)]


def test_a_scheduled_window_is_told_as_the_template_tells_its_own() -> None:
    story = Story({"decode": 3}, [0])
    reports = told(story, Process().begun(schedule=SCHEDULE).steps(*ALL_STATES).closed())
    assert [report["stage"] for report in reports] == ["import", *["warmup"] * 2, *["profile"] * 3]
    assert reports[0]["device"] == {"pid": 7, **{name: DEVICE[name] for name in DEVICE if name != "index"}}
    assert reports[-1] == {
        "stage": "profile",
        "window": "decode",
        "kind": "decode",
        "step": 3,
        "of": 3,
        "seconds": 0.5,
        "recompiles": 1,
    }
    assert story.over
    assert story.recorded("decode")


def test_steps_behind_a_window_are_no_warm_up_of_it() -> None:
    story = Story({"decode": 3}, [0])
    no_warm_up = {"skip_first": 0, "wait": 0, "warmup": 0, "active": 3}
    process = Process().begun(schedule=no_warm_up).steps("RECORD", "RECORD", "RECORD_AND_SAVE").closed().steps("NONE")
    assert "warmup" not in [report["stage"] for report in told(story, process)]


def test_other_ranks_are_named_and_waited_for() -> None:
    story = Story({"decode": 3}, [2, 5])
    lead = Process(7, 2).begun(schedule=SCHEDULE).steps(*ALL_STATES).closed()
    other = Process(8, 5).begun(schedule=SCHEDULE)
    assert not any("rank" in report for report in told(story, lead))
    assert not story.over
    assert [report["rank"] for report in told(story, other.closed())] == [5]
    assert story.over
    assert story.waiting == {2, 5}


def test_started_and_stopped_is_one_step_unless_somebody_else_counts() -> None:
    process = Process().begun(schedule=None).steps("RECORD", "RECORD").closed()
    (step,) = [report for report in told(Story({"decode": None}, [0]), process) if report["stage"] == "profile"]
    assert (step["step"], step["of"], step["seconds"]) == (1, 1, 3.0)
    assert [report["stage"] for report in told(Story({"decode": None}, [0], counted=True), process)] == ["import"]


def test_what_was_compiled_between_start_and_stop_is_known_when_it_has_closed() -> None:
    story = Story({"decode": None}, [0, 1], counted=True)
    for rank in (0, 1):
        process = Process(7 + rank, rank).begun(schedule=None)
        told(story, process.say("closed", id=1, directory="d", how="stop", complete=True, recompiles=rank))
    assert story.recompiles("decode") == 1


def test_watched_calls_are_warm_up_of_their_phase_or_of_all() -> None:
    story = Story({"prefill": 1, "decode": 3}, [0])
    process = (
        Process().say("warmup", phase=None, seconds=1, call="x").say("warmup", phase="decode", seconds=2, call="y")
    )
    assert [(report["window"], report["step"]) for report in told(story, process)] == [
        ("prefill", 1),
        ("decode", 1),
        ("decode", 2),
    ]


@pytest.mark.parametrize("line", [{"say": "step"}, {"say": "closed", "id": 9}, {"say": "tell"}, {"say": "imported"}])
def test_lines_that_are_not_the_shims_change_nothing(line: dict[str, Any]) -> None:
    story = Story({"decode": 3}, [0])
    assert story.tell({"time": 0.0, "pid": 1, **line}) == []
    assert not story.over


def test_a_rank_that_is_known_late_may_not_be_wanted() -> None:
    story = Story({"decode": 3}, [1])
    process = Process(7, 0).begun(schedule=SCHEDULE)
    told(story, process, Process(7, 0).say("profiler", id=1, phase="decode", rank=0, wanted=False, schedule=SCHEDULE))
    assert story.windows == {}


def test_receipts_are_read_as_they_grow(tmp_path: Path) -> None:
    receipts = Receipts(str(tmp_path))
    (tmp_path / "12.jsonl").write_bytes(b'{"say": "alive", "time": 2}\n{"say": "exi')
    (tmp_path / "go").write_text("")
    (tmp_path / "x.jsonl").write_text('{"say": "alive", "time": 2}\n')
    assert [line["say"] for line in receipts.news()] == ["alive"]
    with open(tmp_path / "12.jsonl", "ab") as file:
        file.write(b't", "time": 5}\nnoise\n\xff\n[1]\n{"say": 1, "time": 1}\n')
    (tmp_path / "13.jsonl").write_text('{"say": "alive", "time": 3}\n')
    assert [(line["pid"], line["say"]) for line in receipts.news()] == [(13, "alive"), (12, "exit")]
    assert receipts.news() == []
    assert [line["pid"] for line in receipts.all()] == [12, 13, 12]


def test_whatever_the_program_makes_of_its_receipts(tmp_path: Path) -> None:
    receipts = Receipts(str(tmp_path / "there"))
    assert receipts.news() == []
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "1.jsonl").mkdir()
    (tmp_path / "there" / "\u00b2.jsonl").write_text("")
    os.mkfifo(tmp_path / "there" / "2.jsonl")
    mine = tmp_path / "there" / "3.jsonl"
    numbers = ("1" + "0" * 400, "NaN", "Infinity", "1e999")
    mine.write_text("".join(f'{{"say": "step", "time": {number}}}\n' for number in numbers))
    with open(mine, "a") as file:
        file.write('{"say": "step", "time": 1, "seconds": NaN}\n{"say": "alive", "time": 1}\n')
    assert [line["say"] for line in receipts.news()] == ["alive"]
    mine.rename(tmp_path / "away")
    mine.write_text('{"say": "exit", "time": 2}\n')
    assert [line["say"] for line in receipts.news()] == ["exit"]
    assert [line["say"] for line in receipts.all()] == ["alive", "exit"]


# --- what went wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("processes", "said", "entry", "message"),
    [
        ([], "", "shim-not-loaded", "any Python of the command"),
        ([Process().say("alive")], "ImportError: no x", "profiler-not-imported", "exit status 3.: ImportError: no x"),
        ([Process().say("alive").say("imported", torch="1", torch_npu="1")], "", "profiler-not-built", "no profiler"),
        ([Process().say("alive").say("missing", call="a:B.c", why="no B")], "", "no-such-call", "no a:B.c .*no B"),
        (
            [Process().say("alive").say("missing", call="a:watched", why="no B")],
            "",
            "profiler-not-imported",
            "status 3",
        ),
        (
            [
                Process()
                .say("alive")
                .say("imported")
                .say("short", phase="decode", made=0, needed=6, calls={"prefill": 4})
            ],
            "",
            "call-not-made",
            "no call of a:B.c was a step of decode; there were 4 of prefill",
        ),
        (
            [
                Process().say("alive").say("imported").say("short", phase="decode", made=0, needed=6, calls={}),
                Process(8).say("imported").say("profiler", id=1, phase=None, wanted=False),
            ],
            "",
            "call-not-made",
            "there were none at all",
        ),
        (
            [
                Process().say("alive").say("imported").say("short", phase="decode", made=4, needed=6),
                Process(8).say("short", phase="decode", made=0, needed=6, calls={}),
            ],
            "",
            "window-too-long",
            "4 steps of decode, .* needs 6",
        ),
        (
            [
                Process().say("alive").say("imported", torch="1", torch_npu="1"),
                Process().say("missing", call="a:B.c", why="no B").say("profiler", id=1, phase=None, wanted=False),
            ],
            "",
            "no-such-call",
            "no B",
        ),
        ([Process().begun(schedule={"active": "many"})], "", "window-not-closed", "rank 0 ended"),  # type: ignore[dict-item]
        ([Process().begun("prefill")], "", "no-window", "rank 0 built no profiler for decode; .*prefill of rank 0"),
        ([Process().begun(schedule=SCHEDULE).steps("NONE")], "", "window-too-long", "1 steps of decode, .* needs 6"),
        ([Process().begun(schedule=SCHEDULE)], "KeyError: 'x'", "window-not-closed", "KeyError: 'x'"),
        ([Process().begun(schedule=None)], "", "window-not-closed", "rank 0 ended before"),
    ],
)
def test_why_nothing_came_of_it(processes: list[Process], said: str, entry: str, message: str) -> None:
    story = Story({"decode": 3}, [0], calls=["a:B.c"])
    told(story, *processes)
    lines = [line for process in processes for line in process.lines]
    by_itself = entry == "window-too-long" or any(line["say"] == "short" for line in lines)
    status = 0 if by_itself else 3
    failure = diagnose(story, lines, said, status, "/run.log")
    assert failure.entry == entry
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(failure.message)


def test_the_rank_that_is_missing_is_named() -> None:
    story = Story({"decode": 3}, [0, 1])
    good, dead = Process(7, 0).begun(schedule=SCHEDULE).steps(*ALL_STATES).closed(), Process(8, 1).say("alive")
    told(story, good, dead)
    assert "rank 1 built no profiler" in diagnose(story, good.lines + dead.lines, "", 0, "/l").message


@pytest.mark.parametrize(
    ("log", "found"),
    [
        ("Traceback:\n  File x\nValueError: first\nRuntimeError: then\n", "ValueError: first"),
        ("[rank1]: torch.OutOfMemoryError: NPU out of memory\n", "torch.OutOfMemoryError: NPU out of memory"),
        ("usage: x.py [-h]\nx.py: error: unrecognized arguments: --y\n", "x.py: error: unrecognized arguments: --y"),
        ("an ErrorLog of 3 lines\nall Exceptions are fine\n", ""),
    ],
)
def test_the_first_exception_is_the_cause(log: str, found: str) -> None:
    assert cause(log.splitlines()) == found


def test_a_launcher_gives_up_with_its_last_words() -> None:
    assert last("looking\nsomething else is running, the script ends\n\n=====\n".splitlines()) == (
        "something else is running, the script ends"
    )


# --- the talk with a server -------------------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, answers: dict[str, list[int]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        left = self.server.answers.get(self.path, [200])
        self.send_response(left.pop(0) if len(left) > 1 else left[0])
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.asked.append((self.path, json.loads(body) if body else None))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def served(**answers: list[int]) -> Iterator[Server]:
    with Server({"/" + name: left for name, left in answers.items()}) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def talk(server: Server, *actions: dict[str, Any]) -> list[Any]:
    conversation = Conversation(f"http://127.0.0.1:{server.server_address[1]}", list(actions), "/run.log")
    conversation.start()
    said = []
    while not said or isinstance(said[-1], dict):
        said.append(conversation.said.get(timeout=20))
    return said


READY = {"do": "ready", "path": "/health", "within_s": 5.0}


def test_a_conversation_from_ready_to_stop() -> None:
    with served(health=[503, 503, 200]) as server:
        *reports, end = talk(
            server,
            READY,
            {"do": "check", "path": "/v1", "json": {"n": 0}},
            {"do": "warmup", "path": "/v1", "json": {"n": 1}, "times": 2, "phase": "decode"},
            {"do": "start", "path": "/start"},
            {"do": "load", "path": "/v1", "json": {"n": 2}, "phase": "decode"},
            {"do": "stop", "path": "/stop"},
        )
        asked = server.asked
    assert end is None
    assert [report["stage"] for report in reports] == ["precheck", "warmup", "warmup", "profile"]
    assert asked == [
        ("/v1", {"n": 0}),
        ("/v1", {"n": 1}),
        ("/v1", {"n": 1}),
        ("/start", None),
        ("/v1", {"n": 2}),
        ("/stop", None),
    ]


@pytest.mark.parametrize(
    ("answers", "action", "entry", "message"),
    [
        ({"health": [503]}, dict(READY, within_s=0.3), "server-not-ready", "/health with 200 within 0.3 s: 503"),
        ({"start": [404]}, {"do": "start", "path": "/start"}, "server-refused", "/start with 404"),
        ({"v1": [500]}, {"do": "load", "path": "/v1", "json": {}, "phase": "decode"}, "server-refused", "with 500"),
    ],
)
def test_a_conversation_that_fails(
    answers: dict[str, list[int]], action: dict[str, Any], entry: str, message: str
) -> None:
    with served(**answers) as server:
        failure = talk(server, action)[-1]
    assert isinstance(failure, Failure)
    assert failure.entry == entry
    assert message in failure.message


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "BadStatusLine|SSH-2.0"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", "IncompleteRead"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nhalf", "500"),
        (b"HTTP/1.1 302 Go\r\nLocation: /%\r\nContent-Length: nine\r\n\r\n", ""),
        (b"", "closed"),
    ],
)
def test_an_answer_that_is_none_or_half_ends_the_conversation(answer: bytes, said: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    asker, _ = server.accept()
                    with asker:
                        asker.recv(4096)
                        asker.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        conversation = Conversation(url, [{"do": "start", "path": "/s"}], "/l")
        conversation.start()
        failure = conversation.said.get(timeout=20)
        server.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=20)
    assert failure.entry == "server-refused"
    assert re.search(said, failure.message), failure.message


def test_a_program_that_was_killed_needs_no_more_steps() -> None:
    story, process = Story({"decode": 3}, [0]), Process().begun(schedule=SCHEDULE).steps("NONE")
    told(story, process)
    failure = diagnose(story, process.lines, "", -9, "/run.log")
    assert failure.message == "rank 0 ended before its window of decode was closed (killed by SIGKILL)"
