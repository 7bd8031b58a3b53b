"""Finding a container on its host, and surveying both in one go: the survey of the inside, the devices of the host."""

from __future__ import annotations

import shlex

from collect_agent.events import MARK

from ..inventory import Host
from ..inventory.values import RUNTIMES
from ..ssh import shell
from ..survey import probe
from ..survey.environment import PLAIN_SHELL
from ..survey.script import DEFAULT_WORKDIR, INTERPRETERS

LABEL = "label:"

_FIND = r"""
tell() { printf '\n%s%s\n' "$mark" "$*"; }
names() { "$engine" ps -a --format '{{.Names}}' "$@" 2>/dev/null | tr '\n' ' '; }
find_engine() {
    local name
    for name in $runtimes; do
        if engine=$(command -v "$name"); then tell engine "$engine"; return; fi
    done
    tell no-engine
    return 1
}
find_container() { # those that run come first: others with the label may be left from earlier
    local ids
    if [ -n "$label" ]; then
        ids=$("$engine" ps -q --no-trunc --filter "label=$label") || { tell no-container "$(names)"; return 1; }
        [ -n "$ids" ] || ids=$("$engine" ps -a -q --no-trunc --filter "label=$label")
        set -- $ids
        case $# in
            0) tell no-container "$(names)"; return 1 ;;
            1) wanted=$1 ;;
            *) tell several-containers "$(names --filter "label=$label")"; return 1 ;;
        esac
    fi
    inspected=$("$engine" inspect --type container --format '{{json .}}' "$wanted") ||
        { tell no-container "$(names)"; return 1; }
    tell box "$inspected"
}
find_python() { # of the host: one that can run the agent, else any
    local name
    for name in PYTHONS; do
        command -v "$name" >/dev/null 2>&1 || continue
        python=${python:-$name}
        "$name" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null && { python=$name; return; }
    done
    [ -n "$python" ] || { tell no-outside; return 1; }
}
""".replace("PYTHONS", " ".join(f'"{place}"' for place in INTERPRETERS))


def runtimes(host: Host) -> tuple[str, ...]:
    """The engines that are looked for on the host, in this order."""
    return (host.container_runtime,) if host.container_runtime else RUNTIMES


def script(host: Host, agent: str) -> str:
    """For the host: find the container, look at the host's devices, and meanwhile run a script inside.

    The input of this script is that of `shell.COMMAND` inside. `agent`: the file name of the agent that may be there
    already. Our directory on the host is that of a host without containers, because `workdir` is a path inside.
    """
    wanted = host.container or ""
    label = wanted.removeprefix(LABEL) if wanted.startswith(LABEL) else ""
    user = f"-u {shlex.quote(host.container_user)}" if host.container_user else ""
    return f"""
{PLAIN_SHELL}
mark={shlex.quote(MARK)} runtimes={shlex.quote(" ".join(runtimes(host)))} python=
label={shlex.quote(label)} wanted={shlex.quote(wanted)}
{_FIND}
outside() {{
    BOX=$inspected "$python" - "$mark" {shlex.quote(DEFAULT_WORKDIR)} {shlex.quote(agent)} <<'OUTSIDE' ||
{probe.outside()}
OUTSIDE
        tell unfit-outside "$("$python" --version 2>&1 | head -n 1)"
}}
find_engine && find_container && find_python || return
exec 5>&1
exec 4< <(outside)
"$engine" exec -i {user} "$wanted" sh -c {shlex.quote(shell.COMMAND)} 4<&- 5>&-
tell left "$?"
cat <&4
"""
