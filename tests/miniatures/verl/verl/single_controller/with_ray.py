"""Actors of Ray."""

from __future__ import annotations

from typing import Any

import ray

from .cluster import ActorDied, env_vars


class RayCluster:
    def __init__(self, ray_init: dict[str, Any]) -> None:
        given = {key: value for key, value in ray_init.items() if value is not None}
        given["runtime_env"] = {"env_vars": env_vars(ray_init)}
        ray.init(include_dashboard=False, **given)

    def actor(self, of: type, arguments: tuple[Any, ...], environment: dict[str, str]) -> RayActor:
        options = {"runtime_env": {"env_vars": environment}, "num_cpus": 0}
        return RayActor(ray.remote(of).options(**options).remote(*arguments))

    def gather(self, calls: list[Any]) -> list[Any]:
        try:
            return list(ray.get(calls))
        except ray.exceptions.RayActorError as problem:
            raise ActorDied(str(problem)) from None

    def shutdown(self) -> None:
        ray.shutdown()


class RayActor:
    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._handle, method).remote(*arguments)
