"""A job on several hosts without one: what each is asked, and how what they bring becomes one result."""

from __future__ import annotations

import json
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import manifests
import results
from collect_agent.run.rundir import ARCHIVE
from collect_agent.validate import validate
from collect_remote.cancel import Cancel
from collect_remote.collection.pipeline import collect
from collect_remote.collection.session import Log
from collect_remote.errors import ProfileInvalid, TransferError, UsageError
from collect_remote.inventory import ModelSpec
from collect_remote.nodes.merge import Part, merge, merged
from collect_remote.request import Request, window
from collect_remote.routes import choose, detect, routes, template
from collect_remote.routes.plan import DRIVE, Launch, Plan, driven
from collect_remote.routes.route import Match, Route
from collect_remote.survey.project import ProjectFacts

NODES = ("a", "b", "c")
LLAMA = ModelSpec("llama", "llama", None, {})


def ask(host: str = "b", nodes: tuple[str, ...] = NODES, **options: Any) -> Request:
    return Request(host=host, model="llama", nodes=nodes, **options)


def argv(request: Request, *command: str) -> list[str]:
    """What becomes of the words of a user's command."""
    plan = driven("script", request, Launch(command, "/w"), {"train": 3})
    return list(json.loads(plan.files[DRIVE])["argv"])


