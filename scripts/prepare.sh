# Sourced by the other scripts: everything they need, made once, in .venv. Sets $ROOT and $PY (the tool's Python).
#
#   prepare_tool          .venv: collect-remote itself, from this tree, with the tools of its tests
#   prepare_ascend        .venv/ascend: real torch and torch_npu for the simulated host; returns 1 and sets $WHY_NOT
#                         where a CPU build cannot be had without gigabytes
#   prepare_downstream        .venv/downstream: the downstream analysis; returns 1 where it cannot be had
#   prepare_ansible           .venv/ansible: ansible-core, which reads the same inventories; returns 1 where it cannot be had
#   prepare_ray               .venv/ray: Ray, in which the roles of verl run; returns 1 where it cannot be had
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
PY=$ROOT/.venv/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WHY_NOT=

say() { printf '%s\n' "$*" >&2; }

# make_venv DIR [PYTHON]: a virtual environment, whole or not at all
make_venv() {
    [ -x "$1/bin/python" ] && return
    local python=${2:-python3}
    if ! "$python" -c 'import ensurepip' 2>/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing python3-venv"
        apt-get update -q >/dev/null && apt-get install -y -q python3-venv >/dev/null
    fi
    "$python" -m venv "$1" || { rm -rf "$1"; say "error: $python cannot make a virtual environment: install python3-venv"; exit 1; }
}

# once STAMP FILE...: run the rest of the arguments after -- unless the files have not changed since it last went well
once() {
    local stamp=$1 sum
    shift
    local files=()
    while [ "$1" != -- ]; do files+=("$1"); shift; done
    shift
    sum=$(cat "${files[@]}" | cksum)
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$sum" ] && return
    "$@" || return
    printf '%s' "$sum" >"$stamp"
}

# quietly COMMAND...: its output only if it fails
quietly() {
    local log
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then rm -f "$log"; return; fi
    tail -n 20 "$log" >&2
    rm -f "$log"
    return 1
}

prepare_tool() {
    if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        say "error: Python 3.10 or newer is needed here, python3 is $(python3 --version 2>&1)"
        exit 1
    fi
    make_venv "$ROOT/.venv"
    once "$ROOT/.venv/.installed" "$ROOT/setup.cfg" "$ROOT/pyproject.toml" -- \
        quietly "$PY" -m pip install -e "$ROOT[dev]" || { say "error: cannot install what setup.cfg asks for"; exit 1; }
}

prepare_ascend() {
    local venv=$ROOT/.venv/ascend wanted=$ROOT/tests/simhost/ascend-requirements.txt
    command -v gcc >/dev/null || { WHY_NOT="there is no gcc for the simulated CANN"; return 1; }
    [ -x "$venv/bin/python" ] || { cpu_build_exists || return 1; make_venv "$venv"; }
    once "$venv/.installed" "$wanted" -- install_ascend "$venv/bin/python" "$wanted" || {
        WHY_NOT="torch and torch_npu could not be installed"
        return 1
    }
}

# Compiled on every core, which pip does on one. Here, because a run on the simulated host keeps what it compiles to itself.
install_ascend() {
    quietly "$1" -m pip install --no-compile -r "$2" || return
    "$1" -m compileall -q -j 0 "${1%/bin/python}/lib" >/dev/null 2>&1 || true  # some files are templates
}

# Ask pip what it would install: a CUDA build shows by the libraries it brings along, gigabytes of them.
cpu_build_exists() {
    local report
    report=$("$PY" -m pip install --dry-run --ignore-installed --quiet --report - \
        -r "$ROOT/tests/simhost/ascend-requirements.txt" 2>/dev/null) || {
        WHY_NOT="pip finds no torch and torch_npu for this Python"
        return 1
    }
    if printf '%s' "$report" | grep -q '"name": "nvidia-'; then
        WHY_NOT="pip would bring a CUDA build of torch, gigabytes that are not needed"
        return 1
    fi
}

prepare_downstream() {
    make_venv "$ROOT/.venv/downstream"
    once "$ROOT/.venv/downstream/.installed" "$ROOT/tests/conformance/downstream-requirements.txt" -- \
        quietly "$ROOT/.venv/downstream/bin/python" -m pip install --no-compile -r "$ROOT/tests/conformance/downstream-requirements.txt"
}

prepare_ansible() {
    make_venv "$ROOT/.venv/ansible"
    once "$ROOT/.venv/ansible/.installed" "$ROOT/tests/conformance/ansible-requirements.txt" -- \
        quietly "$ROOT/.venv/ansible/bin/python" -m pip install --no-compile -r "$ROOT/tests/conformance/ansible-requirements.txt"
}

prepare_ray() {
    make_venv "$ROOT/.venv/ray"
    once "$ROOT/.venv/ray/.installed" "$ROOT/tests/miniatures/ray-requirements.txt" -- \
        quietly "$ROOT/.venv/ray/bin/python" -m pip install -r "$ROOT/tests/miniatures/ray-requirements.txt"
}

# .venv/bench: the tool as users install it, and what it is compared with
prepare_bench() {
    prepare_tool
    make_venv "$ROOT/.venv/bench"
    once "$ROOT/.venv/bench/.peers" "$ROOT/setup.cfg" -- \
        quietly "$ROOT/.venv/bench/bin/python" -m pip install "$ROOT[fleet]" 'fabric >=3.2,<4'
    quietly "$ROOT/.venv/bench/bin/python" -m pip install --force-reinstall --no-deps "$ROOT"
}

# .venv/fleet-peers: what else asks many hosts at once
prepare_fleet_peers() {
    local wanted=$ROOT/scripts/benches/peers/requirements.txt
    make_venv "$ROOT/.venv/fleet-peers"
    once "$ROOT/.venv/fleet-peers/.installed" "$wanted" -- quietly "$ROOT/.venv/fleet-peers/bin/python" -m pip install -r "$wanted"
}
