"""The survey's shell script: load the environment that the user's terminal has, then run the survey's program in it.

In this order: what the inventory says (`setup`), or CANN's newest set_env.sh of the usual places and nnal's; the
driver's library paths; `env` and `python` of the inventory. Everything is told in lines with our mark.
"""

from __future__ import annotations

import shlex

from collect_agent.events import MARK

from ..inventory import Host
from . import probe
from .environment import PLAIN_SHELL, quoted
from .onhost.reader import INPUT

DEFAULT_WORKDIR = "~/collect_remote"
# Of root, of the user, and of images.
BASES = ("/usr/local/Ascend", "$HOME/Ascend", "/opt/Ascend", "/home/HwHiAiUser/Ascend")
# To look at the host with, where no python3 is on PATH; the first that there is.
INTERPRETERS = (
    "python3",
    "$HOME/miniconda3/bin/python3",
    "$HOME/miniforge3/bin/python3",
    "$HOME/anaconda3/bin/python3",
    "/opt/conda/bin/python3",
)
HANGS_S = 60  # a script that is sourced
# Lists of folders of which nothing may get lost: CANN and the user both need theirs.
LISTS = ("LD_LIBRARY_PATH", "PYTHONPATH")

# The names are led by cr_: what is sourced has names of its own.
FUNCTIONS = r"""
cr_tell() { printf '\n%s%s\n' "$cr_mark" "$*"; }
cr_append() { # NAME FOLDERS: those of them that the list NAME does not have yet, behind the others
    local IFS=: folder
    set -f
    for folder in $2; do
        [ -z "$folder" ] || case ":${!1}:" in *":$folder:"*) ;; *) export "$1=${!1:+${!1}:}$folder" ;; esac
    done
    set +f
}
cr_use() { # SCRIPT: source it as the user's shell would
    local cr_libraries=$LD_LIBRARY_PATH cr_modules=$PYTHONPATH cr_guard
    cr_tell use "$1"
    cr_guard "$1" <&0 &
    cr_guard=$!
    disown
    . "$1" </dev/null >/dev/null 2>&1
    set +eufvxC
    kill "$cr_guard"
    cr_tell used "$1"
    cr_append LD_LIBRARY_PATH "$cr_libraries"
    cr_append PYTHONPATH "$cr_modules"
}
cr_guard() { # SCRIPT [SECONDS]: when it does not end, or nobody listens any more (our input ends), end it and its own
    local guard=$BASHPID
    read -r -t "${2:-HANGS_S}" _
    [ $? -le 128 ] || cr_tell hangs "$1"
    kill -KILL $$ $(cr_descendants $$) # the shell first: it must not go on when what it waits for has ended
}
cr_descendants() { # PID: its processes, but not the guard and what that runs
    local pid
    for pid in $(<"/proc/$1/task/$1/children"); do
        [ "$pid" = "$guard" ] || { echo "$pid"; cr_descendants "$pid"; }
    done
}
cr_driver() { # its libraries, which no set_env.sh of CANN adds
    local place=/usr/local/Ascend name value folder
    cr_libraries_of_driver=
    if [ -r /etc/ascend_install.info ]; then
        while IFS='=' read -r name value; do
            [ "$name" != Driver_Install_Path_Param ] || place=$value
        done </etc/ascend_install.info
    fi
    for folder in "$place"/driver/lib64{,/common,/driver}; do
        [ ! -d "$folder" ] || { cr_append LD_LIBRARY_PATH "$folder"; cr_libraries_of_driver+=$folder:; }
    done
}
""".replace("HANGS_S", str(HANGS_S))
CANN_FUNCTIONS = r"""
cr_rank() { # VERSION of CANN -> REPLY, which grows with it as text: 8.0.RC3.alpha001 < 8.0.RC3 < 8.0.0 < 8.1.RC1
    local text=${1,,} number= index
    [[ $text =~ ^([0-9]+)(\.([0-9]+))?(\.([0-9]+))?(\.([0-9]+))?(.*)$ ]] || { REPLY=; return; }
    text=${BASH_REMATCH[8]}
    for index in 1 3 5 7; do # what is not there is older than a 0
        printf -v number '%s%06d' "$number" "$((${BASH_REMATCH[index]:+1+}10#${BASH_REMATCH[index]:-0}))"
    done
    while [[ $text =~ ^[.-]?(alpha|beta|rc)[.-]?([0-9]*)(.*)$ ]]; do
        text=${BASH_REMATCH[3]}
        case ${BASH_REMATCH[1]} in alpha) number+=1 ;; beta) number+=2 ;; rc) number+=3 ;; esac
        printf -v number '%s%06d' "$number" "$((10#${BASH_REMATCH[2]:-0}))"
    done
    REPLY=${number}9
}
cr_consider() { # TOOLKIT SCRIPT: the version of a toolkit is the name of its real directory
    local version
    [ -r "$2" ] || return
    version=$(cd -P -- "$1" 2>/dev/null && echo "${PWD##*/}")
    version=${version#cann-}
    cr_tell cann "$version $2"
    cr_rank "$version"
    if [ -z "$newest" ] || [[ $REPLY > $best ]]; then newest=$2 best=$REPLY; fi
}
cr_toolkit() { # the newest, unless the session has one already
    local base folder newest= best=
    [ -n "$ASCEND_TOOLKIT_HOME" ] && command -v msprof >/dev/null 2>&1 && return
    for base in BASES; do
        cr_consider "$base/ascend-toolkit/latest" "$base/ascend-toolkit/set_env.sh"
        cr_consider "$base/cann" "$base/cann/set_env.sh"
        for folder in "$base"/cann-[0-9]* "$base"/ascend-toolkit/[0-9]*; do
            if [ -r "$folder/set_env.sh" ]; then cr_consider "$folder" "$folder/set_env.sh"
            else cr_consider "$folder" "$folder/bin/setenv.bash"; fi
        done
    done
    [ -z "$newest" ] || cr_use "$newest"
}
cr_acceleration() { # CANN's nnal
    local base
    for base in BASES; do
        if [ -r "$base/nnal/atb/set_env.sh" ]; then cr_use "$base/nnal/atb/set_env.sh"; return; fi
    done
}
""".replace("BASES", " ".join(f'"{base}"' for base in BASES))


