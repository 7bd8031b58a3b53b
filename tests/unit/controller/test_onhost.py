"""The programs that run on a host before the agent is there, on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from collect_remote.checks.doctor import imported
from collect_remote.survey.onhost import facts, output, pythons, reader
from collect_remote.survey.probe import trial
from pythons import others

# --- the output directory ---------------------------------------------------------------------------------------------

MOUNTS = """\
22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
30 22 0:26 / /data rw - nfs4 server:/data rw
31 30 0:27 / /data/local\\040disk rw - xfs /dev/sdb1 rw
32 22 0:28 / /tmp rw - ext4 /dev/sda2 rw
33 32 0:29 / /tmp rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/data/x", "nfs4"), ("/data/local disk/x", "xfs"), ("/database", "ext4"), ("/tmp", "tmpfs"), ("/", "ext4")],
)
def test_the_file_system_of_a_path(tmp_path: Path, path: str, kind: str) -> None:
    (tmp_path / "mountinfo").write_text(MOUNTS)
    assert output.file_system(path, str(tmp_path / "mountinfo")) == kind


def test_using_a_directory_leaves_it_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "unfinished", reader.unfinished, raising=False)
    before = os.umask(0o027)
    try:
        found = output.use(str(tmp_path / "not" / "yet"))
    finally:
        os.umask(before)
    assert found == {
        "uid": os.geteuid(),
        "euid": os.geteuid(),
        "mode": 0o750,
        "failed": None,
        "sqlite": None,
        "blocked": None,
    }
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert output.blocked(str(tmp_path)) is None
    (tmp_path / "runs").mkdir(0o750)
    (tmp_path / "agent").mkdir(0o750)
    assert output.blocked(str(tmp_path)) is None
    may = os.access  # root may everything: the kernel's answer is another user's here
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("/runs") and may(path, mode))
    owner = f"belongs to uid {os.geteuid()}, mode 750"
    assert output.blocked(str(tmp_path)) == f"{tmp_path}/runs is not ours to write: it {owner}"
    monkeypatch.undo()
    (tmp_path / "agent").rmdir()
    (tmp_path / "agent").symlink_to("nowhere")
    assert output.blocked(str(tmp_path)) == f"{tmp_path}/agent is not a directory"


# --- Pythons ----------------------------------------------------------------------------------------------------------


def environment(prefix: Path, *names: str, version: str = "3.10", files: dict[str, str] | None = None) -> str:
    """A Python at `prefix` in which these distributions are installed; its program."""
    packages = prefix / "lib" / f"python{version}" / "site-packages"
    for name in names:
        (packages / f"{name}-2.1.0.dist-info").mkdir(parents=True)
    for name, text in (files or {}).items():
        packages.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    (prefix / "bin").mkdir()
    (prefix / "bin" / "python3").symlink_to(sys.executable)
    return str(prefix / "bin" / "python3")


def test_what_counts_is_torch_and_torch_npu_in_a_new_enough_python(tmp_path: Path) -> None:
    both = ("torch", "torch_npu")
    environment(tmp_path / "miniconda3", "torch")
    environment(tmp_path / "miniconda3" / "envs" / "a", "torch_npu")
    environment(tmp_path / "miniconda3" / "envs" / "old", *both, version="3.7")
    good = environment(tmp_path / "miniconda3" / "envs" / "z", *both)
    venv = environment(tmp_path / "project" / ".venv", *both)
    elsewhere = tmp_path / "elsewhere"
    for name in both:
        (elsewhere / name).mkdir(parents=True)
        (elsewhere / name / "__init__.py").write_text("")
    by_path = environment(tmp_path / "venvs" / "p", files={"x.pth": f"import sys\n{elsewhere}\n"})
    found = list(pythons.with_torch_npu(str(tmp_path), {}))
    assert found == [("conda environment", good), ("venv", by_path), ("venv", venv)]


def test_an_active_environment_and_condas_own_list_come_first(tmp_path: Path) -> None:
    active = environment(tmp_path / "active", "torch", "torch_npu")
    listed = environment(tmp_path / "far" / "away", "torch", "torch_npu")
    environment(tmp_path / "venv", "torch", "torch_npu")
    (tmp_path / ".conda").mkdir()
    (tmp_path / ".conda" / "environments.txt").write_text(f"{tmp_path}/gone\nrelative\n{tmp_path}/far/away\n")
    found = list(pythons.with_torch_npu(str(tmp_path), {"VIRTUAL_ENV": str(tmp_path / "active")}))
    assert [program for _, program in found][:2] == [active, listed]


