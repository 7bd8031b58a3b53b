"""The values of options, from their text: what argparse calls, and what it says of one that is none."""

from __future__ import annotations

import argparse
import re

LONGEST_H = 48


def amount(text: str) -> str:
    from collect_agent.npu.judge import UsageError, used_limit

    try:
        used_limit(text, 0)
    except UsageError as error:
        raise argparse.ArgumentTypeError(f"{error.message}: {error.remedy}") from error
    return text


def steps(text: str) -> int | str:
    if text == "all":
        return text
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of steps nor all") from error


def route(text: str) -> str:
    from ..routes import AUTO, TEMPLATE, routes

    known = (AUTO, TEMPLATE, *routes())
    if text not in known:
        raise argparse.ArgumentTypeError(f"there is no route {text!r}; there are {', '.join(known)}")
    return text


def ranks(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d{1,6}(,\d{1,6})*", text):
        raise argparse.ArgumentTypeError(f"{text!r} names no ranks: write 0 or 0,3")
    return tuple(map(int, text.split(",")))


def plural(_: str) -> None:
    raise argparse.ArgumentTypeError("a sweep has several: --hosts, --models, --phases")


def one_host(_: str) -> None:
    raise argparse.ArgumentTypeError(
        "a cell of a sweep is one host; collect a job on several by itself: collect-remote --host HOST --nodes HOST,..."
    )


def several(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def share(text: str) -> str:
    from ..sweeps.schedule import SHARE

    if not SHARE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of cells nor a share: write 20 or 20%")
    return text


def retries(text: str) -> tuple[str, int]:
    from ..errors import kinds

    kind, _, times = text.partition("=")
    if kind not in kinds():
        raise argparse.ArgumentTypeError(f"there is no kind of error {kind!r}; there are {', '.join(kinds())}")
    if not re.fullmatch(r"\d{1,4}", times):
        raise argparse.ArgumentTypeError(f"{text!r} says no number of times: write {kind}=3")
    return kind, int(times)


def duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", text)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90s, 30m or 2h")
    seconds = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]
    if seconds > LONGEST_H * 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is too long: at most {LONGEST_H}h")
    return seconds
