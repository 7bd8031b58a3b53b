"""Sweeps on a Dask cluster: the same results, also when a worker is lost, and an end when one is wanted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_sweep import Models, ctrl_c_stops_it_and_it_goes_on, models, results, two, wait_for

from harness import Tool, leases
from simhost import SimHost

__all__ = ["models", "two"]
# A LocalCluster in a process of its own; it says where it is and which processes its workers are.
CLUSTER = """
import json, sys
from distributed import Client, LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=4, threads_per_worker=2, dashboard_address=None) as cluster, Client(cluster) as client:
        pids = list(client.run(lambda: __import__("os").getpid()).values())
        print(json.dumps({"address": cluster.scheduler_address, "workers": pids}), flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def cluster(tmp_path: Path, client_home: Path) -> Iterator[dict[str, Any]]:
    (tmp_path / "dask").mkdir()
    script = tmp_path / "dask" / "cluster.py"
    script.write_text(CLUSTER)
    with subprocess.Popen(
        [sys.executable, str(script)],
        cwd=tmp_path / "dask",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield json.loads(process.stdout.readline())
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait(60)


def test_workers_that_are_lost_lose_no_cell(
    two: tuple[SimHost, SimHost], tool: Tool, models: Models, cluster: dict[str, Any]
) -> None:
    models.gate.unlink()
    process = tool.start("sweep", "--dask", cluster["address"], "--json")
    wait_for(lambda: len(models.starts()) == 2)
    for pid in cluster["workers"][:3]:
        os.kill(pid, signal.SIGKILL)
    models.gate.touch()
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert {cell["state"] for cell in json.loads(out)["cells"]} == {"valid"}
    assert set(models.starts().values()) == {1}
    assert len(results(tool)) == 4
    assert leases(tool.directory.parent) == []


def test_ctrl_c_reaches_the_workers(
    two: tuple[SimHost, SimHost], tool: Tool, models: Models, cluster: dict[str, Any]
) -> None:
    ctrl_c_stops_it_and_it_goes_on(tool, models, "--dask", cluster["address"])


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nowhere", "tcp://", "http://127.0.0.1:1"])
def test_a_cluster_that_is_not_there(two: tuple[SimHost, SimHost], tool: Tool, address: str) -> None:
    done = tool("sweep", "--dask", address, "--json")
    assert done.status == 2
    assert f"no Dask scheduler answers at {address}: " in done.document["error"]["message"]
    assert "Traceback" not in done.err
    assert not (tool.directory / "sweeps").exists()
