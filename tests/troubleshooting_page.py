"""docs/troubleshooting.md: the parts that come from the tool's own tables, `python tests/troubleshooting_page.py` writes.

The prose between them is the page's own. A part begins with a line that says where it comes from:

    <!-- from collect_remote.shell, exit 3 -->     kinds of trouble: those of a table that end with this exit code
    <!-- from the errors, exit 3 -->               what an error falls back to that is of no kind of its own
    <!-- from the checks of the doctor -->, <!-- from the checks of a profile -->, <!-- from the messages -->
"""

from __future__ import annotations

import importlib
import re
import string
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "agent"), str(ROOT / "controller")]

from collect_agent import failure
from collect_agent.validate import CHECKS, MESSAGES, TREE_CHECKS
from collect_remote import doctor, errors
from collect_remote.checks import Subject, connection, container, devices, models, output, software

PAGE = ROOT / "docs" / "troubleshooting.md"
PART = re.compile(r"(<!-- from (.+?) -->\n).*?(<!-- end -->\n)", re.DOTALL)
OF_DOCTOR = (connection, doctor, container, software, output, models, devices)  # `import` is the last, see `subjects`

Trouble = failure.Trouble | errors.Trouble[errors.CollectError]


def page(text: str) -> str:
    """The page, its parts as they have to be."""
    return PART.sub(lambda found: "\n".join([found[1], *part(found[2]), found[3]]), text)


def part(source: str) -> Iterator[str]:
    name, _, code = source.partition(", exit ")
    if name == "the checks of the doctor":
        yield from table("check", "what it looks at", ((s.id, s.looks_at, s.remedy) for s in subjects()))
    elif name == "the checks of a profile":
        both = {**TREE_CHECKS, **CHECKS}.items()
        yield from table("check", "what it catches", ((id_, check.catches, check.remedy) for id_, check in both))
    elif name == "the messages":
        yield "| what it prints | what it means | what to do |\n| --- | --- | --- |"
        yield from (f"| {cell(m.seen)} | {cell(m.meaning)} | {cell(m.remedy)} |" for m in MESSAGES)
        yield ""
    elif name == "the errors":
        for kind in kinds():
            if kind.exit_code == int(code):
                what = f"An error of the kind `{kind.__name__}` that is none of the others. {kind.__doc__}"
                yield from entry(kind.kind_entry, what, kind.advice)
    else:
        for trouble in troubles(name):
            if exit_code(trouble) == int(code):
                seen = trouble.seen or (shown(trouble.message),)
                yield from entry(trouble.id, trouble.cause, shown(trouble.remedy), seen)


def entry(id_: str, cause: str, remedy: str, seen: Iterable[str] = ()) -> Iterator[str]:
    yield f"#### {id_}\n"
    if lines := [f"    {line}\n" for line in seen]:
        yield "".join(lines)
    yield f"{sentence(cause)}\n\n*To do:* {prose(remedy)}.\n"


def table(first: str, second: str, rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    yield f"| {first} | {second} | what to do |\n| --- | --- | --- |"
    yield from (f'| <a id="{id_}"></a>`{id_}` | {cell(what)} | {cell(remedy)} |' for id_, what, remedy in rows)
    yield ""


def subjects() -> list[Subject]:
    """Of all checks of the doctor, in its order."""
    found = [value for module in OF_DOCTOR for value in vars(module).values() if isinstance(value, Subject)]
    return [*(subject for subject in found if subject is not doctor.IMPORT), doctor.IMPORT]


def troubles(module: str) -> list[Trouble]:
    """Those in a table, in its order."""
    values = vars(importlib.import_module(module)).values()
    return [value for value in values if isinstance(value, failure.Trouble | errors.Trouble)]


def kinds() -> list[type[errors.CollectError]]:
    """Every class of errors that has an entry of its own."""
    values = vars(errors).values()
    return [value for value in values if isinstance(value, type) and "advice" in vars(value)]


def exit_code(trouble: Trouble) -> int:
    if isinstance(trouble, errors.Trouble):
        return trouble.error.exit_code
    kind = {"kind": trouble.kind, "message": "", "remedy": ""}
    return errors.from_agent(kind).exit_code


def shown(template: str) -> str:
    """A template as it is read: its words in capitals, without those that may be missing."""
    text = ""
    for literal, word, _, _ in string.Formatter().parse(template):
        text += literal
        if word and not text[-1:].isalnum():
            text += word.upper()
    return text


def sentence(text: str) -> str:
    plain = prose(text).rstrip(".")
    return plain[0].upper() + plain[1:] + "."


def prose(text: str) -> str:
    """Without what Markdown would read as its own, but for code and links."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else re.sub(r"([*<])", r"\\\1", part) for part in parts)


def cell(text: str) -> str:
    return prose(text).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
