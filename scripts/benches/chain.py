"""From the moment the model stops to the published result, against the chain that a careful person types.

Ours: harvest, validate, pack, read back, pull, verify, publish. The run is made up but for that: a profile lies where
the profiler would have left it, and the agent goes on from there. Typed: tar, sha256sum, scp, sha256sum -c, tar tzf,
json.load. Both from and to a file system in memory: ours is on the disk when it is done, and what is typed is not.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import collect_agent
from collect_agent.run import process
from collect_agent.run.rundir import RunDir
from collect_remote import Request
from collect_remote.collection import bring, pipeline
from collect_remote.collection.deploy import Deployed
from collect_remote.collection.run import Run
from collect_remote.collection.session import Log
from collect_remote.results import store
from collect_remote.ssh.remote import Remote
from simhost import SimHost

from . import made
from .pull import MEMORY, RUN, Peers, entry
from .sides import Ratio, Side, command, rounds_of, table

MIB = 1 << 20
TRACE = 282 * MIB
PHASE = "both"
WARMUP = 5
AGENT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from collect_agent import events
from collect_agent.run import result
from collect_agent.run import process
from collect_agent.run.rundir import RunDir
run = RunDir(sys.argv[2])
journal = events.Journal(run.events)
end = result.make(run, run.read_plan(), journal, result.Recorded({}, 0.0, [], []))
journal.write(stage="end", status="done", directory=run.path, log=[], **end)
journal.close()
"""
TYPED = """
set -e
{ssh} "cd {folder} && tar czf profile.tar.gz profile && sha256sum profile.tar.gz >profile.sha256"
{scp} "{login}:{folder}/profile.tar.gz" "{login}:{folder}/profile.sha256" {place}
cd {place} && sha256sum --quiet -c profile.sha256 && tar tzf profile.tar.gz >/dev/null
tar xzOf profile.tar.gz --wildcards '*/trace_view.json' | {python} -c 'import json, sys; json.load(sys.stdin)'
"""


def run(rounds: int) -> str:
    with tempfile.TemporaryDirectory(prefix="collect-remote-bench-", dir=MEMORY) as directory:
        root = Path(directory)
        profile = made.profile(root / "made", TRACE)
        size = sum(file.stat().st_size for file in profile.rglob("*") if file.is_file())
        with SimHost(root / "ascend01") as host:
            sides = {"typed": typed(host, root, profile), "ours": ours(host, root, profile)}
            seconds = rounds_of(sides, rounds)
    return f"A profile of {size / MIB:.0f} MiB.\n\n" + table(seconds, [Ratio("typed", "ours", 2.0)], size)


def typed(host: SimHost, root: Path, profile: Path) -> Side:
    folder, place = host.workdir / "typed", root / "typed"
    shutil.copytree(profile, folder / "profile" / profile.name)
    place.mkdir()
    peers = Peers(host, place, host.port)
    login = f"{host.user}@{host.address}"
    script = TYPED.format(
        ssh=" ".join(["ssh", *peers.options, "-p", str(host.port), login]),
        scp=" ".join(["scp", "-q", *peers.options, "-P", str(host.port)]),
        login=login,
        folder=folder,
        place=place,
        python=sys.executable,
    )
    return command("bash", "-c", script)


def ours(host: SimHost, root: Path, profile: Path) -> Side:
    place = root / "ours"
    place.mkdir()
    known = entry(host, place, host.port, "paramiko")
    pipeline.deploy_agent(known)
    facts = pipeline.preview(Request(host="ascend01", model="llama"), known).facts
    agent = str(Path(collect_agent.__file__).parents[1])
    steps = len((profile / "ASCEND_PROFILER_OUTPUT" / "step_trace_time.csv").read_text().splitlines()) - 1

    def side() -> float:
        os.chdir(place)
        shutil.rmtree(store.ROOT, ignore_errors=True)
        with Remote(known) as remote:
            following = Run(Deployed(remote, facts), RUN, 60.0)
            plan = recorded(host, profile, steps, remote.login.link_bytes_s if remote.login else None)
            where = store.place("ascend01", "llama", RUN)
            started = time.monotonic()
            words = [sys.executable, "-I", "-S", "-c", AGENT, agent, str(host.workdir / "runs" / RUN)]
            with subprocess.Popen(words) as agent_process, store.incoming(where):
                bring.bring(following, where, plan, Log(None))
                took = time.monotonic() - started
            if agent_process.returncode:
                sys.exit("error: the agent failed")
        return took

    return side


def recorded(host: SimHost, profile: Path, steps: int, link_bytes_s: float | None) -> dict[str, object]:
    """A run on the host whose model has stopped a moment ago; its plan."""
    shutil.rmtree(host.workdir / "runs", ignore_errors=True)
    run = RunDir(str(host.workdir / "runs" / RUN))
    plan = {
        "files": {},
        "run_id": RUN,
        "host": "ascend01",
        "model": "llama",
        "route": "template",
        "request": {},
        "versions": {},
        "expected": {"steps": {PHASE: steps}, "ranks": [0], "level": "Level1", "metrics": "PipeUtilization"},
        "visible_devices": None,
        "container": None,
        "allow_shared": True,
        "keep_raw": False,
        "salvage": False,
        "link_bytes_s": link_bytes_s,
        "orphan_s": None,
    }
    plan["expected"]["export"] = ["text"]  # type: ignore[index]
    run.create(plan)
    Path(run.log).touch()
    target = Path(run.profile) / PHASE / profile.name
    shutil.copytree(profile, target, copy_function=os.link)
    step = {"window": PHASE, "kind": "decode", "seconds": 0.1}
    events = [
        {"stage": "lease", "devices": [{"label": "NPU 0", "name": "910B3"}]},
        {"stage": "import", "versions": {"torch": "2.13.0", "torch_npu": "2.13.0"}},
        *({"stage": "warmup", **step, "step": number, "of": WARMUP} for number in range(1, WARMUP + 1)),
        *({"stage": "profile", **step, "step": number, "of": steps} for number in range(1, steps + 1)),
    ]
    with Path(run.events).open("a") as file:
        file.writelines(
            json.dumps({"seq": number, "time": time.time(), **event}) + "\n" for number, event in enumerate(events, 2)
        )
    Path(run.pid).write_text(json.dumps(process.identity(os.getpid())))
    return plan
