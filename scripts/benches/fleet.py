"""`collect-remote devices` of a hundred hosts, against what else asks many hosts at once; each as many at a time.

The processor time is the client's: of the process and of those that it has waited for. The hosts share the machine, so
that the wall time is theirs as well. The peers run what shows which devices are free, and nothing interprets it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from collect_remote.parallel import AT_ONCE
from simhost import SimHost

HOSTS = 100
PEERS = Path(__file__).with_name("peers")
PEERS_PYTHON = Path(sys.executable).parents[2] / "fleet-peers" / "bin" / "python"
TOOL = Path(sys.executable).with_name("collect-remote")
COMMAND = "npu-smi info; npu-smi info -m"
OURS, BY_PARAMIKO = "collect-remote devices", "... by paramiko"
ANSIBLE, PARALLEL_SSH = "ansible -m raw", "parallel-ssh"


class Took(NamedTuple):
    """Of one side: seconds on the wall, seconds of the client's processors."""

    wall: float
    cpu: float


Round = dict[str, Took]
Ratio = Callable[[Round], float]
RATIOS: dict[str, tuple[Ratio, str]] = {
    "wall: ansible -m raw / ours": (lambda took: took[ANSIBLE].wall / took[OURS].wall, "2"),
    "wall: the best of the others / ours": (
        lambda took: min(took[name].wall for name in took.keys() - {OURS, BY_PARAMIKO}) / took[OURS].wall,
        "0.9",
    ),
    "CPU: ansible -m raw / ours": (lambda took: took[ANSIBLE].cpu / took[OURS].cpu, "5"),
    "CPU: parallel-ssh / ours": (lambda took: took[PARALLEL_SSH].cpu / took[OURS].cpu, "1"),
}


def run(rounds: int) -> str:
    with tempfile.TemporaryDirectory(prefix="collect-remote-bench-") as directory, ExitStack() as running:
        root = Path(directory)
        hosts = [running.enter_context(SimHost(root / name, name=name)) for name in names()]
        sides = contenders(root, hosts)
        for side in sides.values():
            measured(side, root)  # warm: files are cached
        return report([{name: measured(side, root) for name, side in sides.items()} for _ in range(rounds)])


def names() -> list[str]:
    return [f"ascend{number:03}" for number in range(1, HOSTS + 1)]


class Side(NamedTuple):
    """A command, its environment, and whether what it printed is the answer of every host."""

    words: Sequence[str | Path]
    environment: dict[str, str]
    is_whole: Callable[[str], bool]


def contenders(root: Path, hosts: Sequence[SimHost]) -> dict[str, Side]:
    """One key for all, as a fleet has it; each reads the hosts in a file of its own form."""
    key = str(hosts[0].identity_file)
    entries = {host.name: {**host.inventory_entry(), "identity_file": key} for host in hosts}
    known, plain, inventory, by_paramiko, ansible = (
        root / name for name in ("known_hosts", "hosts.json", "ours.yaml", "paramiko.yaml", "ansible.yaml")
    )
    known.write_text("".join(host.known_hosts.read_text() for host in hosts), encoding="ascii")
    plain.write_text(json.dumps([{"name": name, **entry} for name, entry in entries.items()]), encoding="utf-8")
    common = {"models": {"llama": {"adapter": "llama"}}}
    for path, said in {inventory: common, by_paramiko: {**common, "transport": "paramiko"}}.items():
        path.write_text(yaml.safe_dump({"all": {"vars": said, "hosts": entries}}), encoding="utf-8")
    ansible.write_text(yaml.safe_dump(of_ansible(entries, known)), encoding="utf-8")
    forks = str(AT_ONCE)
    of_pyinfra = {"FLEET_HOSTS": str(plain), "FLEET_KNOWN_HOSTS": str(known)}
    of_ssh = {"ANSIBLE_SSH_ARGS": "-o ControlMaster=no", "ANSIBLE_HOME": str(root / "ansible")}
    ours = [TOOL, "devices", "--hosts", "all", "--json", "--inventory"]
    return {
        OURS: Side([*ours, inventory], {}, all_told),
        BY_PARAMIKO: Side([*ours, by_paramiko], {}, all_told),
        "asyncssh": Side([PEERS_PYTHON, PEERS / "by_asyncssh.py", plain, known, forks, COMMAND], {}, all_printed),
        PARALLEL_SSH: Side([PEERS_PYTHON, PEERS / "by_parallel_ssh.py", plain, forks, COMMAND], {}, all_printed),
        "pyinfra exec": Side(
            [
                PEERS_PYTHON,
                PEERS_PYTHON.with_name("pyinfra"),
                "-y",
                "--parallel",
                forks,
                PEERS / "hosts_of_pyinfra.py",
                "exec",
                "--",
                COMMAND,
            ],
            of_pyinfra,
            all_printed,
        ),
        ANSIBLE: Side(
            [
                PEERS_PYTHON,
                PEERS_PYTHON.with_name("ansible"),
                "-i",
                ansible,
                "-f",
                forks,
                "-m",
                "raw",
                "-a",
                COMMAND,
                "all",
            ],
            of_ssh,
            all_printed,
        ),
    }


