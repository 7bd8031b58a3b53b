"""The template route: our own warmed-up profiling loop around an adapter."""

from __future__ import annotations

import json
from pathlib import Path

from ..errors import UsageError
from ..inventory.hosts import ModelSpec
from ..request import Request, Window, adapter_source
from .plan import Plan, expected

USER_ADAPTER = "adapter.py"


def plan(request: Request, window: Window, model: ModelSpec) -> Plan:
    """The plan for one model. Pure but for reading a user's own adapter file. UsageError for some of the ranks."""
    if request.ranks:
        raise UsageError("--ranks is for programs that others start", "the template profiles every rank: leave it out")
    files = {}
    adapter = model.adapter or ""
    if adapter.endswith(".py"):
        files[USER_ADAPTER] = adapter_source(Path(adapter))
        adapter = USER_ADAPTER
    profiled = {
        "phase": window.phase,
        "steps": window.steps,
        "warmup_steps": request.warmup_steps,
        "level": request.level,
        "aic_metrics": request.aic_metrics,
        "export": [request.export],
        "with_stack": request.with_stack,
        "record_shapes": request.record_shapes,
        "profile_memory": request.profile_memory,
    }
    files["request.json"] = json.dumps(
        {"adapter": adapter, "options": dict(model.options), "request": profiled}, indent=1
    )
    return Plan(
        route="template",
        files=files,
        argv=("{python}", *(_torchrun(request) if request.world_size > 1 else ()), "{agent}", "work", "{run}"),
        env={},
        expected=expected(request, window.step_counts),
    )


def _torchrun(request: Request) -> tuple[str, ...]:
    """One process a device. With a port of its own: --standalone was 29400 for everybody once."""
    return (
        *("-m", "torch.distributed.run", f"--nnodes={request.node_count}", f"--node-rank={request.node_rank}"),
        *(f"--nproc-per-node={request.rank_count}", "--master-addr={master_addr}", "--master-port={port}"),
    )
