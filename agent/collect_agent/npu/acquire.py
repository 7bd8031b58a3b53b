"""Getting devices: choosing, leasing and looking again are one step, on the host.

What was free a moment ago may not be: a device is looked at again while its lease is held, and given back when somebody
else is on it. Who waits for a lease does so without asking npu-smi, which can take seconds and disturbs the others.
"""

from __future__ import annotations

import random
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .. import troubles
from ..failure import Failure
from . import choice, lease
from .device import Device
from .inside import judge_for
from .interpret import interpret
from .judge import Verdict, Wish
from .look import look

TRY_EVERY_S = (0.5, 1.5)
LOOK_EVERY_S = 15.0
TELL_EVERY_S = 10.0
LEASE_SLACK_S = 600.0  # for what follows the run's time limit: ending, judging, packing


def acquire(plan: Dict[str, Any], run_id: str, emit: Callable[..., Any]) -> lease.Leases:
    """Lease the best group of devices that the plan's wish allows, waiting up to `wait_s` seconds for one.

    `groups` of the plan are those that looked free to the controller, best first; later ones are found here. The
    devices of the leases are described as they were found under the lease. Raises Failure: NoFreeDevice with every
    reason, or what npu-smi died of; while there is time to wait, that is one more reason to.
    """
    wish = Wish.from_json(plan["wish"])
    groups: List[List[lease.Device]] = plan["groups"]
    refused: List[str] = plan["refused"]
    started = looked = time.monotonic()
    told = -TELL_EVERY_S
    while True:
        held, reasons, verdicts = _try(groups, plan, wish, run_id)
        if held is not None:
            return held
        waited = time.monotonic() - started
        over = waited >= plan["wait_s"]
        if over and verdicts is None:
            raise Failure("NoFreeDevice", "; ".join(refused + reasons) or "no NPU is free", _remedy(plan))
        try:
            if verdicts is None and time.monotonic() - looked >= LOOK_EVERY_S:
                verdicts = _look(plan, wish)
            if verdicts is not None:
                looked = time.monotonic()
                groups = [[described(device) for device in group] for group in choice.groups(verdicts, wish)]
                refused = choice.reasons(verdicts, wish)
        except Failure as failure:
            if over:
                raise
            groups, refused = [], [failure.message]
        if plan["wait_s"] and waited - told >= TELL_EVERY_S:
            told = waited
            emit(stage="wait", reasons=refused + reasons, left_s=round(max(0.0, plan["wait_s"] - waited)))
        time.sleep(random.uniform(*TRY_EVERY_S))  # noqa: S311 - only to spread those who wait


def _try(
    groups: List[List[lease.Device]], plan: Dict[str, Any], wish: Wish, run_id: str
) -> Tuple[Optional[lease.Leases], List[str], Optional[Sequence[Verdict]]]:
    """(leases, why not, what was found instead): one go at the groups, until one is leased and still free."""
    reasons: List[str] = []
    for group in groups:
        try:
            # The time limit counts from when every host of a job has its devices, and others may have to wait.
            held = lease.take(group, run_id, plan["wait_s"] + plan["deadline_s"] + LEASE_SLACK_S)
        except lease.Taken as taken:
            reasons.append(str(taken))
            continue
        except OSError as error:
            raise troubles.NO_LEASE(device=group[0]["label"], why=error, variable=lease.DIRECTORY_VARIABLE) from error
        try:
            verdicts = _look(plan, wish)
        except Failure as failure:
            held.release()
            if not plan["wait_s"]:
                raise
            return None, [*reasons, failure.message], None
        except BaseException:
            held.release()
            raise
        fresh = {verdict.device.logic: verdict for verdict in verdicts if verdict.free}
        if all(device["logic"] in fresh for device in group):
            held.devices = [described(fresh[device["logic"]].device) for device in group]
            return held, [], None
        held.release()
        return None, reasons, verdicts
    return None, reasons, None


def described(device: Device) -> lease.Device:
    """A device as plan and manifest have it."""
    return {
        "label": device.label,
        "npu": device.npu,
        "chip": device.chip,
        "logic": device.logic,
        "bus": device.bus_id,
        "used_mb": device.memory_used_mb,
        "name": device.name,
    }


def _look(plan: Dict[str, Any], wish: Wish) -> Sequence[Verdict]:
    return judge_for(interpret(look()), wish, plan["visible_devices"], plan["container"])


def _remedy(plan: Dict[str, Any]) -> str:
    if plan["wait_s"]:
        return "wait longer (--wait), or ask its users to release one"
    return "wait until one is (--wait 30m), or name another device"
