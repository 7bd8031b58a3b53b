"""What is seen of a project on the host, and which route that makes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from collect_remote.errors import EnvironmentUnfit, UsageError
from collect_remote.inventory import Host, ModelSpec
from collect_remote.request import Request
from collect_remote.routes import choose, detect
from collect_remote.shape import Null, misfit
from collect_remote.survey.onhost import facts as program
from collect_remote.survey.onhost import project, pythons
from collect_remote.survey.project import ProjectFacts, look, seen
from collect_remote.survey.shape import PROJECT, read
from collect_remote.sweeps import cells

WORDS = ("torch_npu.profiler", ".step(")
PROFILED = "import torch_npu\nfrom lib.deep import helper\nprof = torch_npu.profiler.profile()\nprof.step()\n"


@pytest.fixture(autouse=True)
def one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the host the programs are one text."""
    monkeypatch.setattr(project, "which", program.which, raising=False)
    monkeypatch.setattr(project, "version", pythons.version, raising=False)


def written(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path = path.with_name(path.name.replace("_sh", ".sh")) if path.name.endswith("_sh") else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def found(root: Path, *command: str, files: tuple[str, ...] = ()) -> dict[str, Any]:
    asked = {"path": str(root), "command": list(command), "files": list(files), "words": list(WORDS)}
    answer = project.project({**asked, "distributions": ["paramiko", "no_such_thing"]})
    assert misfit(answer, PROJECT) is None
    return dict(answer)


def test_the_files_that_a_command_starts_and_imports(tmp_path: Path) -> None:
    written(
        tmp_path,
        run_sh="torchrun $ARGS train/main.py --x\n",
        train__main="from . import near\nfrom lib import deep, other\nimport lib.third as t\n",
        train__near="",
        lib__deep="def helper(): pass  # torch_npu.profiler\n",
        lib__third="x.step()\n",
        examples__shown=PROFILED,
        unused=PROFILED,
    )
    answer = found(tmp_path, "bash", "run.sh")
    assert answer["entries"] == ["run.sh", "train/main.py"]
    assert answer["reached"] == {
        "lib/deep.py": ["torch_npu.profiler"],
        "lib/third.py": [".step("],
        "run.sh": [],
        "train/main.py": [],
        "train/near.py": [],
    }
    assert answer["hits"]["torch_npu.profiler"] == ["unused.py", "lib/deep.py"]
    assert set(answer["texts"]) == {"run.sh", "train/main.py"}
    assert answer["versions"]["paramiko"] and answer["versions"]["no_such_thing"] is None


def test_files_that_are_wanted_and_a_module(tmp_path: Path) -> None:
    written(tmp_path, pkg__tool__run="import json\n", conf__a="x = 1\n", conf__b="x = 2\n")
    answer = found(tmp_path, "python3", "-m", "pkg.tool.run", files=("conf/*.py", "conf/none.yaml", "nowhere/*"))
    assert answer["entries"] == ["pkg/tool/run.py"]
    assert sorted(answer["texts"]) == ["conf/a.py", "conf/b.py", "pkg/tool/run.py"]


def test_imports_in_a_circle_and_out_of_the_project(tmp_path: Path) -> None:
    root = written(tmp_path / "in", a="import b\nfrom .. import outside\nfrom ... import x\n", b="import a\n")
    written(tmp_path, outside=PROFILED)
    assert set(found(root, "python3", "a.py")["reached"]) == {"a.py", "b.py"}


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "MOST_REACHED", 5)
    monkeypatch.setattr(project, "MOST_SOURCES", 3)
    monkeypatch.setattr(project, "TEXT_BYTES", 100)
    for number in range(20):
        (tmp_path / f"m{number:02d}.py").write_text(f"import m{number + 1:02d}\n.step(\n" + "#" * 1000)
    answer = found(tmp_path, "python3", "m00.py")
    assert len(answer["reached"]) == 5
    assert answer["hits"][".step("] == ["m00.py", "m01.py", "m02.py"]
    assert len(answer["texts"]["m00.py"]) == 100


@pytest.mark.parametrize(("path", "problem"), [("gone", "is not there"), ("file", "is no directory")])
def test_a_project_that_cannot_be_looked_at(tmp_path: Path, path: str, problem: str) -> None:
    (tmp_path / "file").write_text("")
    answer = found(tmp_path / path, "python3", "x.py")
    assert answer["problem"] == problem
    model = ModelSpec("m", None, "script", {"project": str(tmp_path / path), "command": ["x"]})
    with pytest.raises(EnvironmentUnfit, match=problem):
        detect.find(model, seen(answer))


