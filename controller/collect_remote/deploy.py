"""The agent as one file: a zipapp whose name holds its digest, so that it is uploaded once and never twice."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import shlex
import zipfile
from dataclasses import dataclass
from importlib import resources
from typing import Any

_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAIN = "import sys\nfrom collect_agent.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    content: bytes

    def path(self, workdir: str) -> str:
        """Where it lies on a host, for every run of every version beside each other."""
        return f"{workdir}/agent/{self.name}"


@functools.cache
def build() -> Agent:
    """The agent of this installation; the same sources give the same bytes everywhere."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), _MAIN)
        for name, source in sorted(_sources(resources.files("collect_agent"), "collect_agent")):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), source, zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    return Agent(f"collect_agent-{hashlib.sha256(content).hexdigest()[:16]}.pyz", content)


def upload_script(agent: Agent, workdir: str) -> str:
    """Shell lines that put the agent in its place, whole or not at all."""
    path = shlex.quote(agent.path(workdir))
    text = base64.encodebytes(agent.content).decode()
    return f"""
mkdir -p {shlex.quote(workdir + "/agent")} || return 1
base64 -d > {path}.$$ <<'AGENT' && mv {path}.$$ {path} || {{ rm -f {path}.$$; return 1; }}
{text}AGENT
"""


def _sources(directory: Any, prefix: str) -> list[tuple[str, bytes]]:
    found = []
    for entry in directory.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            found += _sources(entry, f"{prefix}/{entry.name}")
        elif entry.name.endswith(".py"):
            found.append((f"{prefix}/{entry.name}", entry.read_bytes()))
    return found
