"""What `look` saw, turned into devices, or into the error that names what went wrong."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from typing import TYPE_CHECKING, Any, Iterable, List, Mapping, Optional, Tuple

from ..ending import ending
from .device import HOLDERS, LIST, TORCH, USAGES, Device
from .failures import NpuSmiError, NpuSmiFormatError, NpuSmiTimeoutError, failure, missing
from .look import LATE
from .numbering import join, parse_mapping
from .table import Report, read_table

if TYPE_CHECKING:
    from .single import Holders, Usage


def interpret(observation: Mapping[str, Any]) -> Tuple[Device, ...]:
    """The devices of the host on which `look` made this observation, in npu-smi's order.

    From the table of `npu-smi info` with the logic ids of `-m`. When npu-smi is refused in a container, those that
    torch_npu sees; when it shows no table, what its single-device forms say, which is never enough to call a device
    free. Raises NpuSmiError.
    """
    if observation["npu_smi"] is None:
        raise missing()
    status, text = observation["info"]
    try:
        report = parse_info(text, status)
    except NpuSmiTimeoutError:
        raise
    except NpuSmiError:
        devices = _from_torch(observation) or _from_single_forms(observation)
        if devices:
            return devices
        raise
    devices = join(report, parse_mapping(observation["mapping"][1]), observation["in_container"])
    return tuple(_with_users(device, observation.get("owners", {})) for device in devices)


def parse_info(text: str, status: Optional[int] = None) -> Report:
    """Read the table of `npu-smi info` (stdout and stderr in one text).

    Raises NpuSmiError: a failure of npu-smi's own by its name, or NpuSmiFormatError with the first line that
    was not understood.
    """
    known = failure(text, status)
    if isinstance(known, NpuSmiTimeoutError):
        raise known  # its table may end anywhere
    try:
        return read_table(text)
    except NpuSmiFormatError:
        if known:
            raise known from None
        if status and not text.strip():
            raise NpuSmiError(
                "npu-smi printed nothing ({})".format(ending(status)), "run `npu-smi info` on the host by hand"
            ) from None
        raise


def combine(usages: Iterable[Usage], holders: Iterable[Holders]) -> Tuple[Device, ...]:
    """The devices of `-t usages` and `-t proc-mem`, of the same NPUs. All with a doubt: their health is not told, and
    their memory only in whole per cent.
    """
    held = {(chip.npu, chip.chip): chip for chip in holders}
    devices = []
    for usage in usages:
        used = "" if usage.memory_used_pct is None else ", {} % of its memory used".format(usage.memory_used_pct)
        doubt = usage.complaint or "only `{}` speaks of it, without its health{}".format(USAGES, used)
        chip = held.pop((usage.npu, usage.chip), None)
        utilisation = usage.npu_util_pct if usage.aicore_pct is None else usage.aicore_pct
        devices.append(
            Device(
                usage.npu,
                usage.chip,
                utilisation_pct=utilisation,
                memory_total_mb=usage.memory_total_mb,
                processes=chip.processes if chip else (),
                doubt=doubt,
                source=USAGES,
            )
        )
    for chip in held.values():
        doubt = "only `{}` speaks of it".format(HOLDERS)
        devices.append(Device(chip.npu, chip.chip, processes=chip.processes, doubt=doubt, source=HOLDERS))
    return tuple(devices)


def _with_users(device: Device, owners: Mapping[str, Any]) -> Device:
    """Its processes with their users, where the kernel's process of that pid has that name: pids may be another's."""
    if not device.processes:
        return device
    named = []
    for process in device.processes:
        user, name = owners.get(str(process.pid), ("", None))
        here = name is not None and os.path.basename(process.name)[: len(name)] == name
        named.append(dataclasses.replace(process, user=user if here else ""))
    return dataclasses.replace(device, processes=tuple(named))


def _from_torch(observation: Mapping[str, Any]) -> Tuple[Device, ...]:
    """The devices that torch_npu can use. Its numbers are the logic ids: it was asked without a preset choice."""
    status, text = observation.get("torch", [0, ""])
    told = re.search(r"(?m)^torch_npu sees (\[.*\])$", text)
    devices = []
    for row in json.loads(told[1]) if told and status != LATE else []:
        if "error" in row:
            doubt = "torch_npu cannot ask it: {}".format(row["error"])
            devices.append(Device(None, logic=row["logic"], doubt=doubt, source=TORCH))
            continue
        used, total = (row["total"] - row["free"]) >> 20, row["total"] >> 20
        devices.append(
            Device(
                None,
                logic=row["logic"],
                name=row["name"],
                memory_used_mb=used,
                memory_total_mb=total,
                source=TORCH,
            )
        )
    return tuple(devices)


def _from_single_forms(observation: Mapping[str, Any]) -> Tuple[Device, ...]:
    """The devices of `-l` and of what the single-device forms said about each."""
    from .single import parse_list, parse_processes, parse_usages  # which few need

    devices: List[Device] = []
    for npu in parse_list(observation.get("list", [0, ""])[1]):
        usages, processes = (observation[form].get(str(npu), [0, ""])[1] for form in ("usages", "processes"))
        found = combine(parse_usages(usages), parse_processes(processes))
        devices += found or [Device(npu, doubt="it does not answer", source=LIST)]
    return tuple(devices)
