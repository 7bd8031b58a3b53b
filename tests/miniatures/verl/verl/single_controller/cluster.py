"""Actors in processes of their own: Ray's with VERL_MINIATURE_RAY, else a stand-in's.

Both take the same calls: ``actor(of, arguments, environment)``, ``call(method, ...)`` of an actor, ``gather(calls)``,
``shutdown()``; an actor whose process has died makes `gather` raise ActorDied.
"""

from __future__ import annotations

import os
from typing import Any


class ActorDied(RuntimeError):
    """The actor died because its worker process has died."""


def cluster(ray_init: dict[str, Any]) -> Any:
    if os.environ.get("VERL_MINIATURE_RAY"):
        from .with_ray import RayCluster

        return RayCluster(ray_init)
    from .without_ray import LocalCluster

    return LocalCluster(ray_init)


def visible_devices(count: int) -> list[str]:
    """The devices that there are for the job: those of ASCEND_RT_VISIBLE_DEVICES, else the first of the host.

    A cluster that was there before has its own (VERL_MINIATURE_CLUSTER_DEVICES).
    """
    named = os.environ.get("ASCEND_RT_VISIBLE_DEVICES")
    if os.environ.get("RAY_ADDRESS", "local") != "local":
        named = os.environ.get("VERL_MINIATURE_CLUSTER_DEVICES", named)
    found = named.split(",") if named else [str(n) for n in range(count)]
    if len(found) < count:
        raise ValueError(f"Total available GPUs {len(found)} is less than total desired GPUs {count}")
    return found[:count]


def env_vars(ray_init: dict[str, Any]) -> dict[str, str]:
    """What verl gives to all of its processes, and what the configuration adds; Ray takes texts alone."""
    given = (ray_init.get("runtime_env") or {}).get("env_vars") or {}
    for name, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"runtime_env['env_vars'] must be of type Dict[str, str], got {name}={value!r}")
    return {"TOKENIZERS_PARALLELISM": "true", "VLLM_LOGGING_LEVEL": "WARN", **given}
