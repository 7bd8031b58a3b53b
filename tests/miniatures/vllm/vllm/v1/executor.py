"""Where the workers are: in the engine's process for one device, in daemonic children of it for several."""

from __future__ import annotations

import multiprocessing
import os
import socket
from multiprocessing.connection import Connection
from typing import Any

from vllm.config import EngineConfig


class WorkerDied(RuntimeError):
    """A worker has ended, and with it the engine."""


class UniProcExecutor:
    def __init__(self, config: EngineConfig) -> None:
        from vllm_ascend.worker.worker import NPUWorker

        self._worker = NPUWorker(config, 0, free_port())
        self.rpc("load_model")

    def rpc(self, method: str, *arguments: Any) -> list[Any]:
        return [getattr(self._worker, method)(*arguments)]

    def shutdown(self) -> None:
        pass


class MultiprocExecutor:
    def __init__(self, config: EngineConfig) -> None:
        start = multiprocessing.get_context(os.environ.get("VLLM_WORKER_MULTIPROC_METHOD", "fork"))
        port = free_port()
        self._workers = []
        for rank in range(config.tensor_parallel_size):
            ours, theirs = start.Pipe()
            process = start.Process(
                target=_work, args=(config, rank, port, theirs), name=f"VllmWorker-{rank}", daemon=True
            )
            process.start()
            theirs.close()
            self._workers.append((process, ours))
        self._replies()
        self.rpc("load_model")

    def rpc(self, method: str, *arguments: Any) -> list[Any]:
        for _, pipe in self._workers:
            pipe.send((method, arguments))
        return self._replies()

    def _replies(self) -> list[Any]:
        replies = []
        for process, pipe in self._workers:
            try:
                good, reply = pipe.recv()
            except EOFError:
                process.join()
                raise WorkerDied(f"{process.name} died with exit code {process.exitcode}") from None
            if not good:
                raise RuntimeError(f"{process.name}: {reply}")
            replies.append(reply)
        return replies

    def shutdown(self) -> None:
        for process, _ in self._workers:
            process.terminate()
        for process, _ in self._workers:
            process.join()


def executor(config: EngineConfig) -> UniProcExecutor | MultiprocExecutor:
    return UniProcExecutor(config) if config.tensor_parallel_size == 1 else MultiprocExecutor(config)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _work(config: EngineConfig, rank: int, port: int, pipe: Connection) -> None:
    from vllm_ascend.worker.worker import NPUWorker

    worker = NPUWorker(config, rank, port)
    pipe.send((True, None))
    while True:
        method, arguments = pipe.recv()
        try:
            pipe.send((True, getattr(worker, method)(*arguments)))
        except Exception as problem:  # noqa: BLE001 - the engine is told, whatever it is
            pipe.send((False, f"{type(problem).__name__}: {problem}"))
