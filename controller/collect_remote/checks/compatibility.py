"""Which releases of torch, torch_npu, CANN, Python and the driver belong together, as far as public tables tell.

Sources, all of Huawei's: COMPATIBILITY.md of github.com/Ascend/pytorch (torch_npu, torch, CANN, Python); the release
notes of TorchNPU 7.2.0 and 26.2.0 on hiascend.com and in that repository (which CANN the release lines work with); the
release notes of CANN 8.5.0 and 9.2.0 (which drivers they work with). What they do not list is unknown, not wrong:
torch_npu 2.14.0 and CANN 9.2.0 are the newest they know, and of drivers they speak from CANN 8.5 on.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Package version of torch_npu: (release line, CANN it was released with).
RELEASES: Mapping[str, tuple[str, str]] = {
    "2.1.0": ("5.0", "7.0.0"),
    "2.1.0.post3": ("6.0.rc1", "8.0.RC1"),
    "2.1.0.post4": ("6.0.rc1", "8.0.RC1"),
    "2.1.0.post6": ("6.0.rc2", "8.0.RC2"),
    "2.1.0.post8": ("6.0.rc3", "8.0.RC3"),
    "2.1.0.post10": ("6.0", "8.0.0"),
    "2.1.0.post12": ("7.0", "8.1.RC1"),
    "2.1.0.post13": ("7.1", "8.2.RC1"),
    "2.1.0.post17": ("7.2", "8.3.RC1"),
    "2.2.0": ("6.0.rc1", "8.0.RC1"),
    "2.2.0.post2": ("6.0.rc2", "8.0.RC2"),
    "2.3.1": ("6.0.rc2", "8.0.RC2"),
    "2.3.1.post2": ("6.0.rc3", "8.0.RC3"),
    "2.3.1.post4": ("6.0", "8.0.0"),
    "2.3.1.post6": ("7.0", "8.1.RC1"),
    "2.4.0": ("6.0.rc3", "8.0.RC3"),
    "2.4.0.post2": ("6.0", "8.0.0"),
    "2.4.0.post4": ("7.0", "8.1.RC1"),
    "2.5.1": ("7.0", "8.1.RC1"),
    "2.5.1.post1": ("7.1", "8.2.RC1"),
    "2.6.0": ("7.1", "8.2.RC1"),
    "2.6.0.post3": ("7.2", "8.3.RC1"),
    "2.6.0.post5": ("7.3", "8.5.0"),
    "2.7.1": ("7.2", "8.3.RC1"),
    "2.7.1.post2": ("7.3", "8.5.0"),
    "2.7.1.post4": ("26.0", "9.0.0"),
    "2.7.1.post8": ("26.1", "9.1.0"),
    "2.7.1.post10": ("26.1", "9.1"),
    "2.7.1.post11": ("26.2", "9.2.0"),
    "2.8.0": ("7.2", "8.3.RC1"),
    "2.8.0.post2": ("7.3", "8.5.0"),
    "2.8.0.post4": ("26.0", "9.0.0"),
    "2.9.0": ("7.3", "8.5.0"),
    "2.9.0.post2": ("26.0", "9.0.0"),
    "2.9.0.post6": ("26.1", "9.1.0"),
    "2.9.0.post8": ("26.1", "9.1"),
    "2.9.0.post9": ("26.2", "9.2.0"),
    "2.10.0": ("26.0", "9.0.0"),
    "2.10.0.post4": ("26.1", "9.1.0"),
    "2.10.0.post6": ("26.1", "9.1"),
    "2.10.0.post7": ("26.2", "9.2.0"),
    "2.11.0": ("26.1", "9.1.0"),
    "2.11.0.post2": ("26.1", "9.1"),
    "2.11.0.post3": ("26.2", "9.2.0"),
    "2.12.0": ("26.1", "9.1.0"),
    "2.12.0.post2": ("26.1", "9.1"),
    "2.12.0.post3": ("26.2", "9.2.0"),
    "2.13.0": ("26.2", "9.2.0"),
    "2.14.0": ("26.2", "9.2.0"),
}
# Lines of CANN (8.5: 8.5.x) that the release lines of torch_npu also work with, whatever they were released with.
_OLD_CANNS = ("8.0.RC2", "8.0.RC3", "8.0.0", "8.1.RC1", "8.2.RC1", "8.3.RC1")
_NEW_CANNS = ("8.5", "9.0", "9.1", "9.2")
WORKS_WITH: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("6.0", "7.0", "7.1", "7.2"), _OLD_CANNS),
    **dict.fromkeys(("7.3", "26.0", "26.1", "26.2"), _NEW_CANNS),
}
# Minor versions of Python 3, the oldest and the newest, by version of torch.
PYTHONS: Mapping[str, tuple[int, int]] = {
    "2.1": (8, 11),
    "2.2": (8, 10),
    "2.3": (8, 11),
    "2.4": (8, 11),
    "2.5": (9, 11),
    "2.6": (9, 11),
    "2.7": (9, 13),
    "2.8": (9, 13),
    "2.9": (10, 14),
    "2.10": (10, 14),
    "2.11": (10, 14),
    "2.12": (10, 14),
    "2.13": (10, 14),
    "2.14": (10, 14),
}
# The oldest line of the driver by line of CANN, and the newest that the tables know.
DRIVERS: Mapping[str, str] = {"8.5": "25.0", "9.0": "25.0", "9.1": "25.2", "9.2": "25.3"}
NEWEST_DRIVER = "26.2"


@dataclass(frozen=True, slots=True)
class Fit:
    """What the tables say of one pair: `fits` is None where they say nothing. `must`: it cannot work otherwise."""

    fits: bool | None
    text: str
    must: bool = False


def torch_pair(torch: str | None, torch_npu: str | None) -> Fit:
    """torch_npu is built against one torch: X.Y of both are the same, and X.Y.Z should be."""
    mine, its = _numbers(torch), _numbers(torch_npu)
    if len(mine) < 3 or len(its) < 3:
        return Fit(None, f"torch {torch} and torch_npu {torch_npu}: versions that no table knows")
    if mine[:3] == its[:3]:
        return Fit(True, f"torch {torch} and torch_npu {torch_npu} belong together")
    wanted = ".".join(map(str, its[:3]))
    return Fit(False, f"torch_npu {torch_npu} is built for torch {wanted}, not {torch}", must=mine[:2] != its[:2])


def python_pair(python: Sequence[int], torch: str | None) -> Fit:
    version = f"Python {'.'.join(map(str, python))}"
    span = PYTHONS.get(".".join(map(str, _numbers(torch)[:2])))
    if span is None or python[0] != 3:
        return Fit(None, f"{version}: no table tells whether torch {torch} has it")
    oldest, newest = span
    if oldest <= python[1] <= newest:
        return Fit(True, f"{version} is one that torch {torch} has")
    return Fit(False, f"{version}: torch_npu for torch {torch} has Python 3.{oldest} to 3.{newest}")


def cann_pair(torch_npu: str | None, cann: str | None) -> Fit:
    release = RELEASES.get(_release(torch_npu))
    if release is None or cann is None or not _numbers(cann):
        return Fit(None, f"torch_npu {torch_npu} with CANN {cann}: no public table lists them")
    line, own = release
    text = f"torch_npu {torch_npu} was released with CANN {own}"
    if _same_cann(cann, own):
        return Fit(True, f"{text}, and that is here")
    known = WORKS_WITH.get(line)
    if known is None:
        return Fit(None, f"{text}; whether it works with {cann}, no public table tells")
    if any(_same_cann(cann, other) for other in known):
        return Fit(True, f"{text} and works with {cann}")
    return Fit(False, f"{text}; the public tables do not list it with {cann}, but with {', '.join(known)}")


def driver_pair(cann: str | None, driver: str | None) -> Fit:
    oldest = DRIVERS.get(".".join(map(str, _numbers(cann)[:2])))
    if oldest is None or len(_numbers(driver)) < 2:
        return Fit(None, f"driver {driver} with CANN {cann}: no public table lists them")
    if _numbers(driver)[:2] < _numbers(oldest):
        return Fit(False, f"CANN {cann} needs driver {oldest} or newer, not {driver}")
    if _numbers(driver)[:2] > _numbers(NEWEST_DRIVER):
        return Fit(None, f"driver {driver} is newer than the public tables, which end at {NEWEST_DRIVER}")
    return Fit(True, f"driver {driver} works with CANN {cann}")


def _numbers(version: str | None) -> tuple[int, ...]:
    """2.7.1.post2+cpu -> (2, 7, 1)"""
    found = re.match(r"\d+(?:\.\d+)*", version or "")
    return tuple(map(int, found.group().split("."))) if found else ()


def _release(torch_npu: str | None) -> str:
    """The entry of the table that stands for a version: without what a build adds; none for what was no release."""
    found = re.fullmatch(r"(\d+\.\d+\.\d+(?:\.post\d+)?)(?:\+.*)?", torch_npu or "")
    return found.group(1) if found else ""


def _same_cann(cann: str, listed: str) -> bool:
    """Whether a version is the listed one, a fix of it, or one of a listed line: 8.5.2 is of 8.5; 8.0.0 not 8.0.RC3."""
    mine, its = cann.lower(), listed.lower()
    return mine == its or (mine.startswith(its + ".") and "rc" not in mine[len(its) :])
