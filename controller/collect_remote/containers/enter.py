"""Scripts into a container: through the login to a bash of the host, and by its engine to one inside.

The script for the inside follows that for the host on the same input, and gets to its bash as the first one did: whole
or not at all (see `shell`). There is never a terminal: engines refuse one, or mangle what passes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..inventory import Host
from ..ssh import shell
from ..survey.environment import PLAIN_SHELL
from . import find, says
from .box import Box

if TYPE_CHECKING:
    from ..ssh.remote import Remote
    from ..ssh.stream import Stream

KEPT = (
    *("run_id", "wish", "groups", "refused", "visible_devices", "container"),
    *("wait_s", "deadline_s"),
)  # of a plan, that choosing needs


def ask(stream: Stream, host: Host, agent: str) -> None:
    """Have the bash of `stream` survey the host for its container; it hands on to a bash in that one."""
    stream.hand_over(find.script(host, agent))


def stream(remote: Remote, box: Box | None, script: str, *, going: bool = False, outside: str = "") -> Stream:
    """Start `script` inside, or on the host when there is no container. UnreachableError when no channel can be had.

    going     a run is there that the script is about: a container that has ended took it along
    outside   what the host does first
    """
    if box is None:
        return remote.stream(script)
    entering = shlex.join(box.command("sh", "-c", shell.COMMAND))
    # Not by exec: what is open for others here is closed when the program inside has ended.
    last = f"{entering} {KEEPER}>&-" if outside else f"exec {entering}"
    stream = remote.stream(f"{PLAIN_SHELL}\n{outside}\n{last}")
    stream.expect(lambda said, status: says.not_entered(box.name, box.runtime, said, status, going=going))
    stream.hand_over(script)
    return stream


KEEPER = 7  # the descriptor on which a keeper sees that the start of its run is over


def keeping(box: Box, agent: str, plan: Mapping[str, Any], bridge: list[str]) -> str:
    """Shell lines for the host: start the keeper of a run's devices (`collect_agent.boxes.keeper`).

    agent    its path on the host
    bridge   what carries between keeper and run, inside
    """
    running = [box.engine, "inspect", "--type", "container", "--format", "{{.State.Running}}", box.id]
    document = {**{key: plan[key] for key in KEPT}, "bridge": bridge, "state": running}
    keeper = shlex.join([box.outside.python, "-I", "-S", agent, "keep"])
    return f"exec {KEEPER}> >(exec {keeper})\ncat >&{KEEPER} <<'KEEP'\n{json.dumps(document)}\nKEEP"
