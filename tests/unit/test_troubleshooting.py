"""docs/troubleshooting.md and the tool say the same: every error names an entry, and every entry is named."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import string
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import collect_agent
import collect_remote
import troubleshooting_page
from collect_agent import failure, remedies, template, troubles
from collect_agent.npu import failures, reasons
from collect_agent.npu.failures import NpuSmiError
from collect_agent.validate import CHECKS, MESSAGES, TREE_CHECKS, explain
from collect_remote import errors
from collect_remote.checks import failed, passed_on
from collect_remote.checks.software import MSPROF
from collect_remote.cli import say
from collect_remote.collection.host_entries import HOST_ENTRIES
from collect_remote.errors import CollectError, EnvironmentUnfit, NoFreeDevice
from troubleshooting_page import Trouble

PAGE = troubleshooting_page.PAGE.read_text(encoding="utf-8")
SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MODULES = [
    importlib.import_module(found.name)
    for package in (collect_agent, collect_remote)
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    if not re.search(r"\.(?:__main__$|adapters\.)", found.name)  # adapters import what only a host has
]
Told = failure.Trouble | errors.Trouble | reasons.Reason
TROUBLES: dict[str, Trouble] = {
    value.id: value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, failure.Trouble | errors.Trouble)
}


def subclasses(cls: type) -> Iterator[type]:
    yield cls
    for child in cls.__subclasses__():
        yield from subclasses(child)


KINDS = [cls for cls in subclasses(CollectError) if cls.__module__ == errors.__name__]
SUBJECTS = {subject.id for subject in troubleshooting_page.subjects()}
NAMED = {*TROUBLES, *(cls.kind_entry for cls in KINDS), *SUBJECTS, *CHECKS, *TREE_CHECKS}


def entries(text: str = PAGE) -> list[str]:
    """Where one may land on the page: its entries, in its order."""
    found = re.findall(r'^#### (\S+)$|<a id="([^"]+)"></a>', text, re.MULTILINE)
    return [heading or row for heading, row in found]


def test_the_page_is_what_the_tables_say() -> None:
    assert troubleshooting_page.page(PAGE) == PAGE, "run: python tests/troubleshooting_page.py"
    assert entries(troubleshooting_page.PART.sub("", PAGE)) == [], "an entry is written from a table"


def test_every_entry_that_is_named_is_there_once_and_no_other() -> None:
    assert sorted(entries()) == sorted(NAMED)
    slugs = [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"(?m)^#{1,3} (.+)$", PAGE)]
    assert len({*slugs, *entries()}) == len(slugs) + len(entries()), "an anchor leads to one place"
    assert all(SLUG.fullmatch(entry) for entry in entries())
    for link in re.findall(r"\]\(#([^)]+)\)", PAGE):
        assert link in {*slugs, *entries()}


def test_every_kind_of_error_has_an_entry() -> None:
    for cls in KINDS:
        own = TROUBLES.get(cls.kind_entry)
        assert "kind_entry" in vars(cls), cls
        assert ("advice" in vars(cls)) is (own is None), cls
        assert cls("m").entry == cls.kind_entry == cls("m").to_json()["entry"]
    for trouble in TROUBLES.values():
        if isinstance(trouble, failure.Trouble):
            known = {cls.__name__ for cls in (*KINDS, *subclasses(NpuSmiError))}
            assert trouble.kind in known, trouble
    for npu in subclasses(NpuSmiError):
        assert npu.trouble.kind == npu.__name__ and npu("m").entry == npu.trouble.id and npu("m").remedy


def resolved(node: ast.AST, module: types.ModuleType) -> object:
    if isinstance(node, ast.Name):
        return vars(module).get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(resolved(node.value, module), node.attr, None)
    return None


def called(node: ast.AST, module: types.ModuleType) -> list[Trouble | reasons.Reason]:
    """The kinds of trouble that a call may make an error of, or the reason that it gives."""
    choices = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    found = (resolved(choice, module) for choice in choices)
    return [value for value in found if isinstance(value, Told)]


def words(*templates: str) -> set[str]:
    return {word for text in templates for _, word, _, _ in string.Formatter().parse(text) if word is not None}


def test_every_kind_of_trouble_is_used_and_gets_its_words() -> None:
    used = set(re.findall(r'^ +"([a-z-]+)",\n +\)', source(template), re.MULTILINE))  # which can import no table
    said: set[str] = set()
    for module in MODULES:
        for node in ast.walk(ast.parse(source(module))):
            if isinstance(node, ast.Call):
                for told in called(node.func, module):
                    given = {keyword.arg for keyword in node.keywords}
                    templates = (told.says,) if isinstance(told, reasons.Reason) else (told.message, told.remedy)
                    assert given == words(*templates), (module.__name__, told)
                    said |= {told.says} if isinstance(told, reasons.Reason) else set()
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                used |= {told.id for told in called(node, module) if not isinstance(told, reasons.Reason)}
    assert set(TROUBLES) <= used
    assert {reason.says for reason in troubleshooting_page.all_reasons()} == said


def source(module: types.ModuleType) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")


def test_the_words_of_one_case_and_the_page() -> None:
    trouble = errors.Trouble("x", EnvironmentUnfit, "no {what} in {place!r}{more}", "c", "look at {place}")
    error = trouble(what="disk", place="{a}", more="; 3")
    assert (error.message, error.remedy, error.entry) == ("no disk in '{a}'; 3", "look at {a}", "x")
    assert troubleshooting_page.shown(trouble.message) == "no WHAT in PLACE"
    assert troubleshooting_page.prose("a*b <c> `d*<e>`") == r"a\*b \<c> `d*<e>`"


def test_what_is_seen_is_recognised() -> None:
    for pattern, trouble in remedies.REMEDIES:
        assert any(re.search(pattern, line) for line in trouble.seen), pattern
        for line in trouble.seen:
            known = remedies.find(line)
            assert known is not None and known.entry == trouble.id
    for npu in subclasses(NpuSmiError):
        for line in npu.trouble.seen:
            assert type(failures.failure(line)) is npu, line
    for message in MESSAGES:
        assert [found.message.id for found in explain([message.seen])] == [message.id]


def test_an_error_points_to_its_entry(capsys: pytest.CaptureFixture[str]) -> None:
    say.explain(NoFreeDevice("none", "wait"))
    say.explain(CollectError("strange", entry="host-key-unknown"))
    assert capsys.readouterr().err == (
        "error: none\n  try: wait\n  see: docs/troubleshooting.md#no-free-device\n"
        "error: strange\n  see: docs/troubleshooting.md#host-key-unknown\n"
    )
    assert (Path(__file__).resolve().parents[2] / say.PAGE) == troubleshooting_page.PAGE


def test_a_check_gives_its_entry_to_an_error_that_has_none() -> None:
    plain, special = EnvironmentUnfit("m"), EnvironmentUnfit("m", "r", entry="npu-smi-8020")
    assert (failed(MSPROF, plain).entry, plain.entry, plain.remedy) == ("msprof", "msprof", MSPROF.remedy)
    assert (failed(MSPROF, special).entry, special.remedy) == ("npu-smi-8020", "r")
    assert passed_on(MSPROF, NoFreeDevice("m")).entry == "no-free-device"


def test_an_entry_of_the_agent_is_one_of_ours() -> None:
    told = troubles.LATE(seconds=3, log="/x").to_json()
    assert errors.from_agent(told).entry == "not-finished"
    assert errors.from_agent({**told, "entry": ""}).entry == "run-failed"
    agents = {trouble.id for trouble in TROUBLES.values() if isinstance(trouble, failure.Trouble)}
    assert agents < HOST_ENTRIES < NAMED


def test_the_template_stands_alone_and_says_what_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("no luck")

    npu = types.SimpleNamespace(is_available=lambda: False, set_device=refuse)
    torch = types.SimpleNamespace(npu=npu)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch_npu", types.SimpleNamespace())
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "3")
    for go, same in (
        (template.import_torch, troubles.NO_DEVICE(ids="3")),
        (lambda: template.open_device(torch, "npu:0"), troubles.NOT_OPENED(said="no luck")),
    ):
        with pytest.raises(template.TemplateError) as raised:
            go()
        error = raised.value
        assert (error.kind, error.message, error.remedy, error.entry) == tuple(same.to_json().values())
