"""The installed package: nothing but our two packages, and an agent that it can build and ship."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from collect_remote import agent_file

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    source = target / "source"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True, text=True)
    for name in filter(None, tracked.stdout.split("\0")):
        if name.startswith(("controller/", "agent/")) or "/" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((REPOSITORY / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return next(target.glob("*.whl"))


def test_nothing_but_our_packages_is_installed(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"collect_remote", "collect_agent"}
    ours = {
        str(path.relative_to(root))
        for root in (REPOSITORY / "controller", REPOSITORY / "agent")
        for path in root.rglob("*.py")
    }
    assert ours <= set(names), "every module is in the wheel"
    assert {"collect_remote/py.typed", "collect_agent/py.typed"} <= set(names)


def test_the_installed_wheel_builds_the_same_agent(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = "from collect_remote import agent_file; print(agent_file.__file__, agent_file.build().name)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    place, name = done.stdout.split()
    assert Path(place).is_relative_to(tmp_path)
    assert name == agent_file.build().name


def test_the_agent_runs_from_its_one_file(tmp_path: Path) -> None:
    agent = tmp_path / "agent.pyz"
    agent.write_bytes(agent_file.build().content())
    command = [sys.executable, "-I", "-S", agent, "validate", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert '"verdict": "invalid"' in done.stdout
