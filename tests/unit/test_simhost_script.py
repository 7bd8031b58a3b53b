"""``scripts/simhost``: hosts in the foreground, an inventory to reach them, nothing left behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "simhost"


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal(tmp_path: Path, ending: signal.Signals) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("tiny: {adapter: llama, batch: 2}\n")
    inventory = tmp_path / "inventory.yaml"
    command = [sys.executable, SCRIPT, "--hosts", "2", "--models", models, "--inventory", inventory]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as script:
        assert script.stderr is not None
        assert script.stdout is not None
        said = script.stderr.readline() + script.stderr.readline()
        everything = yaml.safe_load(inventory.read_text())["all"]
        entry = everything["hosts"]["ascend02"]
        with socket.create_connection((entry["address"], entry["port"]), timeout=5) as connection:
            assert connection.recv(4) == b"SSH-"
        script.send_signal(ending)
        assert script.wait(timeout=10) == 0
        assert script.stdout.read() == inventory.read_text()
    assert "kernel times are simulated" in said
    assert everything["vars"] == {"models": {"tiny": {"adapter": "llama", "batch": 2}}}
    assert list(everything["hosts"]) == ["ascend01", "ascend02"]
    assert not Path(entry["workdir"]).exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((entry["address"], entry["port"]), timeout=5)
