"""Login scripts, Python, torch, torch_npu, CANN, driver, msprof."""

from __future__ import annotations

from collections.abc import Iterator

from .. import compatibility
from ..compatibility import Fit
from ..errors import EnvironmentUnfit
from ..survey import Facts
from .check import Check, failed, ok, warned

FIRST_BYTES = 80


def noise(facts: Facts) -> Check:
    if not facts.greeting:
        return ok("login-noise", "the login scripts print nothing")
    said = " ".join(facts.greeting)[:FIRST_BYTES]
    return warned(
        "login-noise",
        f"the login scripts print text into sessions without a terminal: {said!r}",
        "this tool takes no harm, scp and others do: print only if [[ $- == *i* ]], e.g. in ~/.bashrc",
    )


def python(facts: Facts) -> Check:
    """That it is new enough is a matter of the survey itself, which does not run on an old one."""
    version = ".".join(map(str, facts.python_version))
    return ok("python", f"{facts.python} is Python {version} ({facts.python_why})")


def torch_npu(facts: Facts) -> Check:
    missing = [name for name in ("torch", "torch_npu") if facts.versions[name] is None]
    if not missing:
        return ok("torch-npu", f"torch {facts.versions['torch']}, torch_npu {facts.versions['torch_npu']}")
    found = f"these have it: {', '.join(facts.others)}; " if facts.others else ""
    return failed(
        "torch-npu",
        EnvironmentUnfit(
            f"{facts.python} has no {' and '.join(missing)}",
            f"{found}name the Python that has it: `python: /path/to/venv/bin/python` in the inventory",
        ),
    )


def versions(facts: Facts) -> Iterator[Check]:
    """Whether what is installed fits together; what no table lists is no failure."""
    torch, npu = facts.versions["torch"], facts.versions["torch_npu"]
    if torch is None or npu is None:
        return
    yield _fit("torch-version", compatibility.torch_pair(torch, npu), "install the torch_npu of this torch")
    yield _fit("python-version", compatibility.python_pair(facts.python_version, torch), "use a Python of that range")
    yield _fit("cann-version", compatibility.cann_pair(npu, facts.cann_version), "install the CANN of this torch_npu")
    driver = compatibility.driver_pair(facts.cann_version, facts.driver_version)
    yield _fit("driver-version", driver, "update the driver, or use an older CANN")


def _fit(name: str, fit: Fit, remedy: str) -> Check:
    if fit.fits is not False:
        return ok(name, fit.text)
    return failed(name, EnvironmentUnfit(fit.text, remedy)) if fit.must else warned(name, fit.text, remedy)


def cann(facts: Facts) -> Check:
    if facts.cann is None:
        return warned("cann", f"CANN is not loaded: {_sourced(facts)}", _NAME_SETUP)
    scripts = f"by {', '.join(facts.setup)}" if facts.setup else "by the session itself"
    found = list(dict.fromkeys(version for version, _ in facts.canns))
    newest = f", the newest of {', '.join(found)}" if len(found) > 1 else ""
    return ok("cann", f"CANN {facts.cann_version or 'of no known version'} in {facts.cann}, {scripts}{newest}")


def msprof(facts: Facts) -> Check:
    if facts.msprof is None:
        return failed(
            "msprof",
            EnvironmentUnfit(
                f"msprof is not on PATH after sourcing CANN's environment ({_sourced(facts)}); PATH is {facts.path}",
                f"torch_npu parses with msprof: {_NAME_SETUP}",
            ),
        )
    if facts.msprof_py is None:
        return failed(
            "msprof",
            EnvironmentUnfit(
                f"{facts.msprof} has no msprof.py where torch_npu looks for it, in tools/profiler/profiler_tool",
                "install the whole toolkit (Ascend-cann-toolkit), or name the set_env.sh of one under `setup`",
            ),
        )
    return ok("msprof", f"{facts.msprof} with {facts.msprof_py}")


_NAME_SETUP = "name the toolkit's set_env.sh under `setup` in the inventory"
_LOOKED_IN = "/usr/local/Ascend, ~/Ascend, /opt/Ascend and /home/HwHiAiUser/Ascend"


def _sourced(facts: Facts) -> str:
    return ", ".join(facts.setup) or f"no set_env.sh was found in {_LOOKED_IN}"
