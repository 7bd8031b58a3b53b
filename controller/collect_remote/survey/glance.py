"""The devices of a host and nothing else, by bash and npu-smi alone: half of what the survey costs the host.

It sees what `collect_agent.npu.look` sees, as long as npu-smi shows its table; whatever else there is to be said is
left to the survey, which is asked then. CANN is not loaded: npu-smi is the driver's, and so are its libraries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from collect_agent.events import MARK
from collect_agent.npu.look import CONTAINER_MARKS, USUAL_FOLDERS

from ..inventory import Host
from ..shape import misfit, printable
from ..ssh.remote import Remote
from .environment import PLAIN_SHELL
from .script import FUNCTIONS, loaded
from .shape import NPU

PATIENCE_S = 90.0
LONGEST_S = 15  # a host on which all of it takes longer is surveyed, with more patience

# Texts are led by a line that says which, and followed by one of ours.
_FUNCTIONS = r"""
cr_tell() { :; } # what is wrong as well is for the survey to tell
cr_guarded() { # FUNCTION: ended, with all that it has started, when nobody listens any more or it takes too long
    local cr_watching
    cr_guard "$1" LONGEST_S <&0 &
    cr_watching=$!
    disown
    "$1"
    kill "$cr_watching"
}
cr_use() { # SCRIPT: as in the survey, with one guard for all
    local cr_libraries=$LD_LIBRARY_PATH cr_modules=$PYTHONPATH
    . "$1" </dev/null >/dev/null 2>&1
    set +eufvxC
    cr_append LD_LIBRARY_PATH "$cr_libraries"
    cr_append PYTHONPATH "$cr_modules"
}
cr_npu_smi() { # its path -> REPLY
    local IFS=: folder
    set -f
    for folder in $PATH USUAL_FOLDERS; do
        REPLY=${folder:+$folder/npu-smi}
        [ ! -f "$REPLY" ] || [ ! -x "$REPLY" ] || { set +f; return 0; }
    done
    set +f
    return 1
}
cr_in_container() { # ROOT: whether its runtime numbers the devices anew
    local mark point rest line
    for mark in CONTAINER_MARKS; do [ ! -e "$1/$mark" ] || return 0; done
    while read -r line; do
        [[ ! $line =~ docker|kubepods|containerd|lxc ]] || return 0
    done <"$1/proc/1/cgroup"
    while IFS= read -r -d '' line; do
        [[ $line != container=?* ]] || return 0
    done <"$1/proc/1/environ"
    while read -r _ _ _ _ point rest; do
        [[ $point != / || ! $rest =~ ' - overlay '.*(docker|kubepods|containerd|/containers/|lxc) ]] || return 0
    done <"$1/proc/self/mountinfo"
    return 1
} 2>/dev/null
cr_owners() { # TABLE: pid, user and kernel's name of every process in it that there is here
    local IFS=$'\n' lines line index number processes=() user name
    set -f
    lines=($1) # reading them would be a call of the system for every byte
    IFS=$' \t\n'
    for ((index = ${#lines[@]} - 1; index >= 0; index--)); do # they are the last of it
        line=${lines[index]}
        case $line in *"Process id"*) break ;; *"No running"*) continue ;; esac
        for number in ${line//|/ }; do # some are pids
            [[ ! $number =~ ^[0-9]{1,9}$ ]] || [ ! -r "/proc/$number/comm" ] || processes+=("/proc/$number")
        done
    done
    set +f
    [ ${#processes[@]} != 0 ] || return
    while read -r user line; do
        read -r name <"$line/comm" && [ "$user" != UNKNOWN ] && cr_say owner "${line##*/} $user $name"
    done < <(stat -c '%U %n' "${processes[@]}")
} 2>/dev/null
cr_look() { # NPU-SMI
    local table mapping
    export LC_ALL=C LD_LIBRARY_PATH=$cr_libraries_of_driver$LD_LIBRARY_PATH
    exec 3< <(exec "$1" info -m </dev/null 2>&1)
    table=$(exec "$1" info </dev/null 2>&1) || return
    cr_say info "" "$table"
    mapping=$(</dev/fd/3)
    cr_say mapping "" "$mapping"
    cr_owners "$table"
    cr_say seen
    printf %s "$cr_said"
}
cr_say() { # WORD [DETAIL [TEXT]]: for the end; every packet by itself would cost more than what is in it
    cr_said+=$'\n'"$cr_mark$1 $2"$'\n'"$3"
}
cr_glance() {
    local cr_said=
    cr_npu_smi || return
    cr_say npu-smi "$REPLY"
    [ -z "${ASCEND_RT_VISIBLE_DEVICES+set}" ] || cr_say visible "$ASCEND_RT_VISIBLE_DEVICES"
    ! cr_in_container "" || cr_say container
    cr_look "$REPLY"
}
"""


@dataclass(frozen=True, slots=True)
class Glimpse:
    """What `Facts` says of the devices, in the same words."""

    npu: Mapping[str, Any]
    visible_devices: str | None
    box_document: None = None


def glance(remote: Remote, host: Host) -> Glimpse | None:
    """Ask the host; None where it takes a survey to say what there is, or what is wrong."""
    if host.container:
        return None
    with remote.stream(script(host)) as stream:
        return understood(line.decode("utf-8", "replace") for line in stream.lines(PATIENCE_S))


def script(host: Host) -> str:
    return f"{PLAIN_SHELL}\n{FUNCTIONS}\n{functions()}\ncr_ask() {{\n{loaded(host)}\ncr_glance\n}}\ncr_guarded cr_ask"


def functions() -> str:
    lists = {"USUAL_FOLDERS": " ".join(USUAL_FOLDERS), "CONTAINER_MARKS": " ".join(CONTAINER_MARKS)}
    text = _FUNCTIONS
    for name, value in {**lists, "LONGEST_S": str(LONGEST_S)}.items():
        text = text.replace(name, value)
    return text


def understood(lines: Iterable[str]) -> Glimpse | None:
    """The glimpse in what the script prints; None when it did not come to its end, or there is no table. Pure."""
    said: dict[str, str] = {}
    owners: dict[str, list[str]] = {}
    texts: dict[str, list[str]] = {}
    for word, detail, text in _parts(lines):
        if word == "seen":
            break
        if word == "owner":
            pid, user, name = (*detail.split(" ", 2), "", "")[:3]
            owners[pid] = [user, name]
        said[word] = printable(detail)
        texts[word] = text
    else:
        return None
    info = texts.get("info", [])
    if not any("Bus-Id" in line for line in info):
        return None
    npu = {
        "npu_smi": said.get("npu-smi"),
        "in_container": "container" in said,
        "info": [0, "\n".join(info)],
        "mapping": [0, "\n".join(texts.get("mapping", []))],
        "owners": owners,
    }
    return None if misfit(npu, NPU) is not None else Glimpse(npu, said.get("visible"))


def _parts(lines: Iterable[str]) -> Iterator[tuple[str, str, list[str]]]:
    """(word, what stands behind it, the lines up to the next) of every line of ours, `seen` being the last."""
    word, detail, text = "", "", list[str]()
    for line in lines:
        before, mark, answer = line.partition(MARK)
        if not mark:
            text.append(printable(before))
            continue
        yield word, detail, text
        (word, _, detail), text = answer.partition(" "), []
        if word == "seen":
            break
    yield word, detail, text
