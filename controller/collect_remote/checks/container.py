"""The container in which everything runs, and what a run needs of the host around it."""

from __future__ import annotations

from collections.abc import Iterator

from ..containers import Box
from ..errors import EnvironmentUnfit
from ..survey import OLDEST_PYTHON, Facts
from .check import Check, failed, ok


def checks(facts: Facts) -> Iterator[Check]:
    """None where there is no container."""
    if facts.container is not None:
        yield ok("container", str(facts.container))
        yield host_python(facts.container)
        yield workdir(facts.container, facts.workdir)


def host_python(box: Box) -> Check:
    """The agent leases the devices on the host, where all others see it."""
    version = ".".join(map(str, box.outside.python_version))
    if box.outside.python_version >= OLDEST_PYTHON:
        return ok("container-host-python", f"{box.outside.python} of the host is Python {version}")
    return failed(
        "container-host-python",
        EnvironmentUnfit(
            f"{box.outside.python} on the host itself, outside of the container, is Python {version}",
            f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or newer there: devices are leased on the host",
        ),
    )


def workdir(box: Box, path: str) -> Check:
    if box.shared is None:
        return ok("container-workdir", f"{path} is the container's own: what is kept there goes with it")
    seen = "both sides show the same directory" if box.shared.proven else f"by the word of {box.runtime}"
    return ok("container-workdir", f"{path} lies in {box.shared.source} of the host ({seen})")