@pytest.mark.skipif(os.getuid() == 0, reason="root may read anything")
def test_a_script_that_cannot_be_read_is_none_without_a_profiler(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("prof.step()")
    (tmp_path / "x.py").chmod(0)
    assert found(tmp_path, "python3", "x.py")["problem"] == "has x.py, which cannot be read"


def test_what_is_asked_of_the_host_is_one_line_of_text(tmp_path: Path) -> None:
    model = ModelSpec("m", None, "auto", {"project": "/w", "command": ["a b", "'"]})
    text = look(model, detect.wants(model))
    assert text.isprintable()
    assert os.linesep not in text


# --- the choice -------------------------------------------------------------------------------------------------------


def host(*models: ModelSpec) -> Host:
    fields = dict.fromkeys(Host.__dataclass_fields__, None)
    return Host(**{**fields, "name": "h", "models": {model.name: model for model in models}})  # type: ignore[arg-type]


ROUTED = ModelSpec("m", None, "script", {"project": "/w", "command": ["x"]}, ModelSpec("m", "llama", None, {}))


def test_a_route_that_the_user_names_wins() -> None:
    assert choose.model_of(Request("h", "m", route="auto"), host(ROUTED)).route == "auto"
    assert choose.model_of(Request("h", "m", route="template"), host(ROUTED)) == ROUTED.fallback
    assert choose.model_of(Request("h", "m"), host(ROUTED)) == ROUTED


@pytest.mark.parametrize(
    ("model", "route", "message"),
    [
        (ModelSpec("m", "llama", None, {}), "script", "has an adapter and no project"),
        (ModelSpec("m", None, "script", {"project": "/w", "command": ["x"]}), "template", "has no adapter"),
        (ModelSpec("m", None, "auto", {"project": "/w"}), "script", "says no command"),
    ],
)
def test_a_route_that_the_model_cannot_go(model: ModelSpec, route: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose.model_of(Request("h", "m", route=route), host(model))


def test_an_example_with_a_profiler_is_no_evidence() -> None:
    model = ModelSpec("m", None, "auto", {"project": "/w", "command": ["python3", "main.py"]})
    hits = dict.fromkeys(WORDS, ("tools/profile_it.py",))
    with pytest.raises(EnvironmentUnfit, match="no route fits /w"):
        detect.find(model, ProjectFacts("/w", entries=("main.py",), reached={"main.py": ()}, hits=hits))


def test_in_place_of_a_route_the_adapter_runs_with_what_it_can() -> None:
    decided, plan = choose.in_place_of(ROUTED, "it failed", Request("h", "m", phase="train", steps=2))
    assert (decided.phase, decided.steps) == ("both", 10)
    assert plan.notes == ("in place of route script: it failed",)


@pytest.mark.parametrize("command", [["python3", "gone.py"], ["env", "X=a.sh", "bash", "./gone.sh"]])
def test_a_script_that_is_not_there_is_named(command: list[str]) -> None:
    model = ModelSpec("m", None, "auto", {"project": "/w", "command": command})
    with pytest.raises(EnvironmentUnfit, match=r"there is no (\./)?gone\.(py|sh) in /w"):
        detect.find(model, ProjectFacts("/w", entries=("main.py",)))


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    written(tmp_path, main="import pipe\n")
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / "setup.sh")
    answer = found(tmp_path, "python3", "main.py", files=("setup.sh",))
    assert answer["entries"] == ["main.py"]
    assert "pipe.py" not in answer["reached"]
    assert not answer["texts"].get("setup.sh")


@pytest.mark.parametrize(
    "command",
    [
        ["python3", "-m", "mine.train", "conf.py"],
        ["python3", "-c", "import mine", "conf.py"],
        ["mytool", "serve", "--config", "conf.py"],
        ["python3", "main.py", "gone.py"],
    ],
)
def test_what_need_not_be_a_script_is_not_looked_for(command: list[str]) -> None:
    model = ModelSpec("m", None, "script", {"project": "/w", "command": command})
    route, _ = detect.find(model, ProjectFacts("/w", entries=("main.py",)))
    assert route.name == "script"


@pytest.mark.parametrize(
    "command", [["bash", "-c", "python3 main.py"], ["./tool"], ["python3", "-m", "installed"], ["bash", "run.sh"]]
)
def test_a_named_route_is_gone_where_nothing_was_seen_that_speaks_against_it(command: list[str]) -> None:
    model = ModelSpec("m", None, "script", {"project": "/w", "command": command})
    entries = tuple(word for word in command if word.endswith(".sh"))
    facts = ProjectFacts("/w", entries=entries, reached=dict.fromkeys(entries, ()))
    _, plan = choose.late(Request("h", "m", route="script"), model, facts)
    assert plan.launch is not None
    assert list(plan.launch.argv) == command
    seen_one = ProjectFacts("/w", entries=(*entries, "main.py"), reached={"main.py": ()})
    with pytest.raises(EnvironmentUnfit, match="no profiler of its own: main.py"):
        choose.late(Request("h", "m", route="script"), model, seen_one)


def test_what_a_host_names_its_files_is_fit_for_a_terminal() -> None:
    """Lines and control characters in a name would be shown as the tool's own words; a text keeps its lines."""
    name = "a\x1b[2J\nerror: b.py"
    lists: dict[str, Any] = {"reached": {name: ["torch_npu.profiler", ".step("]}, "hits": {}, "versions": {}}
    said = {"path": "/w\nx", "problem": "is\nodd", "program": None, "entries": [name], "texts": {name: "1\n2\x1b"}}
    told = read(json.dumps({"project": {**said, **lists}}), {"project": PROJECT}, "h")
    facts = seen(told["project"])
    assert facts.entries[0].isprintable()
    assert (facts.path, facts.problem) == ("/w x", "is odd")
    assert (dict(facts.texts), set(facts.reached)) == ({facts.entries[0]: "1\n2 "}, set(facts.entries))
    assert read('{"project": null}', {"project": Null(PROJECT)}, "h") == {"project": None}


def test_a_cell_is_another_when_the_fallbacks_own_adapter_is(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    fallback = ModelSpec("m", str(own), None, {})
    on = host(ModelSpec("m", None, "script", {"project": "/w", "command": ["x"]}, fallback))
    digests = set()
    for text in ("def load(d, o): ...\n", "def load(d, o): pass\n"):
        own.write_text(text)
        digests.add(cells.digest(on, Request("h", "m"), "tool"))
    assert len(digests) == 2
