"""What the pages name is there: files and headings, commands with their options, models, modules, names in Python."""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import collect_remote
from collect_remote import load_inventory
from collect_remote.cli.arguments import parser
from collect_remote.errors import UsageError

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
SOURCES = [path for root in ("controller", "agent") for path in sorted((ROOT / root).rglob("*.py"))]


def links() -> Iterator[tuple[str, str]]:
    for page, text in TEXTS.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" not in target:
                yield page, target


@pytest.mark.parametrize(("page", "target"), sorted({*links()}))
def test_a_link_leads_somewhere(page: str, target: str) -> None:
    name, _, anchor = target.partition("#")
    file = (ROOT / page).parent / name if name else ROOT / page
    assert file.exists()
    if anchor:
        text = file.read_text(encoding="utf-8")
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in {*slugs, *re.findall(r'<a id="([^"]+)">', text)}


def commands() -> Iterator[tuple[str, str]]:
    """On a line of its own, with what it does behind two spaces; or between backticks in a sentence, an error's too."""
    for page, text in TEXTS.items():
        for line in re.findall(r"^    (?:\$ )?(collect-remote .*)$", text, re.MULTILINE):
            yield page, re.split(r"\s{2,}", line)[0]
    whole = {**TEXTS, **{str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in SOURCES}}
    for page, text in whole.items():
        for command in re.findall(r"`(collect-remote [^`\n]+)`", text):
            yield page, command
    for line in (ROOT / "examples" / "profile.yml").read_text(encoding="utf-8").splitlines():
        if found := re.search(r"run: (collect-remote .*?)(?: >>.*)?$", line):
            yield "examples/profile.yml", found[1]


@pytest.mark.parametrize(("page", "command"), sorted({*commands()}))
def test_a_command_is_one_that_the_tool_takes(page: str, command: str) -> None:
    given = re.sub(r"\{[^{}]*\}|<[^<>]*>", "training", command)  # what a message fills in
    words = shlex.split(re.split(r" [|>] ", given.replace("COMMAND", "devices"))[0])[1:]
    try:
        parser().parse_args(words)
    except SystemExit as end:
        assert end.code == 0  # --help
    except UsageError as error:  # a sentence need not say all of it
        assert re.search(r"arguments are required|expected one argument", error.message)


def options() -> Iterator[tuple[str, str]]:
    """Those in the first column of a table whose title says so."""
    for page in ("README.md", "docs/sweep.md"):
        for table in re.findall(r"^\| option .*\n\|[- |]+\n((?:\|.*\n)+)", TEXTS[page], re.MULTILINE):
            for row in table.splitlines():
                for option in re.findall(r"`(--[a-z-]+)", row.split("|")[1]):
                    yield page, option


@pytest.mark.parametrize(("page", "option"), sorted({*options()}))
def test_an_option_of_a_table_is_in_the_help(
    page: str, option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        parser().parse_args(["sweep", "--help"] if page == "docs/sweep.md" else ["--help"])
    assert re.search(rf"^ +(?:-\w, )?{option}\b", capsys.readouterr().out, re.MULTILINE)


def blocks() -> Iterator[tuple[str, str]]:
    for page, text in TEXTS.items():
        for block in re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
            yield page, block


@pytest.mark.parametrize(("page", "block"), [*blocks()])
def test_python_of_a_page_is_python_and_its_imports_are_there(page: str, block: str) -> None:
    for node in ast.walk(ast.parse(block, page)):
        if isinstance(node, ast.ImportFrom) and node.module == "collect_remote":
            for name in node.names:
                assert hasattr(collect_remote, name.name)


def models() -> Iterator[tuple[str, str]]:
    """Lines of an inventory that are a model each."""
    for page, text in TEXTS.items():
        for line in re.findall(r"^ {4,}([a-z]+: +\{(?:route|adapter):.*\})", text, re.MULTILINE):
            yield page, line


@pytest.mark.parametrize(("page", "line"), [*models()])
def test_a_model_of_a_page_is_one(page: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_model.py").write_text("def load(device, options): ...\ndef forward(state): ...\n", encoding="utf-8")
    Path("inventory.yaml").write_text(f"all:\n  vars:\n    models:\n      {line}\n  hosts:\n    ascend01: {{}}\n")
    (model,) = load_inventory("inventory.yaml").host("ascend01").models.values()
    assert model.name == line.partition(":")[0]


def named(block: str) -> set[str]:
    """The names in the first column of the outline."""
    columns = [re.split(r"\s{2,}", line)[0] for line in re.findall(r"^ {8}(\S.*)$", block, re.MULTILINE)]
    return {name for column in columns for name in re.findall(r"(?:^|, )(\w+(?:\.py|/))", column)}


@pytest.mark.parametrize("package", ["controller/collect_remote", "agent/collect_agent"])
def test_the_outline_has_everything_that_is_there_and_nothing_else(package: str) -> None:
    (block,) = re.findall(rf"^    {package}/ .*\n((?: {{8}}.*\n)+)", TEXTS["docs/architecture.md"], re.MULTILINE)
    there = {
        f"{entry.name}/" if entry.is_dir() else entry.name
        for entry in (ROOT / package).iterdir()
        if (entry.is_dir() and (entry / "__init__.py").exists()) or entry.suffix == ".py"
    }
    assert named(block) | {"__init__.py", "__main__.py"} == there | {"__init__.py", "__main__.py"}


def files() -> Iterator[tuple[str, str]]:
    """In pages about the project itself, and in the words of its modules about each other."""
    own = {page: TEXTS[page] for page in ("README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/checks.md")}
    for page, text in own.items():
        for name in re.findall(r"`((?:\w+/)*\w+\.py)`", text):
            yield page, name
    for path in SOURCES:
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", path.read_text(encoding="utf-8")):
            yield str(path.relative_to(ROOT)), name


@pytest.mark.parametrize(("page", "name"), sorted({*files()}))
def test_a_file_that_is_named_is_there(page: str, name: str) -> None:
    ours = (path for top in ("controller", "agent", "tests", "scripts") for path in (ROOT / top).rglob("*.py"))
    assert any(f"/{path.relative_to(ROOT)}".endswith(f"/{name}") for path in ours)


def test_what_one_may_start_can_be_started() -> None:
    """Every script that a page or another script names with ./scripts/ is there, and its owner may run it."""
    texts = [*TEXTS.values(), *(p.read_text(encoding="utf-8") for p in (ROOT / "scripts").iterdir() if p.is_file())]
    names = {name for text in texts for name in re.findall(r"(?<!\w)\./scripts/(\w+)", text)}
    assert names >= {"test", "simhost", "demo", "bench"}
    for name in names:
        assert os.access(ROOT / "scripts" / name, os.X_OK), name