def script(host: Host, agent: str, look: str = "") -> str:
    """`agent`: the file name of the agent that may be there already. `look`: at which project, see `onhost.project`."""
    workdir = shlex.quote(host.workdir or DEFAULT_WORKDIR)
    named = home_quoted(host.python) if host.python else "''"
    models = " ".join(shlex.quote(path) for path in model_paths(host))
    return f"""
{FUNCTIONS}
{CANN_FUNCTIONS}
{loaded(host, "cr_toolkit; cr_acceleration")}
cr_probe() {{ # PYTHON REASON
    "$1" - "$cr_mark" {workdir} {shlex.quote(agent)} {named} "$2" {shlex.quote(look)} {models} <<'PROBE'
{probe.survey(project=bool(look))}
PROBE
}}
{_run(host)}
"""


def loaded(host: Host, cann: str = "") -> str:
    """By these functions, the environment of a run; `cann`: what loads CANN where the inventory has no `setup`."""
    return f"""
{PLAIN_SHELL}
exec {INPUT}<&0
cr_mark={shlex.quote(MARK)}
{_setup(host, cann)}
cr_driver
{_exports(host)}
"""


def model_paths(host: Host) -> list[str]:
    """The paths on the host that its models are read from."""
    paths = (model.options.get("path") for model in host.models.values())
    return sorted({path for path in paths if isinstance(path, str)})


def home_quoted(path: str) -> str:
    """A path of the inventory as a shell word; a leading ~/ is the home directory on the host."""
    return '"$HOME"/' + shlex.quote(path[2:]) if path.startswith("~/") else shlex.quote(path)


def _setup(host: Host, cann: str) -> str:
    if not host.setup:
        return cann
    return "\n".join(
        f"if [ -r {file} ]; then cr_use {file}; else cr_tell no-setup {file}; return; fi"
        for file in map(home_quoted, host.setup)
    )


def _exports(host: Host) -> str:
    """The inventory's `env`, which has the last word; lists are added to."""
    return "\n".join(
        f"cr_append {name} {quoted(value)}" if name in LISTS else f"export {name}={quoted(value)}"
        for name, value in host.env.items()
    )


def _run(host: Host) -> str:
    """Run the program with the first Python on which it runs.

    Where that names a better one, it runs again with that, which comes first on PATH then.
    """
    programs = home_quoted(host.python) if host.python else " ".join(f'"{place}"' for place in INTERPRETERS)
    return f"""
first=
for python in {programs}; do
    command -v "$python" >/dev/null 2>&1 || continue
    first=${{first:-$python}}
    {{ better=$(cr_probe "$python" "" 3>&1 >&4); status=$?; }} 4>&1
    if [ $status = 0 ] && [ -n "$better" ]; then
        python=${{better%%$'\\t'*}}
        export PATH="${{python%/*}}:$PATH"
        cr_probe "$python" "${{better#*$'\\t'}}"
        status=$?
    fi
    [ $status != 0 ] || return
done
[ -n "$first" ] || {{ cr_tell no-python {home_quoted(host.python or "python3")}; return; }}
cr_tell no-facts "$("$first" --version 2>&1 | head -n 1)"
"""
