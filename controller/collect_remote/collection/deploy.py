"""The agent on a host: uploaded once, and again when it is damaged."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from .. import containers
from ..agent_file import build, upload_script
from ..ssh.pour import Pour
from ..ssh.remote import Remote
from ..ssh.stream import Stream
from ..survey.survey import Facts

NEEDED = ("PATH", "LD_LIBRARY_PATH")  # by a Python that is started without a shell


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
