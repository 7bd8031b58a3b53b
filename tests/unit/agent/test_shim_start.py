"""The start of every Python under the shim: when it does something, when it does not, and that it never harms."""

from __future__ import annotations

import json
import os
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from collect_agent import shim
from shims import LIGHT, Shim

RECORD = """
    import os, sys, torch, torch_npu
    p = torch_npu.profiler
    x = torch.randn(4, 4, device="npu:0")
    with p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode")) as prof:
        for _ in range(6):
            x @ x
            prof.step()
    print("done", sys.argv[1:])
"""


@pytest.fixture
def under(tmp_path: Path) -> Shim:
    return Shim(tmp_path)


def test_the_environment_puts_it_first() -> None:
    env = {"PYTHONPATH": "/a:/run/shim::/b", "HOME": "/h"}
    assert shim.environment("/run/shim", "/run/request.json", env) == {
        "HOME": "/h",
        "PYTHONPATH": "/run/shim:/a:/b",
        "COLLECT_REMOTE_SHIM": "/run/request.json",
    }
    assert shim.environment("/s", "/r", {})["PYTHONPATH"] == "/s"


def test_it_is_installed_from_a_zipapp(under: Shim, tmp_path: Path) -> None:
    package = Path(shim.__file__).parents[1]
    with zipfile.ZipFile(tmp_path / "agent.pyz", "w") as archive:
        for path in package.rglob("*.py"):
            archive.write(path, path.relative_to(package.parent))
    code = "import sys; sys.path.insert(0, {!r}); from collect_agent import shim; shim.install({!r})"
    done = under.start(["-I", "-c", code.format(str(tmp_path / "agent.pyz"), str(tmp_path / "again"))], under.env)
    assert done.status == 0, done.stderr

    def files(root: Path) -> dict[str, str]:
        return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}

    assert files(tmp_path / "again") == files(under.directory)
    assert "sitecustomize.py" in files(under.directory)


def test_without_its_variable_nothing_happens(under: Shim) -> None:
    env = under.environment()
    del env["COLLECT_REMOTE_SHIM"]
    ran = under.run(RECORD, env={**env, "COLLECT_REMOTE_SHIM": ""})
    assert ran.status == 0, ran.stderr
    assert ran.said() == []
    assert len(list(under.home.glob("res/decode/*_ascend_pt"))) == 1, "the program records as it always did"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"output": 3}', '{"output": "/x", "receipts": "/y"} more'])
def test_a_request_that_cannot_be_read_is_none(under: Shim, text: str) -> None:
    env = under.environment()
    Path(env["COLLECT_REMOTE_SHIM"]).write_text(text)
    path = under.home / "program.py"
    path.write_text("import sys; print('collect_remote_shim.patch' in sys.modules)")
    ran = under.start([str(path)], env)
    assert (ran.status, ran.stdout, ran.stderr) == (0, "False\n", "")
    assert ran.said() == []


def test_a_python_says_that_it_is_there(under: Shim) -> None:
    ran = under.run("import sys; print(sys.executable)", "--yaml", "a b\udce9").untroubled()
    alive, ended = ran.said()
    assert (alive["say"], ended["say"]) == ("alive", "exit")
    assert str(alive["pid"]) == alive["file"]
    assert alive["ppid"] == os.getpid()
    assert alive["argv"][1:] == [str(under.home / "program.py"), "--yaml", "a b\udce9"]
    assert alive["executable"] == ran.stdout.strip()
    assert alive["python"] == "{}.{}.{}".format(*sys.version_info[:3])


@pytest.mark.parametrize(
    ("env", "rank"),
    [
        ({}, None),
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}, 3),
        ({"RANK_ID": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "4"}, 2),
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "1"}, None),
    ],
)
def test_a_python_says_which_rank_it_is_called(under: Shim, env: dict[str, str], rank: int | None) -> None:
    assert under.run("", env=env).untroubled().one("alive")["rank"] == rank


