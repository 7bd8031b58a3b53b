"""Login scripts, Python, torch, torch_npu, CANN, driver, msprof."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import EnvironmentUnfit
from ..survey.survey import Facts
from . import compatibility
from .check import Check, Subject, failed, ok, warned
from .compatibility import Fit

FIRST_BYTES = 80
_NAME_SETUP = "name the toolkit's set_env.sh under `setup` in the inventory"
_LOOKED_IN = "/usr/local/Ascend, ~/Ascend, /opt/Ascend and /home/HwHiAiUser/Ascend"

NOISE = Subject(
    "login-noise",
    "what the login scripts print into sessions without a terminal",
    "this tool takes no harm, scp and others do: print only if [[ $- == *i* ]], e.g. in ~/.bashrc",
    "the login scripts print text into sessions without a terminal: {said!r}",
)
PYTHON = Subject("python", "which Python, its version, and why it was taken", "`python` in the inventory")
TORCH_NPU = Subject(
    "torch-npu",
    "torch and torch_npu are installed in it; if not, others that have both are named",
    "name the Python that has it: `python: /path/to/venv/bin/python` in the inventory",
    "{python} has no {names}",
)
TORCH_VERSION = Subject(
    "torch-version",
    "torch is the one that torch_npu was built for. Another X.Y is a failure, another Z a warning",
    "install the torch_npu of this torch",
)
PYTHON_VERSION = Subject(
    "python-version", "this Python is one that torch_npu is built for", "use a Python of that range"
)
CANN_VERSION = Subject(
    "cann-version", "CANN is one that this torch_npu works with", "install the CANN of this torch_npu"
)
DRIVER_VERSION = Subject(
    "driver-version", "the driver is one that this CANN works with", "update the driver, or use an older CANN"
)
CANN = Subject(
    "cann", "CANN is loaded; which, from where, and the newest of which", _NAME_SETUP, "CANN is not loaded: {why}"
)
MSPROF = Subject(
    "msprof",
    "msprof is on PATH, with its msprof.py where torch_npu looks for it: it parses with them",
    f"torch_npu parses with msprof: {_NAME_SETUP}",
    "msprof is not on PATH after sourcing CANN's environment ({scripts}); PATH is {path}",
)


def noise(facts: Facts) -> Check:
    if not facts.greeting:
        return ok(NOISE, "the login scripts print nothing")
    said = " ".join(facts.greeting)[:FIRST_BYTES]
    return warned(NOISE, NOISE.says.format(said=said))


def python(facts: Facts) -> Check:
    """That it is new enough is a matter of the survey itself, which does not run on an old one."""
    version = ".".join(map(str, facts.python_version))
    return ok(PYTHON, f"{facts.python} is Python {version} ({facts.python_why})")


def torch_npu(facts: Facts) -> Check:
    missing = [name for name in ("torch", "torch_npu") if facts.versions[name] is None]
    if not missing:
        return ok(TORCH_NPU, f"torch {facts.versions['torch']}, torch_npu {facts.versions['torch_npu']}")
    found = f"these have it: {', '.join(facts.others)}; " if facts.others else ""
    error = EnvironmentUnfit(
        TORCH_NPU.says.format(python=facts.python, names=" and ".join(missing)), found + TORCH_NPU.remedy
    )
    return failed(TORCH_NPU, error)


def versions(facts: Facts) -> Iterator[Check]:
    """Whether what is installed fits together; what no table lists is no failure."""
    torch, npu = facts.versions["torch"], facts.versions["torch_npu"]
    if torch is None or npu is None:
        return
    yield _fit(TORCH_VERSION, compatibility.torch_pair(torch, npu))
    yield _fit(PYTHON_VERSION, compatibility.python_pair(facts.python_version, torch))
    yield _fit(CANN_VERSION, compatibility.cann_pair(npu, facts.cann_version))
    yield _fit(DRIVER_VERSION, compatibility.driver_pair(facts.cann_version, facts.driver_version))


def _fit(subject: Subject, fit: Fit) -> Check:
    if fit.fits is not False:
        return ok(subject, fit.text)
    return failed(subject, EnvironmentUnfit(fit.text)) if fit.must else warned(subject, fit.text)


def cann(facts: Facts) -> Check:
    if facts.cann is None:
        return warned(CANN, CANN.says.format(why=_sourced(facts)))
    scripts = f"by {', '.join(facts.setup)}" if facts.setup else "by the session itself"
    found = list(dict.fromkeys(version for version, _ in facts.canns))
    newest = f", the newest of {', '.join(found)}" if len(found) > 1 else ""
    return ok(CANN, f"CANN {facts.cann_version or 'of no known version'} in {facts.cann}, {scripts}{newest}")


def msprof(facts: Facts) -> Check:
    if facts.msprof is None:
        return failed(MSPROF, EnvironmentUnfit(MSPROF.says.format(scripts=_sourced(facts), path=facts.path)))
    if facts.msprof_py is None:
        return failed(
            MSPROF,
            EnvironmentUnfit(
                f"{facts.msprof} has no msprof.py where torch_npu looks for it, in tools/profiler/profiler_tool",
                "install the whole toolkit (Ascend-cann-toolkit), or name the set_env.sh of one under `setup`",
            ),
        )
    return ok(MSPROF, f"{facts.msprof} with {facts.msprof_py}")


def _sourced(facts: Facts) -> str:
    return ", ".join(facts.setup) or f"no set_env.sh was found in {_LOOKED_IN}"
