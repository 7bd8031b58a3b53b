"""Where releases before 0.8 have the worker."""

from __future__ import annotations

from . import engine_workers


class ActorRolloutRefWorker(engine_workers.ActorRolloutRefWorker):
    pass
