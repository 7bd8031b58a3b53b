"""Bringing one file of random bytes: our pull, by both transports, against scp, fabric, and `ssh host cat`.

On a file system in memory: ours is on the disk when it is done, and what is typed is not.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from collect_remote import Host, Request, load_inventory
from collect_remote.collection import pipeline, transfer
from collect_remote.collection.deploy import Deployed
from collect_remote.collection.run import Run
from collect_remote.collection.wire import Sent
from collect_remote.ssh.remote import Remote
from simhost import SimHost
from simhost.link import Link

from .sides import Ratio, Side, command, rounds_of, table

MIB = 1 << 20
NEAR, FAR = 1024 * MIB, 64 * MIB
ROUND_TRIP_S = 0.1
RUN = "20260101_000000_abcdef"
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a file system, no file
GCM = "aes128-gcm@openssh.com"
GET = """
import sys, fabric
address, user, port, key, known, source, target = sys.argv[1:]
settings = {"user": user, "port": int(port), "connect_kwargs": {"key_filename": key}}
with fabric.Connection(address, config=fabric.Config(lazy=True), **settings) as connection:
    connection.client.load_host_keys(known)
    connection.get(source, local=target)
"""


def run(rounds: int) -> str:
    with tempfile.TemporaryDirectory(prefix="collect-remote-bench-", dir=MEMORY) as directory:
        root = Path(directory)
        with SimHost(root / "ascend01") as host:
            near = pulls(host, root, host.port, NEAR, rounds)
            with Link(host.address, host.port, delay_s=ROUND_TRIP_S / 2) as link:
                far = pulls(host, root, link.port, FAR, rounds)
    far_away = f"{FAR // MIB} MiB with {ROUND_TRIP_S * 1e3:.0f} ms of round-trip time"
    return f"{NEAR // MIB} MiB over loopback:\n\n{near}\n\n{far_away}:\n\n{far}"


def pulls(host: SimHost, root: Path, port: int, size: int, rounds: int) -> str:
    place = root / f"to-{port}"
    place.mkdir()
    entries = {name: entry(host, place, port, transport=name) for name in ("paramiko", "openssh")}
    sent = fabricated(host, size)
    file = host.workdir / "runs" / RUN / sent[0].name
    peers = Peers(host, place, port)
    ours = {f"ours, {name}": pull(known, sent, place / "ours") for name, known in entries.items()}
    gcm = f"ssh cat, {GCM.partition('@')[0]}"
    sides = {"scp": peers.scp(file), gcm: peers.cat(file), **ours}
    goals = [Ratio("scp", "ours, paramiko", 2.5)]
    if port == host.port:
        sides["fabric get"] = peers.get(file)
        goals = [
            *(Ratio("fabric get", "ours, paramiko", 3.0), Ratio("scp", "ours, paramiko", 1.2)),
            *(Ratio(gcm, "ours, paramiko", 0.8), Ratio(gcm, "ours, openssh", 0.95)),
        ]
    return table(rounds_of(sides, rounds), goals, size)


def entry(host: SimHost, place: Path, port: int, transport: str) -> Host:
    known = {**host.inventory_entry(), "port": port, "transport": transport}
    document = {"all": {"vars": {"models": {"llama": {"adapter": "llama"}}}, "hosts": {"ascend01": known}}}
    file = place / f"{transport}.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load_inventory(file).host("ascend01")


def fabricated(host: SimHost, size: int) -> tuple[Sent, ...]:
    """A run on the host that has ended, with an archive of `size` random bytes."""
    folder = host.workdir / "runs" / RUN
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    digest = hashlib.sha256()
    with (folder / "profile_l1.tar.gz").open("wb") as file:
        for _ in range(size // MIB):
            block = os.urandom(MIB)
            file.write(block)
            digest.update(block)
    (folder / "run.log").write_bytes(b"")
    files = [
        {"name": "profile_l1.tar.gz", "size": size, "sha256": digest.hexdigest()},
        {"name": "run.log", "size": 0, "sha256": hashlib.sha256().hexdigest()},
    ]
    end = {"seq": 1, "time": 0.0, "stage": "end", "status": "done", "files": files, "log": []}
    (folder / "events.jsonl").write_text(json.dumps(end) + "\n", encoding="utf-8")
    return tuple(Sent(**file) for file in files)  # type: ignore[arg-type]


def pull(host: Host, files: tuple[Sent, ...], place: Path) -> Side:
    """The stage of that name: the connection is there, and the digest belongs to the next."""
    pipeline.deploy_agent(host)
    facts = pipeline.preview(Request(host="ascend01", model="llama"), host).facts

    def side() -> float:
        with emptied(place), Remote(host) as remote, transfer.Sink(place, files, lambda _: None) as sink:
            started = time.monotonic()
            transfer.pull(Run(Deployed(remote, facts), RUN, 60.0), sink, lambda _, __: None).close()
            return time.monotonic() - started

    return side


class Peers:
    """What a person would type, with the keys and known hosts of the simulated host."""

    def __init__(self, host: SimHost, place: Path, port: int) -> None:
        self._host, self._port, self._target = host, port, place / "peer"
        self._known = place / "known_hosts"
        self._known.write_text(f"[{host.address}]:{port} {host.host_key}\n", encoding="ascii")
        self.options = [
            *("-F", os.devnull, "-i", str(host.identity_file), "-o", f"UserKnownHostsFile={self._known}"),
        ]

    def scp(self, file: Path) -> Side:
        source = f"{self._host.user}@{self._host.address}:{file}"
        return command("scp", *self.options, "-P", str(self._port), source, str(self._target))

    def cat(self, file: Path) -> Side:
        login = f"{self._host.user}@{self._host.address}"
        words = ["ssh", *self.options, "-p", str(self._port), "-c", GCM, login, f"cat {file}"]

        def side() -> None:
            with self._target.open("wb") as target:
                subprocess.run(words, stdout=target, check=True)

        return side

    def get(self, file: Path) -> Side:
        """In a process of its own, as everybody else: what it leaves behind would slow down ours."""
        host, key = self._host, self._host.identity_file
        words = (host.address, host.user, self._port, key, self._known, file, self._target)
        return command(sys.executable, "-c", GET, *map(str, words))


@contextlib.contextmanager
def emptied(place: Path) -> Iterator[None]:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    yield
