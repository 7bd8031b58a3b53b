"""A made-up profile of any size: host and device events in the proportions of a public vLLM run.

27 events of 200 bytes a kernel, with the tables that belong to it. Names repeat and times do not, as in a real one: it
packs to about a thirteenth (real traces: to a sixteenth up to a seventh).
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import profiles

KERNELS_PER_STEP = 2000
HOST = 3_096_504
WARMUP = 1  # of the profiler's own schedule


def profile(place: Path, size: int) -> Path:
    """A sound profile below `place` whose trace has about `size` bytes."""
    place.mkdir(parents=True, exist_ok=True)
    dice = random.Random(0)  # noqa: S311
    probe = profiles.Profile(steps=1, kernels=KERNELS_PER_STEP)
    kernels = probe.timeline()
    host = [event for kernel in kernels for event in host_events(kernel, 0, dice)]
    steps = max(3, round(size / len(json.dumps([*profiles.trace_events(probe, kernels), *host]))))
    whole = profiles.Profile(steps=steps, kernels=KERNELS_PER_STEP, warmup=WARMUP)
    directory = profiles.write(place, whole)
    kernels = whole.timeline()
    with (directory / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").open("w") as file:
        file.write("[")
        for number, kernel in enumerate(kernels):
            file.write(json.dumps(list(host_events(kernel, number, dice)))[1:-1] + ", ")
        file.write(json.dumps(profiles.trace_events(whole, kernels))[1:])
    return directory


def host_events(kernel: profiles.Kernel, number: int, dice: random.Random) -> Iterator[dict[str, Any]]:
    """What the host records around one kernel, in the forms of a real export."""
    moment = kernel.start - 400_000

    def piece(name: str, category: str | None, **more: Any) -> dict[str, Any]:
        nonlocal moment
        moment += 10 * dice.randrange(400)
        length = 10 * round(dice.lognormvariate(5.5, 1.0))
        event = {"ph": "X", "name": name, "pid": HOST, "tid": HOST, **profiles.span(moment, length)}
        return {**event, **({"cat": category} if category else {}), **more}

    for count in range(5):
        python = {"Python id": 7 * number + count, "Python parent id": 7 * number + dice.randrange(7)}
        yield piece(f"nn.Module: DecoderLayer_{dice.randrange(64)}", "python_function", args=python)
        operator = {"Sequence number": dice.randrange(100_000), "Fwd thread id": 0}
        yield piece("aten::empty_strided", "cpu_op", args=operator)
        yield piece("aten::linear", "cpu_op", args={**operator, "Input Dims": f"{dice.randrange(4096)},4096;4096,4096"})
    yield piece("Enqueue", "enqueue", args={"correlation_id": number})
    yield piece("Dequeue@" + kernel.name, "dequeue", args={"correlation_id": number})
    for name, category in (("enqueue_to_dequeue", "async_task_queue"), ("torch_to_npu", "async_npu")):
        for end in "sf":
            flow = {"ph": end, "bp": "e", "name": name, "id": number, "pid": HOST, "tid": HOST}
            yield {**flow, "ts": profiles.us(moment), "cat": category}
    yield piece("Node@launch", None, args={"Thread Id": HOST, "Mode": "launch", "level": "node", "id": str(number)})
    yield piece("Computing", None, args={"Task Type": "AI_CORE"})