def test_a_home_with_very_many_projects_is_looked_at_in_part(tmp_path: Path) -> None:
    for number in range(pythons.MOST + 50):
        (tmp_path / f"p{number:04}" / "venv").mkdir(parents=True)
    environment(tmp_path / "zzz" / "venv", "torch", "torch_npu")
    assert list(pythons.with_torch_npu(str(tmp_path), {})) == []


# --- models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("~/model", "is not an absolute path"),
        ("{tmp}/none", "is not there"),
        ("{tmp}/empty", "is empty"),
        ("{tmp}/broken", "has a link that leads nowhere: weights"),
        ("{tmp}/good", None),
        ("{tmp}/good/config.json", None),
    ],
)
def test_a_models_path(tmp_path: Path, path: str, why: str | None) -> None:
    for name in ("empty", "broken", "good"):
        (tmp_path / name).mkdir()
    (tmp_path / "broken" / "weights").symlink_to("nowhere")
    (tmp_path / "good" / "config.json").write_text("{}")
    assert facts.unusable(path.format(tmp=tmp_path)) == why


# --- the import -------------------------------------------------------------------------------------------------------


def tried(python: str, path: Path, seconds: str = "30") -> dict[str, Any]:
    done = subprocess.run(
        [python, "-", "::mark:: ", seconds],
        input=trial(),
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(path)},
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, "its whole group ends"
    return json.loads(done.stdout.partition("::mark:: trial ")[2])  # type: ignore[no-any-return]


def packages(tmp_path: Path, torch_npu: str) -> Path:
    (tmp_path / "torch.py").write_text("__version__ = '2.1.0'\n")
    (tmp_path / "torch_npu.py").write_text(f"__version__ = '2.1.0'\n{torch_npu}\n")
    return tmp_path


@pytest.mark.parametrize("python", [sys.executable, *others().values()])
def test_an_import_that_works(tmp_path: Path, python: str) -> None:
    check = imported("python3", tried(python, packages(tmp_path, "print('noise')")))
    assert (check.verdict, check.message) == ("ok", "torch_npu can be imported 2.1.0 2.1.0")
    assert check.seconds is not None


@pytest.mark.parametrize(
    ("what", "message", "remedy"),
    [
        ("import os; os.abort()", "was killed by SIGABRT: it printed nothing", "modules that CANN needs"),
        (
            "import os, sys; print('EH9999: Inner Error!', flush=True); print('details', flush=True); os.abort()",
            "was killed by SIGABRT: EH9999: Inner Error!",
            "modules that CANN needs",
        ),
        (
            "raise ImportError('libhccl.so: cannot open shared object file')",
            "cannot import torch_npu with python3: ImportError: libhccl.so",
            "toolkit",
        ),
        (
            "raise RuntimeError('wrapped') from ImportError('libascend_hal.so: no such file')",
            "ImportError: libascend_hal.so",
            "driver",
        ),
        ("import decorator_of_cann", "No module named 'decorator_of_cann'", "set_env.sh"),
        ("import os; os._exit(7)", "cannot import torch_npu with python3: it printed nothing", "set_env.sh"),
    ],
)
def test_an_import_that_fails(tmp_path: Path, what: str, message: str, remedy: str) -> None:
    check = imported("python3", tried(sys.executable, packages(tmp_path, what)))
    assert check.verdict == "failure"
    assert message in check.message
    assert remedy in check.remedy


def test_an_import_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    hangs = (
        f"import subprocess, time; p = subprocess.Popen(['sleep', '600']); open({str(child)!r}, 'w').write(str(p.pid))"
    )
    check = imported("python3", tried(sys.executable, packages(tmp_path, f"{hangs}; time.sleep(600)"), "2"))
    assert "was not over after" in check.message
    until = time.monotonic() + 10
    while alive(int(child.read_text())):
        assert time.monotonic() < until
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_what_a_program_opens_itself_is_not_taken_for_its_reader() -> None:
    """Who waits on a descriptor keeps it open: on our own end of a pipe, it would never be seen to close."""
    does = """
import sys, time
readable, writable = os.pipe()
os.dup2(writable, INPUT)
os.close(writable)
leave_with_reader()
time.sleep(0.2)
os.close(INPUT)
sys.stdout.write("end" if os.read(readable, 1) == b"" else "more")
sys.stdout.flush()
os._exit(0)
"""
    program = Path(reader.__file__).read_text() + does
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert told.stdout == "end"


def test_a_directory_with_the_name_of_a_package_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mindspeed" / "docs").mkdir(parents=True)
    (tmp_path / "installed_without_metadata").mkdir()
    (tmp_path / "installed_without_metadata" / "__init__.py").touch()
    assert pythons.version("mindspeed") is None
    assert pythons.version("installed_without_metadata") == "unknown"
