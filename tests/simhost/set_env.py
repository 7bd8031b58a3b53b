"""The scripts of CANN, its acceleration library and the driver that set up a shell, and what can be wrong with them."""

from __future__ import annotations

from collections.abc import Collection

TOOLKIT = """\
export ASCEND_TOOLKIT_HOME={home}
export LD_LIBRARY_PATH=${{ASCEND_TOOLKIT_HOME}}/lib64/plugin/opskernel:$LD_LIBRARY_PATH
export LD_LIBRARY_PATH=${{ASCEND_TOOLKIT_HOME}}/lib64:$LD_LIBRARY_PATH
export PYTHONPATH=${{ASCEND_TOOLKIT_HOME}}/python/site-packages:$PYTHONPATH
export PATH=${{ASCEND_TOOLKIT_HOME}}/bin:${{ASCEND_TOOLKIT_HOME}}/compiler/ccec_compiler/bin:$PATH
export ASCEND_AICPU_PATH=${{ASCEND_TOOLKIT_HOME}}
export ASCEND_OPP_PATH=${{ASCEND_TOOLKIT_HOME}}/opp
export TOOLCHAIN_HOME=${{ASCEND_TOOLKIT_HOME}}/toolkit
export ASCEND_HOME_PATH=${{ASCEND_TOOLKIT_HOME}}
"""

ATB = """\
export ATB_HOME_PATH={home}
export LD_LIBRARY_PATH=${{ATB_HOME_PATH}}/lib:$LD_LIBRARY_PATH
"""

DRIVER = """\
export LD_LIBRARY_PATH={lib64}:{lib64}/common:{lib64}/driver:$LD_LIBRARY_PATH
"""

# In front of the script, or behind it.
_BEFORE = {
    "unset": 'if [ -n "$ASCEND_SIMULATED_SITE" ]; then ASCEND_SIMULATED_SITE=; fi\n',
    "errexit": "ls /usr/local/Ascend/latest/none >/dev/null 2>&1\n",
    "prints": "printf 'CANN %s\\n' {version}\nprintf 'CANN is loaded, use it well\\n' >&2\n",
    "reads": "read -r ASCEND_SIMULATED_ANSWER\n",
}
_AFTER = {"returns": "return 1\n", "exits": "exit 1\n", "hangs": "while :; do sleep 3600; done\n"}
FAULTS = frozenset({*_BEFORE, *_AFTER, "overwrites", "no-path"})


def script(text: str, version: str, faults: Collection[str]) -> str:
    """The set-up script `text` with `faults` (see ``Knobs.set_env_faults``).  Raises ValueError for an unknown one."""
    if unknown := set(faults) - FAULTS:
        raise ValueError(f"set_env_faults: no such fault: {', '.join(sorted(unknown))}")
    lines = text.splitlines(keepends=True)
    if "no-path" in faults:
        lines = [line for line in lines if not line.startswith("export PATH=")]
    if "overwrites" in faults:
        kept = (line.replace(":$LD_LIBRARY_PATH", "").replace(":$PYTHONPATH", "") for line in lines)
        lines = [line for line in kept if "plugin/opskernel" not in line]
    before = [_BEFORE[name].format(version=version) for name in _BEFORE if name in faults]
    after = [_AFTER[name] for name in _AFTER if name in faults]
    return "".join(before + lines + after)
