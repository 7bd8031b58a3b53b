"""The tool itself: rounds that interleave what is compared, medians, and ratios within each round.

ssh         `ssh host true`: the least that anything over SSH costs
run         the same agent command, on the host, without SSH: the remote run's own time
collect     the whole of `collect-remote --host ... --model ...`, and `first`: up to the agent's first event in it
help        `collect-remote --help`, `python`: a Python that does nothing

The same behind a link of 100 ms round-trip time, with the agent there already and without.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from collect_remote import Request, load_inventory
from collect_remote.collection import launch, pipeline
from collect_remote.collection.deploy import Deployed
from collect_remote.collection.run import Run
from collect_remote.ssh import shell
from collect_remote.ssh.remote import Remote
from simhost import SimHost
from simhost.link import Link

MODELS = {"llama": {"adapter": "llama"}}
ROUND_TRIP_S = 0.1
FIRST = "the run is there"  # what the tool says at the agent's first event
TOOL = str(Path(sys.executable).with_name("collect-remote"))

Seconds = dict[str, float]
Contender = Callable[[], Seconds]


def run(rounds: int) -> str:
    with tempfile.TemporaryDirectory(prefix="collect-remote-bench-") as directory:
        root = Path(directory)
        with SimHost(root / "ascend01", env={"COLLECT_REMOTE_LEASE_DIR": str(root / "leases")}) as host:
            inventory(root / "near", host)
            inventory(root / "openssh", host, transport="openssh")
            near = {
                "python": timed("python", [sys.executable, "-c", ""]),
                "help": timed("help", [TOOL, "--help"]),
                "ssh": timed("ssh", ssh(host, host.port)),
                "run": run_alone(host, root / "near"),
                "collect": collect(root / "near"),
                "by openssh": collect(root / "openssh"),
            }
            tables = report(rounds_of(near, 2 * rounds), near=True)
            with Link(host.address, host.port, delay_s=ROUND_TRIP_S / 2) as link:
                inventory(root / "far", host, port=link.port)
                far = {
                    "ssh": timed("ssh", ssh(host, link.port)),
                    "agent there": collect(root / "far"),
                    "agent not there": uncached(host, collect(root / "far")),
                }
                return f"{tables}\n\n{report(rounds_of(far, rounds), near=False)}"


def inventory(folder: Path, host: SimHost, **more: object) -> None:
    folder.mkdir()
    entry = {**host.inventory_entry(), **more}
    document = {"all": {"vars": {"models": MODELS}, "hosts": {"ascend01": entry}}}
    (folder / "inventory.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")


def rounds_of(contenders: dict[str, Contender], rounds: int) -> list[dict[str, Seconds]]:
    for contender in contenders.values():
        contender()  # warm: the agent is uploaded, files are cached
    return [{name: contender() for name, contender in contenders.items()} for _ in range(rounds)]


def timed(name: str, command: list[str]) -> Contender:
    def run() -> Seconds:
        started = time.monotonic()
        quiet(command)
        return {name: time.monotonic() - started}

    return run


def ssh(host: SimHost, port: int) -> list[str]:
    program = shutil.which("ssh")
    if program is None:
        sys.exit("error: the peer of this comparison is `ssh`: install openssh-client")
    known = host.known_hosts.with_name(f"known_hosts-{port}")
    known.write_text(f"[{host.address}]:{port} {host.host_key}\n", encoding="ascii")
    return [
        *(program, "-F", os.devnull, "-i", str(host.identity_file), "-p", str(port)),
        *("-o", f"UserKnownHostsFile={known}", f"{host.user}@{host.address}", "true"),
    ]


def collect(folder: Path) -> Contender:
    command = [TOOL, "--host", "ascend01", "--model", "llama", "--json"]

    def run() -> Seconds:
        started, first = time.monotonic(), None
        with subprocess.Popen(
            command, cwd=folder, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as tool:
            assert tool.stderr is not None
            said = []
            for line in tool.stderr:
                said.append(line)
                if first is None and FIRST in line:
                    first = time.monotonic() - started
        if tool.returncode or first is None:
            sys.exit("error: collect-remote failed:\n" + "".join(said))
        return {"first": first, "collect": time.monotonic() - started}

    return run


def uncached(host: SimHost, contender: Contender) -> Contender:
    def run() -> Seconds:
        shutil.rmtree(host.workdir / "agent")
        return contender()

    return run


def run_alone(host: SimHost, folder: Path) -> Contender:
    """The very script that starts the run, given to a session of the host without an SSH server in between."""
    entry = load_inventory(folder / "inventory.yaml").host("ascend01")
    request = Request(host="ascend01", model="llama")
    pipeline.deploy_agent(entry)
    preview = pipeline.preview(request, entry)
    deployed = Deployed(Remote(entry), preview.facts)
    count = 0

    def run() -> Seconds:
        nonlocal count
        count += 1
        run_id = f"bench_{count}"
        document = launch.document(request, run_id, preview.plan, preview.facts, preview.verdicts)
        stdin = shell.stdin(Run(deployed, run_id, 60.0, document).start_script())
        environment = {**os.environ, "SSH_ORIGINAL_COMMAND": shell.COMMAND, "SSH_CLIENT": "", "SSH_CONNECTION": ""}
        started = time.monotonic()
        with subprocess.Popen(
            [str(host.session)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        ) as session:
            assert session.stdin is not None
            assert session.stdout is not None
            session.stdin.write(stdin)
            session.stdin.flush()
            said = session.stdout.read()  # its input stays open meanwhile, as over SSH
        if session.returncode:
            sys.exit(f"error: the run failed:\n{said.decode()}")
        return {"run": time.monotonic() - started}

    return run


def quiet(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"error: {command[0]} failed:\n{done.stderr.decode()}{done.stdout.decode()}")


def report(rounds: list[dict[str, Seconds]], *, near: bool) -> str:
    lines = [f"| {'loopback' if near else f'{ROUND_TRIP_S * 1e3:.0f} ms round trips'}, ms | median | min - max |"]
    lines.append("| --- | ---: | ---: |")
    for name, seconds in rounds[0].items():
        for part in seconds:
            label = part if name == part else f"{name}: {part}"
            lines.append(row(label, [1e3 * values[name][part] for values in rounds], 0))
    lines += ["", "| ratio within a round | median | min - max | goal |", "| --- | ---: | ---: | ---: |"]
    for label, (ratio, most) in RATIOS[near].items():
        lines.append(f"{row(label, [ratio(values) for values in rounds], 2)} {most} |")
    return "\n".join(lines)


def row(name: str, values: list[float], digits: int) -> str:
    median, least, most = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"| {name} | {median} | {least} - {most} |"


Round = dict[str, Seconds]
RATIOS: dict[bool, dict[str, tuple[Callable[[Round], float], str]]] = {
    True: {
        "(collect - run) / ssh": (lambda r: (r["collect"]["collect"] - r["run"]["run"]) / r["ssh"]["ssh"], "2.5"),
        "first / ssh": (lambda r: r["collect"]["first"] / r["ssh"]["ssh"], "1.7"),
        "help / python": (lambda r: r["help"]["help"] / r["python"]["python"], ""),
    },
    False: {
        "(first - 1 round trip) / ssh, agent there": (
            lambda r: (r["agent there"]["first"] - ROUND_TRIP_S) / r["ssh"]["ssh"],
            "1.3",
        ),
        "(first - 3 round trips) / ssh, agent not there": (
            lambda r: (r["agent not there"]["first"] - 3 * ROUND_TRIP_S) / r["ssh"]["ssh"],
            "1.3",
        ),
    },
}
