"""The agent as one file, and on a host: a zipapp whose name holds its digest, uploaded once, and again when damaged."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import io
import shlex
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import collect_agent

from .. import containers
from ..ssh.pour import Pour
from ..ssh.remote import Remote
from ..ssh.stream import Stream
from ..survey.survey import Facts

NEEDED = ("PATH", "LD_LIBRARY_PATH")  # by a Python that is started without a shell
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAIN = "import sys\nfrom collect_agent.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"


@dataclass(frozen=True)
class Agent:
    """The agent's sources by their names in the zipapp, whose own name begins its SHA-256."""

    sources: tuple[tuple[str, bytes], ...]

    @functools.cached_property
    def name(self) -> str:
        return f"collect_agent-{hashlib.sha256(self.content()).hexdigest()[:16]}.pyz"

    def content(self) -> bytes:
        """The zipapp. Nothing in it is compressed: the same sources give the same bytes with every zlib."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, source in self.sources:
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), source)
        return buffer.getvalue()

    def path(self, workdir: str) -> str:
        """Where it lies on a host, for every run of every version beside each other."""
        return f"{workdir}/agent/{self.name}"


@functools.cache
def build() -> Agent:
    """The agent of this installation."""
    package = Path(collect_agent.__file__).parent
    found = sorted((path.relative_to(package.parent).as_posix(), path) for path in package.rglob("*.py"))
    return Agent((("__main__.py", _MAIN.encode()), *((name, path.read_bytes()) for name, path in found)))


class Deployed:
    """The agent on a host, as its survey found it; what is missing goes along with the first command."""

    def __init__(self, remote: Remote, facts: Facts) -> None:
        self.remote, self.facts, self.agent = remote, facts, build()
        self.present = facts.agent_present
        """Whether it is there: what has answered, is."""

    def script(self, command: str, *arguments: str, before: str = "", after: str = "") -> str:
        """Shell lines that run a command of the agent; `before` come in front of it, `after` ends its own line."""
        path, workdir = self.agent.path(self.facts.workdir), self.facts.workdir
        # The agent needs the standard library alone: -I -S keep the host's site-packages out, and start faster.
        line = "exec " + shlex.join([self.facts.python, "-I", "-S", path, command, *arguments])
        upload = "" if self.present else upload_script(self.agent, workdir)
        return f"umask 027\n{upload}\n{before}\n{line}{after}"

    def stream(self, command: str, *arguments: str, after: str = "", going: bool = False) -> Stream:
        """Start a command of the agent. UnreachableError when no channel can be had.

        `going`: it is about a run that is there (see `containers.stream`).
        """
        script = self.script(command, *arguments, after=after)
        return containers.stream(self.remote, self.facts.container, script, going=going)

    def pour(self, command: str, *arguments: str, file: int) -> Pour | None:
        """The same with its output in `file`; None where the bytes have to be carried: by us, or into a container."""
        if self.facts.container is not None:
            return None
        return self.remote.pour(self.script(command, *arguments, after=" 2>/dev/null"), file)

    def start(self, script: str, plan: Mapping[str, Any], run: str) -> Stream:
        """Start `script`, which starts the run of `plan` in the directory `run`; in a container, with a keeper."""
        box, facts = self.facts.container, self.facts
        if box is None or not plan["leased"]:
            return containers.stream(self.remote, box, script)
        variables = {name: facts.environment[name] for name in NEEDED if name in facts.environment}
        inside = [facts.python, "-I", "-S", self.agent.path(facts.workdir), "bridge", run]
        outside = [
            "" if box.outside.agent_present else upload_script(self.agent, box.outside.workdir),
            containers.keeping(
                box, self.agent.path(box.outside.workdir), plan, box.command(*inside, variables=variables)
            ),
        ]
        return containers.stream(self.remote, box, script, outside="\n".join(outside))


def upload_script(agent: Agent, workdir: str) -> str:
    """Shell lines that put the agent in its place, whole or not at all."""
    path = shlex.quote(agent.path(workdir))
    text = base64.encodebytes(gzip.compress(agent.content(), mtime=0)).decode()
    return f"""
mkdir -p {shlex.quote(workdir + "/agent")} || return 1
base64 -d <<'AGENT' | gzip -d > {path}.$$ && mv {path}.$$ {path} || {{ rm -f {path}.$$; return 1; }}
{text}AGENT
"""
