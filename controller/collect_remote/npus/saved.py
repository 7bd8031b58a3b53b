"""What somebody saved from npu-smi, read as the devices that it speaks of."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path

from collect_agent.npu.device import LIST, MAPPING, Device
from collect_agent.npu.failures import NpuSmiFormatError
from collect_agent.npu.interpret import combine, parse_info
from collect_agent.npu.numbering import join, parse_mapping
from collect_agent.npu.single import parse_list, parse_processes, parse_usages

from ..errors import UsageError, translated

MOST_BYTES = 4 << 20  # a table of 64 devices has 20 kB


def load(path: Path) -> str:
    """The text of a saved file: UTF-8, or UTF-16 with its byte order mark, as PowerShell's `>` writes it.

    UsageError when it is no regular file, is larger than MOST_BYTES, or cannot be read.
    """
    remedy = "name a file with npu-smi's output"
    if str(path) == "-":
        raise UsageError("standard input is not read", remedy)
    try:
        if path.exists() and not path.is_file():  # a pipe or a device could keep us for ever
            raise UsageError(f"{path} is no regular file", remedy)
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", remedy) from error
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path} is larger than {MOST_BYTES >> 20} MiB, which no output of npu-smi is", remedy)
    utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if utf_16 else "utf-8-sig", errors="replace")


def read(text: str, mapping: str | None = None) -> tuple[Device, ...]:
    """The devices of `npu-smi info`, or what `-m`, `-l`, `-t usages` or `-t proc-mem` says of them.

    `mapping` is the text of `npu-smi info -m` from the same place. Without it a device has the logic id that stands in
    the text, if any: nobody can tell whether it comes from a container, which numbers its devices anew.
    EnvironmentUnfit for a failure of npu-smi's own, or a text that is not understood; UsageError when `mapping` is not
    what it should be.
    """
    with translated():
        chips = parse_mapping(mapping or "")
        if mapping is not None and not chips:
            raise UsageError("the map is not the output of `npu-smi info -m`", "save it with `npu-smi info -m > FILE`")
        try:
            report = parse_info(text)
        except NpuSmiFormatError:
            for other in (_mapped, _measured, _listed):
                devices = tuple(other(text))
                if devices:
                    return devices
            raise
        return join(report, chips, in_container=False) if chips else report.devices


def _mapped(text: str) -> Iterator[Device]:
    for chip in parse_mapping(text):
        doubt = f"only `{MAPPING}` speaks of it"
        yield Device(chip.npu, chip.chip, chip.logic, chip.phy, chip.name, doubt=doubt, source=MAPPING)


def _listed(text: str) -> Iterator[Device]:
    for npu, count in parse_list(text).items():
        for chip in [None] if count is None else range(count):
            yield Device(npu, chip, doubt=f"only `{LIST}` speaks of it", source=LIST)


def _measured(text: str) -> tuple[Device, ...]:
    return combine(parse_usages(text), parse_processes(text))
