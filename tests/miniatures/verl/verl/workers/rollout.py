"""A replica of the rollout server of the agent loop: an inference engine with daemonic workers, one a device.

Its profiler is the engine's: Level1, not parsed in place, and its directory says which replica it was.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing.connection import Connection
from typing import Any

from ..releases import release, version
from ..utils.profiler import Settings, npu_profiler, settings


class RolloutReplica:
    def __init__(self, config: dict[str, Any], replica: int, devices: list[str], first_rank: int) -> None:
        of = release(version())
        own = settings(config, "rollout", of.keys, of.export)
        npu = config["actor_rollout_ref"]["rollout"]["profiler"]["tool_config"]["npu"]
        self._window = (npu.get("profile_token_start") or 0, npu.get("profile_token_end"))
        self._data = config["data"]
        ranks = range(first_rank, first_rank + len(devices))
        here = own.ranks is None or bool(set(own.ranks) & set(ranks))
        self._here = of.profiled_servers and own.enable and own.discrete and here
        path = os.path.join(own.save_path, f"agent_loop_rollout_replica_{replica}")
        engine = own._replace(level="level1", analysis=True, save_path=path, export="Text")
        self._workers = []
        start = multiprocessing.get_context("spawn")
        port = 30000 + os.getpid() % 10000
        for local, device in enumerate(devices):
            ours, theirs = start.Pipe()
            os.environ["ASCEND_RT_VISIBLE_DEVICES"] = device
            process = start.Process(target=_work, args=(engine, local, len(devices), port, theirs), daemon=True)
            process.start()
            theirs.close()
            self._workers.append((process, ours))
        for _, pipe in self._workers:
            pipe.recv()
        self._profiled = False

    def start_profile(self, _step: int) -> None:
        self._profiled = self._here

    def stop_profile(self) -> None:
        self._profiled = False

    def generate_sequences(self) -> None:
        """One prompt and its answer; the token window, in tokens of the answer, says what of it is recorded."""
        first, end = self._window
        response = self._data["max_response_length"]
        end = response if end is None else min(end, response)
        for token in range(response):
            if self._profiled and token == first:
                self._rpc("profile", True)
            self._rpc("forward", 1 if token else self._data["max_prompt_length"])
            if self._profiled and token == end - 1:
                self._rpc("profile", False)

    def _rpc(self, method: str, argument: Any) -> None:
        for _, pipe in self._workers:
            pipe.send((method, argument))
        for _, pipe in self._workers:
            pipe.recv()


def _work(engine: Settings, rank: int, world: int, port: int, pipe: Connection) -> None:
    """`rank` is that in the engine: every replica has a rank 0."""
    import torch
    import torch_npu  # noqa: F401
    from vllm_ascend.worker.model_runner_v1 import NPUModelRunner, SchedulerOutput

    from .model import Policy

    if world > 1:
        torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    torch.npu.set_device("npu:0")
    runner = NPUModelRunner(Policy().to("npu:0"))
    profiler: Any = None
    pipe.send(None)
    while True:
        try:
            method, argument = pipe.recv()
        except EOFError:
            return
        if method == "forward":
            runner.execute_model(SchedulerOutput({"0": argument}))
        elif argument:
            profiler = npu_profiler(engine, "", f"dp0_pp0_tp{rank}_dcp0_ep{rank}_rank{rank}")
            profiler.start()
        else:
            profiler.stop()
        pipe.send(None)
