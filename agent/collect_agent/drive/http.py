"""The conversation with a server: ready, a check, warm-up requests, start, load, stop; each bounded in time.

An action is {"do", "path", "json" (then it is a POST), "prompts", "times", "phase", "within_s"}. `do`:

ready   ask until the answer is 200; a list of models in it says whom the requests are for
check   one request whose answer must be 200 and not empty
warmup  requests outside the window, reported as warm-up steps of `phase`
load    the same inside it, reported as its steps
start, stop     one request that switches the profiler

With "prompts" ({"count", "tokens"}) every request has new ones.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import queue
import threading
import time
import urllib.error
import urllib.request
from typing import Any, Dict, List, Optional, Tuple

from .. import troubles
from ..failure import Failure
from .prompts import prompts

Action = Dict[str, Any]
TRY_EVERY_S = 0.25
REQUEST_S = 600.0
MOST_BYTES = 1 << 20
STEPS = {"warmup": "warmup", "load": "profile"}


class Conversation(threading.Thread):
    """Runs the actions in order. `said`: reports as they come, then None at the end, or the Failure that ended it."""

    def __init__(self, url: str, actions: List[Action], log: str) -> None:
        threading.Thread.__init__(self, daemon=True)
        self.said: "queue.Queue[Any]" = queue.Queue()
        self.doing = "its start"
        self._url, self._actions, self._log = url, actions, log
        self._model: Optional[str] = None
        self._prompts = 0  # how many there were
        # Of the server that we have started on this host; a proxy is for others.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def run(self) -> None:
        try:
            for action in self._actions:
                self.doing = "{} ({})".format(action["do"], action["path"])
                self._do(action)
        except Failure as failure:
            self.said.put(failure)
        except Exception as error:  # noqa: BLE001 - whoever listens must hear of it, or waits for ever
            said = "{}: {}".format(type(error).__name__, error)
            self.said.put(troubles.NOT_SWITCHED(path=self.doing, said=said, log=self._log))
        else:
            self.said.put(None)

    def _do(self, action: Action) -> None:
        if action["do"] == "ready":
            return self._wait(action)
        if action["do"] == "check":
            self.said.put({"stage": "precheck"})
        for number in range(1, action.get("times", 1) + 1):
            begun = time.monotonic()
            status, body = self._ask(action)
            if status != 200 or (action["do"] == "check" and not body.strip()):
                raise troubles.NOT_SWITCHED(path=action["path"], said=_told(status, body), log=self._log)
            if action["do"] in STEPS:
                self.said.put(_step(action, number, time.monotonic() - begun))
        return None

    def _wait(self, action: Action) -> None:
        until = time.monotonic() + action["within_s"]
        while True:
            status, body = self._ask(dict(action, within_s=min(10.0, action["within_s"])))
            if status == 200:
                self._model = _model(body)
                return
            if status in (401, 403):
                raise troubles.NOT_SWITCHED(path=action["path"], said=_told(status, body), log=self._log)
            if time.monotonic() > until:
                raise troubles.NOT_READY(
                    path=action["path"], seconds=action["within_s"], said=_told(status, body), log=self._log
                )
            time.sleep(TRY_EVERY_S)

    def _ask(self, action: Action) -> Tuple[Optional[int], bytes]:
        """(status, body) of the answer; None for what is no answer, with the reason."""
        body = json.dumps(self._document(action)).encode() if "json" in action else None
        request = urllib.request.Request(self._url + action["path"], body)  # noqa: S310 - http, as the plan has it
        request.add_header("Content-Type", "application/json")
        if action["do"] in ("start", "stop"):
            request.method = "POST"
        try:
            with self._opener.open(request, timeout=action.get("within_s", REQUEST_S)) as answer:
                return answer.status, answer.read(MOST_BYTES)
        except urllib.error.HTTPError as error:
            with contextlib.suppress(OSError, http.client.HTTPException):
                return error.code, error.read(MOST_BYTES)
            return error.code, b""
        except (OSError, ValueError, http.client.HTTPException) as error:  # the last: no HTTP, or half an answer
            return None, (str(getattr(error, "reason", error)) or type(error).__name__).encode()

    def _document(self, action: Action) -> Dict[str, Any]:
        document = dict(action["json"])
        if self._model is not None:
            document.setdefault("model", self._model)
        asked = action.get("prompts")
        if asked:
            document["prompt"] = prompts(asked["count"], asked["tokens"], self._prompts)
            self._prompts += asked["count"]
        return document


def _model(body: bytes) -> Optional[str]:
    """The first of those that a server of OpenAI's interface lists."""
    try:
        return str(json.loads(body)["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        return None


def _step(action: Action, number: int, seconds: float) -> Dict[str, Any]:
    step = {"window": action["phase"], "kind": "request", "step": number, "of": action.get("times", 1)}
    more = {"recompiles": None} if action["do"] == "load" else {}  # which the server's processes count
    return {"stage": STEPS[action["do"]], **step, "seconds": round(seconds, 6), **more}


def _told(status: Optional[int], body: bytes) -> str:
    text = " ".join(body.decode("utf-8", "replace").split())[:200]
    return text or "nothing" if status is None else "{} {}".format(status, text).strip()
