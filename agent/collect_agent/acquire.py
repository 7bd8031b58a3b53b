"""Getting devices: choosing, leasing and looking again are one step, on the host.

What was free a moment ago may not be: a device is looked at again while its lease is held, and given back when somebody
else is on it. Who waits for a lease does so without asking npu-smi, which can take seconds and disturbs the others.
"""

from __future__ import annotations

import random
import time
from typing import Any, Callable, Dict, List, Sequence

from . import lease, npu
from .failure import Failure

TRY_EVERY_S = (0.5, 1.5)
LOOK_EVERY_S = 15.0
TELL_EVERY_S = 10.0
LEASE_SLACK_S = 600.0  # for what follows the run's time limit: ending, judging, packing


def acquire(plan: Dict[str, Any], run_id: str, emit: Callable[..., Any]) -> lease.Leases:
    """Lease the best group of devices that the plan's wish allows, waiting up to `wait_s` seconds for one.

    `groups` of the plan are those that looked free to the controller, best first; later ones are found here. Raises
    Failure: NoFreeDevice with every reason, or what npu-smi died of.
    """
    wish = npu.Wish.from_json(plan["wish"])
    groups: List[List[lease.Device]] = plan["groups"]
    refused: List[str] = plan["refused"]
    started = looked = time.monotonic()
    told = -TELL_EVERY_S
    while True:
        leased: List[str] = []
        unusable: List[str] = []
        verdicts: Sequence[npu.Verdict] = ()
        for group in groups:
            try:
                held = lease.take(group, run_id, plan["deadline_s"] + LEASE_SLACK_S)
            except lease.Taken as taken:
                leased.append(str(taken))
                continue
            except OSError as error:  # somebody's strange file costs one device, not all
                unusable.append("{} cannot be leased: {}".format(group[0]["label"], error))
                continue
            try:
                verdicts = _look(plan, wish)
            except BaseException:
                held.release()
                raise
            if _all_free(group, verdicts):
                return held
            held.release()
            break
        waited = time.monotonic() - started
        if unusable and not leased and not verdicts:
            raise Failure(
                "EnvironmentUnfit",
                "; ".join(unusable[:3]),
                "remove that file, or name a directory that all users can write to in {}".format(
                    lease.DIRECTORY_VARIABLE
                ),
            )
        if waited >= plan["wait_s"] and not verdicts:
            why = "; ".join(refused + leased + unusable)
            raise Failure("NoFreeDevice", why or "no NPU is free", _remedy(plan))
        if not verdicts and time.monotonic() - looked >= LOOK_EVERY_S:
            verdicts = _look(plan, wish)
        if verdicts:
            looked = time.monotonic()
            groups = [[described(device) for device in group] for group in npu.groups(verdicts, wish)]
            refused = npu.reasons(verdicts, wish)
        if plan["wait_s"] and waited - told >= TELL_EVERY_S:
            told = waited
            emit(stage="wait", reasons=refused + leased, left_s=round(max(0.0, plan["wait_s"] - waited)))
        time.sleep(random.uniform(*TRY_EVERY_S))  # noqa: S311 - only to spread those who wait


def described(device: npu.Device) -> lease.Device:
    """A device as plan and manifest have it."""
    return {"label": device.label, "npu": device.npu, "chip": device.chip, "logic": device.logic, "name": device.name}


def _look(plan: Dict[str, Any], wish: npu.Wish) -> Sequence[npu.Verdict]:
    devices = npu.interpret(npu.look())
    return npu.judge(devices, wish, allowed=npu.visible_ids(plan["visible_devices"]))


def _all_free(group: Sequence[lease.Device], verdicts: Sequence[npu.Verdict]) -> bool:
    free = {verdict.device.logic for verdict in verdicts if verdict.free}
    return all(device["logic"] in free for device in group)


def _remedy(plan: Dict[str, Any]) -> str:
    if plan["wait_s"]:
        return "wait longer (--wait), or ask its users to release one"
    return "wait until one is (--wait 30m), or name another device"
