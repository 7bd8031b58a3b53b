"""Miniatures of the frameworks (tests/miniatures) on a simulated host: a directory of the user's, as they have it."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import yaml

from collect_remote.inventory import ModelSpec
from collect_remote.routes.choose import wanted
from collect_remote.survey.onhost import facts, project
from collect_remote.survey.project import ProjectFacts, seen
from simhost import SimHost

MINIATURES = Path(__file__).resolve().parent / "miniatures"
CANN = "Ascend/ascend-toolkit"  # below the home


def checkout(host: SimHost, name: str) -> Path:
    """A copy of the miniature `name` in the home of `host`."""
    target = host.home / name
    shutil.copytree(MINIATURES / name, target, ignore=shutil.ignore_patterns("__pycache__", ".ruff_cache"))
    return target


def pyyaml(parent: Path) -> dict[str, str]:
    """Variables with which a bare Python has PyYAML, which lies in `parent`; the host's `env`."""
    site = parent / "site"
    site.mkdir(exist_ok=True)
    (site / "yaml").symlink_to(Path(yaml.__file__).parent)
    return {"PYTHONPATH": str(site)}


def digests(directory: Path) -> dict[str, str]:
    """{path below `directory`: SHA-256} of its files."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def on(host: SimHost, command: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run `command` in a session of `host`, with CANN's environment, past the network."""
    return subprocess.run(
        [host.session],
        env={"SSH_ORIGINAL_COMMAND": f". {CANN}/set_env.sh; {command}"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def looked_at(model: ModelSpec, installed: dict[str, str] | None = None) -> ProjectFacts:
    """What the survey sees of the project of `model`, which is on this machine. `installed`: versions of packages."""
    names = vars(project)  # on a host they are in the same text
    names["which"], names["version"] = facts.which, (installed or {}).get
    return seen(project.project(json.loads(wanted(model))))
