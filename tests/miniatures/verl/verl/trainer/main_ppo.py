"""``python3 -m verl.trainer.main_ppo key=value ...``"""

from __future__ import annotations

import os
import sys
from typing import Any

from ..config import Wrong, configuration
from ..releases import Release, release, version
from ..single_controller.cluster import ActorDied, cluster, visible_devices
from ..workers import engine_workers, fsdp_workers
from ..workers.rollout import RolloutReplica


def main(overrides: list[str]) -> int:
    of = release(version())
    try:
        config = configuration(of, overrides)
    except Wrong as problem:
        sys.stderr.write(f"{problem}\n\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n")
        return 1
    started = cluster(config["ray_kwargs"]["ray_init"])
    try:
        Trainer(config, of, started).fit()
    except ActorDied as problem:
        sys.stderr.write(f"ray.exceptions.ActorDiedError: {problem}\n")
        return 1
    finally:
        started.shutdown()
    return 0


class Trainer:
    def __init__(self, config: dict[str, Any], of: Release, started: Any) -> None:
        self.config, self.of, self.cluster = config, of, started
        trainer = config["trainer"]
        self.steps = trainer["total_training_steps"] or trainer["total_epochs"]
        world = int(trainer["n_gpus_per_node"])
        devices = visible_devices(world)
        port = 20000 + os.getpid() % 10000
        workers = engine_workers if of.profiled_servers else fsdp_workers
        self.actors = [
            started.actor(
                workers.ActorRolloutRefWorker,
                (config,),
                {
                    "RANK": str(rank),
                    "WORLD_SIZE": str(world),
                    "LOCAL_RANK": "0",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    "ASCEND_RT_VISIBLE_DEVICES": devices[rank],
                },
            )
            for rank in range(world)
        ]
        self.replicas = []
        if of.agent_loop:
            size = int(config["actor_rollout_ref"]["rollout"]["tensor_model_parallel_size"])
            for number in range(world // size):
                own = devices[number * size : (number + 1) * size]
                arguments = (config, number, own, number * size)
                self.replicas.append(started.actor(RolloutReplica, arguments, {}))

    def fit(self) -> None:
        profiled = self._profiled_steps()
        for step in range(1 + self._resumed(), self.steps + 1):
            if step in profiled:
                self._all("start_profile", step)
            self._each(self.replicas or self.actors, "generate_sequences")
            self._each(self.actors, "compute_log_prob")
            if self.config["actor_rollout_ref"]["actor"]["use_kl_loss"]:
                self._each(self.actors, "compute_ref_log_prob")
            self._each(self.actors, "update_actor", step)
            if step in profiled:
                self._all("stop_profile")
            every = self.config["trainer"]["save_freq"]
            if every > 0 and (step % every == 0 or step == self.steps):
                os.makedirs(os.path.join(self._checkpoints(), f"global_step_{step}"), exist_ok=True)
            sys.stdout.write(f"step:{step} - actor/loss:0.0\n")
            sys.stdout.flush()

    def _checkpoints(self) -> str:
        return str(self.config["trainer"]["default_local_dir"])

    def _resumed(self) -> int:
        """The step of the last checkpoint, from which it goes on unless it is told not to."""
        folder = self._checkpoints()
        if self.config["trainer"]["resume_mode"] == "disable" or not os.path.isdir(folder):
            return 0
        return max([int(name.rpartition("_")[2]) for name in os.listdir(folder)], default=0)

    def _profiled_steps(self) -> list[int]:
        if self.of.keys == "global_profiler":
            found = self.config["global_profiler"]
            return (found["steps"] or []) if found["tool"] is not None else []
        return self.config["trainer"]["profile_steps"] or []

    def _all(self, method: str, *arguments: Any) -> None:
        self._each([*self.actors, *self.replicas], method, *arguments)

    def _each(self, actors: list[Any], method: str, *arguments: Any) -> None:
        self.cluster.gather([actor.call(method, *arguments) for actor in actors])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
