"""The prompts that a server is given, and for which model."""

from __future__ import annotations

import http.server
import json
import threading
from typing import Any

from collect_agent.drive.http import Conversation
from collect_agent.drive.prompts import FIRST, TOKENS, prompts


def test_prompts_have_their_length_and_begin_differently() -> None:
    made = [prompt for before in range(0, 2000, 4) for prompt in prompts(4, 16, before)]
    assert {len(prompt) for prompt in made} == {16}
    assert len({tuple(prompt[:2]) for prompt in made}) == 2000
    assert {min(prompt) >= FIRST and max(prompt) < FIRST + TOKENS for prompt in made} == {True}
    assert [len(prompt) for prompt in prompts(1, 1, 0)] == [1]


class Handler(http.server.BaseHTTPRequestHandler):
    asked: list[Any] = []  # noqa: RUF012 - of the one test that has it
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "/data/models/x"}]}).encode())

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.do_GET()

    def log_message(self, *_: Any) -> None:
        pass


def talk(*actions: dict[str, Any]) -> Any:
    """How it ended."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        conversation = Conversation(f"http://127.0.0.1:{server.server_address[1]}", list(actions), "/run.log")
        conversation.start()
        said: Any = {}
        while isinstance(said, dict):
            said = conversation.said.get(timeout=20)
        server.shutdown()
        thread.join()
    return said


READY = {"do": "ready", "path": "/v1/models", "within_s": 20.0}


def test_every_request_has_prompts_of_its_own_for_the_model_that_is_served() -> None:
    Handler.asked, Handler.status = [], 200
    asked = {"path": "/v1", "json": {"n": 1}, "prompts": {"count": 2, "tokens": 8}, "phase": "both"}
    assert talk(READY, {**asked, "do": "warmup", "times": 2}, {**asked, "do": "load"}) is None
    assert [(body["n"], body["model"]) for body in Handler.asked] == [(1, "/data/models/x")] * 3
    seen = [tuple(prompt) for body in Handler.asked for prompt in body["prompt"]]
    assert (len(seen), len(set(seen))) == (6, 6)


def test_a_server_that_wants_a_key_is_not_waited_for() -> None:
    Handler.status = 401
    assert "answered /v1/models with 401" in talk(READY).message