def of_ansible(entries: dict[str, Any], known: Path) -> dict[str, Any]:
    """The same hosts under the names that its ssh takes; one login a host, nothing is left behind for a next one."""
    names = {
        "address": "ansible_host",
        "port": "ansible_port",
        "user": "ansible_user",
        "identity_file": "ansible_ssh_private_key_file",
    }
    options = {"ansible_ssh_common_args": f"-F {os.devnull} -o UserKnownHostsFile={known}"}
    hosts = {host: {names[key]: entry[key] for key in names} for host, entry in entries.items()}
    return {"all": {"vars": options, "hosts": hosts}}


def all_printed(text: str) -> bool:
    return text.count("Bus-Id") == HOSTS == text.count("Chip Logic ID")


def all_told(text: str) -> bool:
    answers = json.loads(text[: text.rindex("}") + 1])["hosts"]
    return len(answers) == HOSTS and not any(answer["error"] for answer in answers)


def measured(side: Side, root: Path) -> Took:
    with (root / "said").open("w+", encoding="utf-8") as said:
        started = time.monotonic()
        process = subprocess.Popen(
            side.words, cwd=root, env={**os.environ, **side.environment}, stdout=said, stderr=subprocess.STDOUT
        )
        _, status, usage = os.wait4(process.pid, 0)
        took = Took(time.monotonic() - started, usage.ru_utime + usage.ru_stime)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read()
    if process.returncode or not side.is_whole(text):
        sys.exit(f"error: {side.words[0]} ended with {process.returncode}:\n{text[-2000:]}")
    return took


def report(rounds: Sequence[Round]) -> str:
    lines = [f"| {HOSTS} hosts, {AT_ONCE} at once | wall, s | min - max | CPU of the client, ms a host | min - max |"]
    lines.append("| --- | ---: | ---: | ---: | ---: |")
    for name in rounds[0]:
        wall, cpu = [took[name].wall for took in rounds], [took[name].cpu * 1e3 / HOSTS for took in rounds]
        lines.append(f"| {name} | {figures(wall, 2)} | {figures(cpu, 1)} |")
    lines += ["", "| ratio within a round | median | min - max | goal |", "| --- | ---: | ---: | ---: |"]
    for label, (ratio, goal) in RATIOS.items():
        lines.append(f"| {label} | {figures([ratio(took) for took in rounds], 2)} | {goal} |")
    return "\n".join(lines)


def figures(values: Sequence[float], digits: int) -> str:
    return f"{statistics.median(values):.{digits}f} | {min(values):.{digits}f} - {max(values):.{digits}f}"
