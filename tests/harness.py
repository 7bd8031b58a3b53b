"""What end-to-end tests share: the tool as its users have it, a process in a directory with an inventory file."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from simhost import SimHost

COLLECT_REMOTE = [sys.executable, "-m", "collect_remote"]
LLAMA = {"llama": {"adapter": "llama", "layers": 1, "hidden": 64, "intermediate": 128, "heads": 4, "kv_heads": 2}}


@dataclass
class Outcome:
    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Tool:
    """`collect-remote` in a directory of its own, as an ordinary process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.profiles = directory / "profiles"

    def inventory(
        self, *hosts: SimHost, models: dict[str, Any] | None = None, entries: dict[str, Any] | None = None
    ) -> None:
        """Write inventory.yaml. `entries` adds hosts, or keys to hosts."""
        known: dict[str, Any] = {host.name: host.inventory_entry() for host in hosts}
        for name, keys in (entries or {}).items():
            known[name] = {**known.get(name, {}), **keys}
        document = {"all": {"vars": {"models": models or LLAMA}, "hosts": known}}
        (self.directory / "inventory.yaml").write_text(yaml.safe_dump(document))

    def __call__(self, *arguments: str, timeout: float = 120) -> Outcome:
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
        return Outcome(process.returncode, out, err)

    def start(self, *arguments: str, stdout: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COLLECT_REMOTE, *arguments],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def collect(self, *arguments: str, host: str = "ascend01", model: str = "llama", **options: Any) -> Outcome:
        return self("--host", host, "--model", model, "--json", *arguments, **options)


def read_until(process: subprocess.Popen[str], until: str) -> str:
    """What the tool says, up to the line with `until`."""
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if until in line:
            return said
    raise AssertionError(f"never came to {until!r}: {said}")


def end(process: subprocess.Popen[str], said: str) -> Outcome:
    """What came of it in the end; `said` was read before."""
    out, err = process.communicate(timeout=60)
    return Outcome(process.returncode, out, said + err)


def ssh(host: SimHost, command: str, script: str = "") -> subprocess.CompletedProcess[str]:
    """Run `command` on the host as a person would who types it, CANN's environment sourced, `script` on its input."""
    return subprocess.run(
        [
            *("ssh", "-F", "/dev/null", "-i", str(host.identity_file), "-p", str(host.port)),
            *("-o", f"UserKnownHostsFile={host.known_hosts}", f"{host.user}@{host.address}"),
            f"cd {host.workdir} && . $HOME/Ascend/ascend-toolkit/set_env.sh && {command}",
        ],
        input=script,
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )


def leases(tmp_path: Path) -> list[str]:
    """Lock files of devices that somebody still holds."""
    held = []
    for path in tmp_path.glob("leases-*/*.lock"):
        with path.open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(str(path))
    return held


def command_line(pid: int) -> bytes:
    """The arguments of a process, NUL between them; nothing when it has just ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def gone(processes: Callable[[], list[int]], patience_s: float = 3.0) -> bool:
    """The server's own process of a closed session may need a moment to leave."""
    until = time.monotonic() + patience_s
    while processes():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def one_error(outcome: Outcome, status: int, *, message: str, remedy: str) -> dict[str, Any]:
    """The contract: one line what is wrong, one line what to do, the same in --json, no traceback."""
    assert outcome.status == status, outcome.err
    lines = outcome.err.splitlines()
    (said,) = [line for line in lines if line.startswith("error: ")]
    assert re.search(message, said), said
    assert re.search(remedy, lines[lines.index(said) + 1]), lines[-1]
    assert "Traceback" not in said
    error = outcome.document["error"]
    assert set(error) == {"kind", "message", "remedy", "entry", "stage", "host"}
    assert f"  see: docs/troubleshooting.md#{error['entry']}" in lines
    assert re.search(message, error["message"])
    return error