def test_every_host_has_its_own_ranks() -> None:
    assert [ask(name, device_count=4).profiled_ranks for name in NODES] == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]
    assert ask(devices=("0", "3")).world_size == 6
    assert ask(device_count=2, ranks=(0, 3, 4)).profiled_ranks == (3,)
    assert Request(host="a", model="llama", device_count=2).profiled_ranks == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": ("a", "a", "b")}, "names a host twice"),
        ({"nodes": ("a", "c")}, "leaves out b"),
        ({"ranks": (3,)}, "--ranks 3: there are 3 ranks"),
        ({"ranks": (0, 2)}, "--ranks leaves none to profile on b, which has 1 to 1"),
    ],
)
def test_what_no_hosts_could_do(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ask(**options)


def test_torchrun_is_told_where_its_host_stands() -> None:
    request = ask(device_count=2)
    plan = template.plan(request, window(request, LLAMA), LLAMA)
    assert {"--nnodes=3", "--node-rank=1", "--nproc-per-node=2"} < set(plan.argv)
    assert {"--master-addr={master_addr}", "--master-port={port}"} < set(plan.argv)
    assert plan.expected["ranks"] == [2, 3]


def test_one_device_a_host_is_a_job_too() -> None:
    request = ask()
    plan = template.plan(request, window(request, LLAMA), LLAMA)
    assert "--nproc-per-node=1" in plan.argv
    assert plan.expected["ranks"] == [1]


def test_words_of_a_command_say_where_a_host_stands() -> None:
    words = ("--n={nodes}", "{node_rank}", "{master_addr}:{master_port}", "{port}", '{"a": {}}')
    assert argv(ask(), *words) == ["--n=3", "1", "{master_addr}:{port}", "{{port}}", '{{"a": {{}}}}']
    assert argv(Request(host="a", model="llama"), *words)[:2] == ["--n=1", "0"]


def routed(monkeypatch: pytest.MonkeyPatch, match: Match, **options: Any) -> Plan:
    """The plan for the second of three hosts with two devices each, by a route of its own."""
    launch = Launch(("run",), "/w")

    def plan(request: Request, *_: Any) -> Plan:
        return driven("own", request, launch, {"train": 3})

    route = Route("own", ("train",), lambda *_: None, plan, **options)
    monkeypatch.setattr(detect, "find", lambda *_: (route, match))
    model = ModelSpec("llama", None, "own", {"project": "/w", "command": ("run",)})
    return choose.late(ask(device_count=2), model, ProjectFacts("/w"))[1]


def test_what_is_on_one_host_only_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--nodes: route own starts its program on one host"):
        routed(monkeypatch, Match(("",)), on_several=False)
    alone = {name for name, route in routes().items() if not route.on_several}
    assert alone == {"verl", "vllm", "dynamic", "wrapper-service", "wrapper-rl"}


def test_a_program_is_made_for_as_many_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert routed(monkeypatch, Match(("",), ranks=2, nodes=3)).expected["ranks"] == [2, 3]
    with pytest.raises(UsageError, match="runs on 2 hosts, and 3 are asked for"):
        routed(monkeypatch, Match(("",), nodes=2))
    with pytest.raises(UsageError, match="has 6 ranks, and the request is for 2"):
        routed(monkeypatch, Match(("",), ranks=6))


def test_the_pipeline_of_one_host_is_not_for_several() -> None:
    with pytest.raises(UsageError, match="several hosts"):
        collect(ask(), None)  # type: ignore[arg-type]


def parts(tmp_path: Path, *changes: dict[str, Any], names: tuple[str, ...] = ("a", "b")) -> list[Part]:
    """What two hosts bring of a job with two ranks on each."""
    made = []
    for number, (name, changed) in enumerate(zip(("a", "b"), changes or ({}, {}), strict=True)):
        run = f"20261129_10420{number}_5f0c1e"
        directory = results.publish(
            tmp_path / name, host=names[number], nodes=("a", "b"), ranks=2, run=run, phase="separate", **changed
        )
        (directory / "run.log").write_text(f"{name} was here\n")
        manifest = json.loads((directory / "manifest.json").read_text())
        made.append(Part(names[number], directory, manifest))
    return made


def whole(tmp_path: Path, made: list[Part]) -> Path:
    """The directory in which they were merged."""
    target = tmp_path / "whole"
    target.mkdir()
    merge(made, target, Log(None))
    return target


def test_what_two_hosts_bring_is_one_result(tmp_path: Path) -> None:
    made = parts(tmp_path)
    devices = [device for part in made for device in part.manifest["devices"]]
    target = tmp_path / "whole"
    target.mkdir()
    result = merge(made, target, Log(None))
    manifests.check(result.manifest)
    assert sorted(path.name for path in target.iterdir()) == [ARCHIVE, "run.log"]
    assert (target / "run.log").read_text().splitlines()[1::2] == ["a was here", "b was here"]
    assert not any(part.directory.exists() for part in made)
    judged = validate(str(target / ARCHIVE))
    assert judged["verdict"] == "valid"
    pairs = [(phase, rank) for phase in ("decode", "prefill") for rank in range(4)]
    assert sorted((profile["phase"], profile["rank"]) for profile in judged["profiles"]) == pairs
    manifest = result.manifest
    assert manifest["run_id"] == "20261129_104200_5f0c1e"
    assert [node["run_id"] for node in manifest["nodes"]] == ["20261129_104200_5f0c1e", "20261129_104201_5f0c1e"]
    assert [{**device, "host": None} for device in manifest["devices"]] == [{**one, "host": None} for one in devices]
    assert [entry["pid"] for entry in (manifest["proof"], *manifest["proof"]["ranks"])] == [4711, 4712, 4713, 4714]
    assert [look["host"] for look in manifest["proof"]["presence"]] == ["a", "a", "b", "b"]


def test_the_most_recompiles_of_any_rank_count(tmp_path: Path) -> None:
    first, second = (part.manifest for part in parts(tmp_path))
    second["phases"]["decode"]["ranks"]["3"]["recompiles"] = second["phases"]["decode"]["recompiles"] = 2
    phase = merged([("a", first), ("b", second)])["phases"]["decode"]
    assert phase["recompiles"] == 2
    assert {rank: steps["recompiles"] for rank, steps in phase["ranks"].items()} == {"1": 0, "2": 2, "3": 2}


def test_clocks_of_hosts_may_differ(tmp_path: Path) -> None:
    """Each host has judged by its own that its ranks were on together, and all of them waited for each other."""
    made = parts(tmp_path, {}, {"started": time.time() + 3600})
    target = whole(tmp_path, made)
    judged = validate(str(target / ARCHIVE))
    (complete,) = [check for check in judged["checks"] if check["id"] == "complete"]
    assert (judged["verdict"], complete["verdict"]) == ("valid", "warn")
    assert complete["message"].endswith("not recorded at the same time, by the clocks of their hosts")


def test_profiles_of_one_name_are_not_laid_on_each_other(tmp_path: Path) -> None:
    first, _ = parts(tmp_path)
    twin = Part("b", tmp_path / "twin", first.manifest)
    shutil.copytree(first.directory, twin.directory)
    with pytest.raises(TransferError, match="two hosts of the job have a profile called prefill/ascend01_"):
        whole(tmp_path, [first, twin])


def test_two_hosts_of_the_same_ranks_are_no_whole(tmp_path: Path) -> None:
    made = parts(tmp_path, names=("a", "a"))
    with pytest.raises(ProfileInvalid, match="together is not valid: .*rank 0 is there twice"):
        whole(tmp_path, made)


@pytest.mark.parametrize(
    ("field", "value"), [("proof", "none"), ("notes", [7]), ("stages", [{"stage": 1}]), ("phases", {"decode": {}})]
)
def test_a_manifest_of_another_form_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    first, second = parts(tmp_path)
    with pytest.raises(TransferError, match=f"the manifest of b is not as our agent writes it: its {field}"):
        whole(tmp_path, [first, Part("b", second.directory, {**second.manifest, field: value})])


def test_everybody_who_waits_hears_of_a_cancellation() -> None:
    """The thread that follows a run, and the one that lets it go on, share a connection."""
    cancel, heard = Cancel(), []

    def wait() -> None:
        try:
            cancel.sleep(30)
        except KeyboardInterrupt:
            heard.append(threading.get_ident())

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    cancel.set()
    for thread in threads:
        thread.join(timeout=10)
    assert len(set(heard)) == 3
