"""The survey's program: one text for every Python a host may have, too old ones included."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from collect_remote import agent_file
from collect_remote.survey import probe as programs
from harness import command_line, gone

OTHERS = sorted(str(path) for path in (Path.home() / ".pyenv/versions").glob("*/bin/python"))


@pytest.mark.parametrize("python", [sys.executable, *OTHERS])
def test_it_runs_on_any_python_and_tells_its_version(python: str, tmp_path: Path) -> None:
    (tmp_path / "npu-smi").write_text('#!/bin/sh\necho "$* of the driver"\n')
    (tmp_path / "npu-smi").chmod(0o755)
    done = subprocess.run(
        [python, "-", "::mark:: ", str(tmp_path / "work"), "agent.pyz", ""],
        input=programs.survey(),
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    facts = json.loads(done.stdout.partition("::mark:: facts ")[2])
    version = subprocess.check_output([python, "-c", "import sys; print(list(sys.version_info[:3]))"], text=True)
    assert facts["python"]["version"] == json.loads(version)
    assert facts["npu"]["npu_smi"] == str(tmp_path / "npu-smi")
    assert facts["npu"]["info"] == [0, "info of the driver\n"]
    assert facts["npu"]["mapping"] == [0, "info -m of the driver\n"]


def test_a_reader_that_goes_takes_a_hanging_npu_smi_along(tmp_path: Path) -> None:
    (tmp_path / "npu-smi").write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 60\n")
    (tmp_path / "npu-smi").chmod(0o755)
    probe = subprocess.Popen(
        [sys.executable, "-", "::mark:: ", str(tmp_path), "agent.pyz", ""],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    assert probe.stdin is not None
    assert probe.stdout is not None
    probe.stdin.write(programs.survey().encode())
    probe.stdin.close()
    pids: list[str] = []
    while len(pids) < 2:
        assert probe.poll() is None
        pids = (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []
    probe.stdout.close()
    assert probe.wait(10) == -signal.SIGKILL
    assert gone(lambda: [int(pid) for pid in pids if b"sleep" in command_line(int(pid))])


def probed(tmp_path: Path, agent: str = "agent.pyz", site: Path | None = None, command: str = "") -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-S", "-", "::mark:: ", str(tmp_path / "work"), agent, command],
        input=programs.survey(),
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(site or "")},
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout.partition("::mark:: facts ")[2])  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("entries", "versions"),
    [
        (["torch_npu-2.13.0.dist-info"], {"torch": None, "torch_npu": "2.13.0"}),
        (["torch-npu-2.13.0.post1.dist-info", "torch-2.13.0+cpu.dist-info"], {"torch": "2.13.0+cpu"}),
        (["torch-2.1.0-py3.9.egg-info", "torch_npu.egg-info"], {"torch": "2.1.0", "torch_npu": "unknown"}),
        (["Torch_NPU-2.1.0.dist-info", "torchvision-0.28.0.dist-info"], {"torch": None, "torch_npu": "2.1.0"}),
    ],
    ids=["npu-alone", "unescaped", "eggs", "capitals"],
)
def test_a_distribution_is_known_by_its_whole_name(
    tmp_path: Path, entries: list[str], versions: dict[str, str | None]
) -> None:
    for entry in entries:
        (tmp_path / "site" / entry).mkdir(parents=True)
    found = probed(tmp_path, site=tmp_path / "site")["versions"]
    assert {name: found[name] for name in versions} == versions


@pytest.mark.parametrize("length", [None, 0, 1000], ids=["whole", "empty", "truncated"])
def test_a_damaged_agent_counts_as_none(tmp_path: Path, length: int | None) -> None:
    agent = agent_file.build()
    place = Path(agent.path(str(tmp_path / "work")))
    assert not probed(tmp_path, agent.name)["agent_present"]
    place.parent.mkdir(parents=True)
    place.write_bytes(agent.content()[:length])
    assert probed(tmp_path, agent.name)["agent_present"] is (length is None)


def test_python_is_called_again_as_it_was_named(tmp_path: Path) -> None:
    assert probed(tmp_path, command="/opt/wrapper")["python"]["path"] == "/opt/wrapper"
    assert probed(tmp_path)["python"]["path"] == sys.executable
