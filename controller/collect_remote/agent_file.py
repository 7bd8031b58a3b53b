"""The agent as one file: a zipapp whose name holds its digest, and how it gets to its place on a host."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import io
import shlex
import zipfile
from dataclasses import dataclass
from pathlib import Path

import collect_agent

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


def upload_script(agent: Agent, workdir: str) -> str:
    """Shell lines that put the agent in its place, whole or not at all."""
    path = shlex.quote(agent.path(workdir))
    text = base64.encodebytes(gzip.compress(agent.content(), mtime=0)).decode()
    return f"""
mkdir -p {shlex.quote(workdir + "/agent")} || return 1
base64 -d <<'AGENT' | gzip -d > {path}.$$ && mv {path}.$$ {path} || {{ rm -f {path}.$$; return 1; }}
{text}AGENT
"""
