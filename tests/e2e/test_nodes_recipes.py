"""cann-recipes-infer on two hosts, whose launcher finds by itself which of them it is on; and others that are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_nodes import JOB, TORCHRUN, profiles

from checkouts import CANN, checkout, pyyaml
from harness import Tool, gone, one_error
from simhost import SimHost

Start = Callable[..., SimHost]
Clean = Callable[..., None]
Recipes = Callable[[str], tuple[SimHost, SimHost]]

SERVERS = ("127.0.0.2", "127.0.0.3")


@pytest.fixture
def recipes(host: Start, tool: Tool, tmp_path: Path) -> Recipes:
    """Two hosts with a checkout each, in which `IPs` says so."""

    def start(servers: str) -> tuple[SimHost, SimHost]:
        env, roots = pyyaml(tmp_path), []
        names = ("ascend01", "ascend02")
        hosts = [host(name=name, addresses=[own], env=env) for name, own in zip(names, SERVERS, strict=True)]
        for ascend in hosts:
            roots.append(checkout(ascend, "cann_recipes"))
            script = roots[-1] / "executor/scripts/set_env.sh"
            text = script.read_text().replace("your_cann_pkgs_path", str(ascend.home / CANN))
            text = text.replace("your_cann_recipes_path", str(roots[-1]))
            script.write_text(text.replace("'xx.xx.xx.xx' 'xx.xx.xx.xx'", servers))
        model = {"route": "cann-recipes", "model": "deepseek_r1", "yaml": "r1_rank_16_950.yaml"}
        of_second = {"models": {"ds": {"project": str(roots[1])}}}
        models = {"ds": {**model, "project": str(roots[0])}}
        tool.inventory(*hosts, models=models, entries={"ascend02": of_second})
        return hosts[0], hosts[1]

    return start


def collect(tool: Tool, *arguments: str) -> Any:
    return tool.collect("--nodes", "ascend02", "--devices", "8", "--phase", "decode", *arguments, model="ds")


@pytest.mark.exhaustive
def test_two_servers_of_eight(recipes: Recipes, tool: Tool) -> None:
    hosts = recipes(" ".join(SERVERS))
    outcome = collect(tool, "--ranks", "0,8,15")
    assert outcome.status == 0, outcome.err
    names = ["profiler_info_0.json", "profiler_info_15.json", "profiler_info_8.json"]
    assert profiles(tool.directory / outcome.document["archive"]["path"]) == {"decode": names}
    for place, ascend in enumerate(hosts):
        (logs,) = (ascend.home / "cann_recipes/models/deepseek_r1/res").glob("*/*")
        assert logs.name == f"deepseek_r1_r1_rank_16_950__collect_remote_{place}", "hosts may share a checkout"
        assert gone(ascend.processes)


@pytest.mark.parametrize("servers", ["'xx.xx.xx.xx' 'xx.xx.xx.xx'", "127.0.0.2", ""])
def test_servers_that_are_not_filled_in(recipes: Recipes, tool: Tool, assert_clean: Clean, servers: str) -> None:
    hosts = recipes(servers)
    message = r"IPs in executor/scripts/set_env.sh in \S+ is \(.*\), and model ds runs on 2 hosts"
    one_error(collect(tool), 5, message=message, remedy="in this order: ascend01, ascend02")
    assert [list((ascend.workdir / "runs").glob("*")) for ascend in hosts] == [[], []]
    assert_clean(*hosts)


TRAIN = """
import os, time, torch, torch_npu

x = torch.ones(8, 8).to("npu:" + os.environ["LOCAL_RANK"])
with torch_npu.profiler.profile(on_trace_ready=torch_npu.profiler.tensorboard_trace_handler("./prof")) as prof:
    while True:
        time.sleep(0.1)
        x = x @ x / 8
        prof.step()
"""


def test_a_launcher_that_numbers_the_hosts_itself(host: Start, tool: Tool, assert_clean: Clean) -> None:
    """Its ranks would record nothing, for as long as it runs."""
    hosts = host(), host(name="ascend02")
    command = {place: TORCHRUN.replace("--node-rank={node_rank}", f"--node-rank={1 - place}") for place in range(2)}
    models = []
    for place, ascend in enumerate(hosts):
        folder = ascend.workdir.parent / "project"
        folder.mkdir()
        (folder / "train.py").write_text(TRAIN)
        models.append({"route": "script", "project": str(folder), "command": command[place]})
    tool.inventory(*hosts, models={"mine": models[0]}, entries={"ascend02": {"models": {"mine": models[1]}}})
    outcome = tool.collect(*JOB, "--phase", "train", model="mine")
    message = r"rank [23] of the job was started on this host, whose ranks are 0 to 1|rank [01] .* are 2 to 3"
    one_error(outcome, 5, message=message, remedy="in the launcher's order")
    assert_clean(*hosts)
    assert json.loads(outcome.out)["error"]["entry"] == "rank-misplaced"