@pytest.mark.parametrize(
    ("program", "raised"),
    [
        ("", None),
        ("import sys; sys.exit(3)", None),
        ("raise ValueError('no luck')", "ValueError: no luck"),
        ("try: 1 / 0\nexcept ZeroDivisionError: pass", None),
        ("import threading; threading.Thread(target=int, args=('x',)).start()", None),
    ],
    ids=["ends", "exits", "raises", "catches", "thread"],
)
def test_a_python_says_what_it_ends_with(under: Shim, program: str, raised: str | None) -> None:
    assert under.run(program).one("exit")["raised"] == raised


def test_a_python_without_torch_imports_next_to_nothing(under: Shim) -> None:
    """Every Python of the program starts with it, most of which have nothing to do with the profiler."""
    program = "import sys; print(*sorted(sys.modules))"
    bare = set(under.start(["-S", "-c", program], under.env).stdout.split())
    ran = under.run(program).untroubled()
    heavy = {"json", "re", "typing", "collections", "inspect", "functools", "dataclasses", "contextlib"}
    plain = set(under.start(["-c", program], under.env).stdout.split())
    assert (set(ran.stdout.split()) - plain - bare) & heavy == set()


def test_receipts_that_cannot_be_written_do_no_harm(under: Shim) -> None:
    (under.home / "file").write_text("")
    ran = under.run(RECORD, receipts=str(under.home / "file" / "receipts"))
    assert ran.status == 0
    assert "Traceback" not in ran.stderr
    assert ran.profiles() == {"decode": 1}


# --- other files that Python runs at its start ---


