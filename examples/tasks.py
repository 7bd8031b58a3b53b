"""Tasks for Airflow, Prefect or any scheduler that calls plain functions: arguments and results are plain data.

With Airflow, decorate them with `@task` and write `step_seconds.expand(result=profile.expand(job=jobs(...)))`; with
Prefect, `@task` and `.map`. What a scheduler retries is safe to retry: the run has the id that the first task gave it,
and is followed, or its result brought, if it is there already.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from collect_remote import Profile, Request, Task, load_inventory, new_run_id, perform


def jobs(inventory: str, pattern: str, model: str, results: str) -> list[dict[str, str]]:
    """One for every host; its result will be in `out`."""
    made = []
    for host in load_inventory(inventory).select(pattern):
        run_id = new_run_id()
        out = f"{results}/{host.name}/{run_id}"
        made.append({"inventory": inventory, "host": host.name, "model": model, "run_id": run_id, "out": out})
    return made


def profile(job: dict[str, str]) -> dict[str, Any]:
    """The job, with what a fleet is compared by. RuntimeError has the scheduler try it again."""
    host = load_inventory(job["inventory"]).host(job["host"])
    outcome = perform(Task(host, Request(job["host"], job["model"], out=Path(job["out"])), job["run_id"], again=True))
    if outcome.state != "valid":
        raise RuntimeError(f"{job['host']}: {(outcome.error or {}).get('message', outcome.state)}")
    return {**job, "summary": outcome.summary}


def step_seconds(result: dict[str, Any]) -> list[float]:
    """What the next task wants to know."""
    phases = Profile.at(result["out"]).manifest["phases"]
    return [seconds for phase in phases.values() for seconds in phase["step_seconds"]]
