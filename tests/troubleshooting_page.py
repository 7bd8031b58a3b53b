"""docs/troubleshooting.md: `python tests/troubleshooting_page.py` writes the parts that come from the tool's tables.

The prose between them is the page's own. A part begins with a line that says where it comes from:

    <!-- from collect_remote.ssh.shell, exit 3 --> kinds of trouble: those of a table that end with this exit code
    <!-- from the errors, exit 3 -->               what an error falls back to that is of no kind of its own
    <!-- from the checks of the doctor -->, <!-- from the checks of a profile -->, <!-- from the messages -->,
    <!-- from the reasons -->
"""

from __future__ import annotations

import importlib
import re
import string
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "agent"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "controller"))

from collect_agent import failure
from collect_agent.npu import reasons
from collect_agent.validate import CHECKS, MESSAGES, TREE_CHECKS
from collect_remote import errors
from collect_remote.checks import Subject, connection, container, devices, doctor, models, output, software

PAGE = Path(__file__).resolve().parents[1] / "docs" / "troubleshooting.md"
PART = re.compile(r"(<!-- from (.+?) -->\n).*?(<!-- end -->\n)", re.DOTALL)
OF_DOCTOR = (connection, doctor, software, container, output, models, devices)

Trouble = failure.Trouble | errors.Trouble[errors.CollectError]


def page(text: str) -> str:
    """The page, its parts as they have to be."""
    return PART.sub(lambda found: "\n".join([found[1], *part(found[2]), found[3]]), text)


def part(source: str) -> Iterator[str]:
    name, _, code = source.partition(", exit ")
    if name == "the checks of the doctor":
        yield "| check | what it looks at | what it says | what to do |\n| --- | --- | --- | --- |"
        yield from (row(s.id, s.looks_at, shown(s.says), s.remedy) for s in subjects())
        yield ""
    elif name == "the checks of a profile":
        yield "| check | what it catches | what to do |\n| --- | --- | --- |"
        yield from (row(id_, check.catches, check.remedy) for id_, check in {**TREE_CHECKS, **CHECKS}.items())
        yield ""
    elif name == "the reasons":
        yield "| what it says | what it means, and what to do |\n| --- | --- |"
        yield from (f"| {cell(shown(reason.says))} | {cell(shown(reason.means))} |" for reason in all_reasons())
        yield ""
    elif name == "the messages":
        yield "| what it prints | what it means | what to do |\n| --- | --- | --- |"
        yield from (f"| {cell(m.seen)} | {cell(m.meaning)} | {cell(m.remedy)} |" for m in MESSAGES)
        yield ""
    elif name == "the errors":
        for kind in kinds():
            if kind.exit_code == int(code):
                what = sentence(kind.__doc__ or "")
                yield from entry(kind.kind_entry, f"{what} `{kind.__name__}`, without an entry of its own", kind.advice)
    else:
        for trouble in troubles(name):
            if exit_code(trouble) == int(code):
                yield from entry(trouble.id, trouble.cause, shown(trouble.remedy), seen(trouble))


def entry(id_: str, cause: str, remedy: str, lines: Iterable[str] = ()) -> Iterator[str]:
    yield f"#### {id_}\n"
    if code := "".join(f"    {line}\n" for line in lines):
        yield code
    yield f"{sentence(cause)}\n\n*To do:* {prose(remedy)}.\n"


def row(id_: str, *cells: str) -> str:
    return f'| <a id="{id_}"></a>`{id_}` | {" | ".join(map(cell, cells))} |'


def subjects() -> list[Subject]:
    """Of all checks of the doctor; `import` is its last."""
    found = [value for module in OF_DOCTOR for value in vars(module).values() if isinstance(value, Subject)]
    return [*(subject for subject in found if subject is not doctor.IMPORT), doctor.IMPORT]


def all_reasons() -> list[reasons.Reason]:
    """Why a device may not be used."""
    return [value for value in vars(reasons).values() if isinstance(value, reasons.Reason)]


def troubles(module: str) -> list[Trouble]:
    """Those in a table, in its order."""
    values = vars(importlib.import_module(module)).values()
    return [value for value in values if isinstance(value, failure.Trouble | errors.Trouble)]


def kinds() -> list[type[errors.CollectError]]:
    """Every class of errors that has an entry of its own."""
    values = vars(errors).values()
    return [value for value in values if isinstance(value, type) and "advice" in vars(value)]


def seen(trouble: Trouble) -> list[str]:
    """The message, unless it has no words of its own, and what else one may read."""
    own = any(literal.strip(" :") for literal, *_ in string.Formatter().parse(trouble.message))
    return [*([shown(trouble.message)] if own else []), *trouble.seen]


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