def test_the_sitecustomize_that_it_hides_is_run(under: Shim, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    text = """
        import sys, torch_npu
        sys.path.append("/from/theirs")
        handler = torch_npu.profiler.tensorboard_trace_handler
    """
    (theirs / "sitecustomize.py").write_text(textwrap.dedent(text))
    under.env["PYTHONPATH"] = f"{theirs}:{LIGHT}"
    program = """
        import sitecustomize, sys, torch_npu
        print(sitecustomize.__file__, "/from/theirs" in sys.path)
        print(sitecustomize.handler is torch_npu.profiler.tensorboard_trace_handler)
    """
    ran = under.run(program).untroubled()
    assert ran.stdout.splitlines() == [str(theirs / "sitecustomize.py") + " True", "True"]
    assert ran.one("imported")["torch_npu"] == "2.13.0"


def test_a_hidden_sitecustomize_that_fails_fails_as_ever(under: Shim, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("raise KeyError('theirs')\n")
    path = f"{theirs}:{LIGHT}"
    alone = under.start(["-c", "print('on')"], {**under.env, "PYTHONPATH": path})
    under.env["PYTHONPATH"] = path
    ran = under.run("print('on')").untroubled()
    assert "KeyError: 'theirs'" in alone.stderr
    assert (ran.stdout, ran.stderr) == (alone.stdout, alone.stderr)
    assert len(ran.said("alive")) == 1


def test_usercustomize_is_left_alone(under: Shim, tmp_path: Path) -> None:
    (tmp_path / "usercustomize.py").write_text("print('usercustomize')\n")
    under.env["PYTHONPATH"] = str(tmp_path)
    under.python = os.path.realpath(sys.executable)  # a venv has no site of its user
    ran = under.run("print('program')").untroubled()
    assert ran.stdout == "usercustomize\nprogram\n"
    assert len(ran.said("alive")) == 1


# --- once, whatever happens ---


def test_imported_twice_it_starts_once(under: Shim) -> None:
    program = """
        import importlib, sys
        importlib.reload(sys.modules["sitecustomize"])
        del sys.modules["sitecustomize"]
        import sitecustomize, torch_npu
        importlib.reload(torch_npu.profiler)
    """
    ran = under.run(program, then=RECORD).untroubled()
    assert len(ran.said("alive")) == 1
    assert len(ran.said("profiler")) == 1
    assert ran.states() == ["NONE", "WARMUP", "RECORD", "RECORD", "RECORD_AND_SAVE", "NONE"]


def test_a_program_that_executes_itself_again(under: Shim) -> None:
    program = """
        import os, sys
        if len(sys.argv) == 1:
            os.execv(sys.executable, [sys.executable, __file__, "again"])
    """
    ran = under.run(program, then=RECORD).untroubled()
    first, second = ran.said("alive")
    assert first["pid"] == second["pid"]
    assert ran.one("closed")["complete"]


def test_a_program_inside_a_program(under: Shim) -> None:
    program = """
        import subprocess, sys
        if len(sys.argv) == 1:
            sys.exit(subprocess.run([sys.executable, __file__, "again"]).returncode)
    """
    ran = under.run(program, then=RECORD).untroubled()
    outer, inner = ran.said("alive")
    assert inner["ppid"] == outer["pid"]
    assert ran.one("closed")["file"] == str(inner["pid"])


# --- ways to start a Python, and to come by the names ---

CHILDREN = {
    "spawn": "context = multiprocessing.get_context('spawn')",
    "fork": "context = multiprocessing.get_context('fork')",
    "daemonic": "context = multiprocessing.get_context('spawn'); options['daemon'] = True",
}


@pytest.mark.parametrize("how", CHILDREN)
def test_children_have_receipts_of_their_own(under: Shim, how: str) -> None:
    program = """
        import multiprocessing, torch_npu
        def work():
            import torch
            p = torch_npu.profiler
            x = torch.randn(4, 4, device="npu:0")
            with p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode")) as prof:
                for _ in range(6):
                    x @ x
                    prof.step()
        if __name__ == "__main__":
            options = {{}}
            {}
            child = context.Process(target=work, **options)
            child.start()
            child.join()
            assert child.exitcode == 0
    """
    ran = under.run(program.format(CHILDREN[how])).untroubled()
    parent = ran.said("alive")[0]
    closed = ran.one("closed")
    assert closed["complete"]
    child = next(line for line in ran.said("alive") if line["file"] == closed["file"])
    assert child["ppid"] == parent["pid"]
    assert "cannot be parsed during the daemon process" not in ran.stdout, "nothing is parsed there at all"


def test_workers_of_torchrun(under: Shim) -> None:
    ran = under.run(RECORD, "x", before=["-m", "torch.distributed.run", "--nproc-per-node=2"], ranks=[1]).untroubled()
    wanted = {line["rank"]: line["wanted"] for line in ran.said("profiler")}
    assert wanted == {0: False, 1: True}
    assert ran.said("profiler")[0]["world"] == 2
    assert ran.info(ran.one("closed")["directory"])[0] == "profiler_info_1.json"
    assert ran.profiles() == {"decode": 1}
    assert "done ['x']" in ran.stdout


def test_a_module_that_is_run(under: Shim) -> None:
    (under.home / "package").mkdir()
    (under.home / "package" / "__init__.py").write_text("")
    (under.home / "package" / "train.py").write_text(textwrap.dedent(RECORD))
    ran = under.start(["-m", "package.train", "--lr", "1"], under.environment()).untroubled()
    assert ran.said("alive")[0]["argv"][1:] == ["-m", "package.train", "--lr", "1"]
    assert ran.one("closed")["complete"]
    assert "done ['--lr', '1']" in ran.stdout


IMPORTS = {
    "module": "import torch_npu; p = torch_npu.profiler",
    "names": """from torch_npu.profiler import profile, tensorboard_trace_handler, schedule
class p: profile, tensorboard_trace_handler, schedule = profile, tensorboard_trace_handler, schedule""",
    "renamed": "import torch_npu.profiler as npu_profiler; p = npu_profiler",
    "inner": "from torch_npu.profiler import profiler as p",
    "autoload": "import torch, sys; p = sys.modules['torch_npu.profiler']",
}


@pytest.mark.parametrize("how", IMPORTS)
def test_names_however_they_are_imported(under: Shim, how: str) -> None:
    rest = """
import torch
x = torch.randn(4, 4, device="npu:0")
with p.profile(on_trace_ready=p.tensorboard_trace_handler("res/decode")) as prof:
    for _ in range(6):
        x @ x
        prof.step()
"""
    ran = under.run(IMPORTS[how], then=rest).untroubled()
    assert ran.one("profiler")["directory"] == "res/decode"
    assert ran.one("closed")["complete"]
    assert not (under.home / "res").exists()


def test_a_module_that_is_there_before(under: Shim, tmp_path: Path) -> None:
    """Loaded by another finder in front, or by a line of a .pth file: names that were taken out of it hold, too."""
    program = """
        import os, sys
        from torch_npu.profiler import profile, tensorboard_trace_handler
        import torch, torch_npu
        sys.path.insert(0, {!r})
        os.environ["COLLECT_REMOTE_SHIM"] = os.environ.pop("LATE")
        import sitecustomize
        x = torch.randn(4, 4, device="npu:0")
        with profile(on_trace_ready=tensorboard_trace_handler("res/decode")) as prof:
            for _ in range(6):
                x @ x
                prof.step()
    """
    env = under.environment()
    late = {"PYTHONPATH": str(LIGHT), "LATE": env["COLLECT_REMOTE_SHIM"], "COLLECT_REMOTE_SHIM": ""}
    ran = under.run(program.format(str(under.directory)), env=late).untroubled()
    assert ran.one("profiler")["directory"] == "res/decode"
    assert ran.one("closed")["complete"]


# --- a torch_npu that is not as expected ---


def test_without_torch_npu_an_import_fails_as_ever(under: Shim) -> None:
    under.env["PYTHONPATH"] = ""
    ran = under.run("import torch_npu")
    assert "No module named 'torch_npu'" in ran.stderr
    assert [line["say"] for line in ran.said()] == ["alive", "exit"]


def test_a_torch_npu_that_does_not_load(under: Shim) -> None:
    del under.env["ASCEND_HOME_PATH"]
    ran = under.run("import torch_npu")
    assert "libhccl.so: cannot open shared object file" in ran.stderr
    assert ran.said("imported") == ran.said("trouble") == []


def test_a_torch_npu_whose_profiler_is_another(under: Shim, tmp_path: Path) -> None:
    """Nothing of ours fits: one line says so, and the program goes on."""
    other = tmp_path / "other" / "torch_npu" / "profiler"
    other.mkdir(parents=True)
    (other.parent / "__init__.py").write_text("__version__ = '0.1'\n")
    (other / "__init__.py").write_text("def profile(): return 3\n")
    under.env["PYTHONPATH"] = str(tmp_path / "other")
    ran = under.run("import torch_npu.profiler as p; print(p.profile())")
    assert (ran.status, ran.stdout, ran.stderr) == (0, "3\n", "")
    assert ran.one("imported") == {**ran.one("imported"), "torch": None, "torch_npu": "0.1"}
    assert len(ran.said("trouble")) == 1


def test_a_loader_that_cannot_be_changed_is_left_alone(under: Shim) -> None:
    program = """
        import importlib.machinery, sys
        class Loader:
            __slots__ = ()
            def create_module(self, spec): return None
            def exec_module(self, module): module.profile = 3
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "torch_npu.profiler":
                    return importlib.machinery.ModuleSpec(name, Loader())
        sys.meta_path.insert(1, Finder())
        import torch_npu
        print(torch_npu.profiler.profile)
    """
    ran = under.run(program).untroubled()
    assert ran.stdout == "3\n"


def test_lines_are_whole_json(under: Shim) -> None:
    ran = under.run(RECORD).untroubled()
    (path,) = ran.receipts.glob("*.jsonl")
    for line in path.read_text().splitlines():
        assert {"time", "say"} <= set(json.loads(line))
