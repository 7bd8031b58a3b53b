"""The container in which everything runs, and what a run needs of the host around it."""

from __future__ import annotations

from collections.abc import Iterator

from ..containers import Box
from ..errors import EnvironmentUnfit
from ..survey.survey import Facts
from ..survey.troubles import OLDEST_PYTHON
from .check import Check, Subject, failed, ok

CONTAINER = Subject(
    "container", "with `container`: which one it is, its image and its user", "`container` in the inventory"
)
HOST_PYTHON = Subject(
    "container-host-python",
    "with `container`: the Python of the host itself, outside of it",
    f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or newer there: devices are leased on the host",
    "{python} on the host itself, outside of the container, is Python {version}",
)
WORKDIR = Subject(
    "container-workdir",
    "with `container`: whether `workdir` is a directory of the host too, or goes with the container",
    "mount a directory of the host there",
)


def checks(facts: Facts) -> Iterator[Check]:
    """None where there is no container."""
    if facts.container is not None:
        yield ok(CONTAINER, str(facts.container))
        yield host_python(facts.container)
        yield workdir(facts.container, facts.workdir)


def host_python(box: Box) -> Check:
    """The agent leases the devices on the host, where all others see it."""
    version = ".".join(map(str, box.outside.python_version))
    if box.outside.python_version >= OLDEST_PYTHON:
        return ok(HOST_PYTHON, f"{box.outside.python} of the host is Python {version}")
    return failed(HOST_PYTHON, EnvironmentUnfit(HOST_PYTHON.says.format(python=box.outside.python, version=version)))


def workdir(box: Box, path: str) -> Check:
    if box.shared is None:
        return ok(WORKDIR, f"{path} is the container's own: what is kept there goes with it")
    seen = "both sides show the same directory" if box.shared.proven else f"by the word of {box.runtime}"
    return ok(WORKDIR, f"{path} lies in {box.shared.source} of the host ({seen})")
