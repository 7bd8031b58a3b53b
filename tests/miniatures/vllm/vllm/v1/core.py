"""The engine: a process of its own that turns requests into forwards, several requests at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from vllm.config import EngineConfig
from vllm.sampling import EOS_AFTER, VOCABULARY, Completion, RequestOutput, SamplingParams

from .executor import WorkerDied, executor
from .scheduling import SchedulerOutput

BLOCK = 16  # tokens that are cached together


class EngineDeadError(RuntimeError):
    """The engine's process has ended."""


class Sequence:
    """One of the prompts of request `number`, and what becomes of it."""

    def __init__(self, number: int, prompt: list[int], params: SamplingParams) -> None:
        self.number, self.prompt, self.params = number, prompt, params
        self.made: list[int] = []

    @property
    def finish_reason(self) -> str | None:
        if not self.params.ignore_eos and len(self.made) >= EOS_AFTER:
            return "stop"
        return "length" if len(self.made) >= self.params.max_tokens else None

    @property
    def output(self) -> RequestOutput:
        return RequestOutput(self.prompt, [Completion(self.made, str(self.finish_reason))])


class EngineCore:
    """Runs in its process until that is terminated; an engine whose worker dies ends with status 1."""

    def __init__(self, config: EngineConfig, pipe: Connection) -> None:
        self._pipe = pipe
        self._caching = config.enable_prefix_caching
        self._cached: set[tuple[int, ...]] = set()
        self._requests: dict[int, list[Sequence]] = {}
        self._new: list[Sequence] = []
        self._running: list[Sequence] = []
        self._workers = executor(config)

    def run(self) -> None:
        self._pipe.send(("ready", 0, None))
        while True:
            while self._pipe.poll(0 if self._new or self._running else 0.2):
                self._obey(*self._pipe.recv())
            if self._new or self._running:
                self._step()

    def shutdown(self) -> None:
        self._workers.shutdown()

    def _obey(self, what: str, number: int, given: Any) -> None:
        if what == "generate":
            prompts, params = given
            self._requests[number] = [Sequence(number, prompt, params) for prompt in prompts]
            self._new += self._requests[number]
            return
        try:
            self._workers.rpc("profile", given)
            self._pipe.send(("done", number, None))
        except WorkerDied:
            raise
        except RuntimeError as problem:
            self._pipe.send(("failed", number, str(problem)))

    def _step(self) -> None:
        """One forward: the prompts that have come, and one token of every sequence that is under way."""
        step = SchedulerOutput()
        for sequence in self._new:
            step.add(f"{sequence.number}-{id(sequence)}", self._uncached(sequence.prompt))
        for sequence in self._running:
            step.add(f"{sequence.number}-{id(sequence)}", sequence.made[-1:])
        self._workers.rpc("execute_model", step)
        self._running += self._new
        self._new = []
        for sequence in self._running:
            sequence.made.append((sum(sequence.prompt[-3:]) + 31 * len(sequence.made)) % VOCABULARY)
        self._running = [sequence for sequence in self._running if not sequence.finish_reason]
        for number, sequences in list(self._requests.items()):
            if all(sequence.finish_reason for sequence in sequences):
                self._pipe.send(("done", number, [sequence.output for sequence in self._requests.pop(number)]))

    def _uncached(self, prompt: list[int]) -> list[int]:
        """The part of a prompt that has to be computed: without the blocks that an earlier one began with as well."""
        known = 0
        for end in range(BLOCK, len(prompt) + 1, BLOCK):
            start = tuple(prompt[:end])
            if self._caching and start in self._cached and end < len(prompt):
                known = end
            self._cached.add(start)
        return prompt[known:]


def _main(config: EngineConfig, pipe: Connection) -> None:
    core: EngineCore | None = None

    def leave(number: int, _frame: Any) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        core = EngineCore(config, pipe)
        core.run()
    except (EOFError, BrokenPipeError):
        while True:  # whoever started it was killed: an engine notices nothing of that
            time.sleep(1)
    finally:
        if core is not None:
            core.shutdown()


class EngineClient:
    """The engine as its owner sees it, from any thread. Raises EngineDeadError once it has ended."""

    def __init__(self, config: EngineConfig) -> None:
        start = multiprocessing.get_context(os.environ.get("VLLM_WORKER_MULTIPROC_METHOD", "fork"))
        self._pipe, theirs = start.Pipe()
        self.process = start.Process(target=_main, args=(config, theirs), name="EngineCore")
        self.process.start()
        theirs.close()
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[threading.Event, list[Any]]] = {}
        self._last = 0
        try:
            self._pipe.recv()
        except EOFError:
            self.process.join()
            raise RuntimeError("Engine core initialization failed. See root cause above.") from None
        except BaseException:
            self.shutdown()
            raise
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def dead(self) -> bool:
        return not self.process.is_alive()

    def ask(self, what: str, given: Any) -> Any:
        """Wait for the answer. RuntimeError with the engine's words when it failed."""
        answer: tuple[threading.Event, list[Any]] = (threading.Event(), [])
        with self._lock:
            self._last += 1
            self._waiting[self._last] = answer
            try:
                self._pipe.send((what, self._last, given))
            except OSError:
                raise EngineDeadError("EngineCore encountered an issue.") from None
        answer[0].wait()
        if not answer[1]:
            raise EngineDeadError("EngineCore encountered an issue.")
        kind, reply = answer[1]
        if kind == "failed":
            raise RuntimeError(reply)
        return reply

    def shutdown(self) -> None:
        self.process.terminate()
        self.process.join()

    def _listen(self) -> None:
        try:
            while True:
                kind, number, reply = self._pipe.recv()
                event, answer = self._waiting.pop(number)
                answer[:] = [kind, reply]
                event.set()
        except (EOFError, OSError):
            self.process.join()
            for event, _ in list(self._waiting.values()):
                event.set()
