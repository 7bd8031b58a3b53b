"""What the survey of a container's host tells, line by line, until all of it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ..inventory import Host
from ..survey.shape import INSPECTED, OUTSIDE, read
from ..survey.troubles import NO_HOST_PYTHON, OLD_HOST_PYTHON
from . import box, find, says
from .box import Box


class Found:
    """The engine, the container, and what was found outside of it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._engine = ""
        self._inspected: Mapping[str, Any] = {}
        self._outside: Mapping[str, Any] | None = None
        self._entered = False
        self.left = False
        """Whether the program inside is over."""

    @property
    def is_whole(self) -> bool:
        return self._outside is not None

    @property
    def npu(self) -> Mapping[str, Any]:
        """What the host saw of its NPUs."""
        assert self._outside is not None  # noqa: S101 - it is whole
        return dict(self._outside["npu"])

    def box(self, inside: Mapping[str, Any]) -> Box:
        """With what was found `inside`."""
        assert self._outside is not None  # noqa: S101 - it is whole
        return box.build(self._engine, self._host.container_user, self._inspected, self._outside, inside)

    def take(self, word: str, detail: str, noise: Sequence[str]) -> None:
        """One of our lines, behind `noise`. EnvironmentUnfit when there is no container to survey."""
        wanted, names = self._host.container or "", detail.split()
        if word == "engine":
            self._engine = detail
        elif word == "no-engine":
            raise says.no_engine(find.runtimes(self._host))
        elif word == "no-container":
            raise says.failed(self._runtime, noise) or says.no_container(wanted, self._runtime, names)
        elif word == "several-containers":
            raise says.several(wanted, names)
        elif word == "no-outside":
            raise NO_HOST_PYTHON()
        elif word == "unfit-outside":
            raise OLD_HOST_PYTHON(version=detail)
        elif word == "box":
            self._inspected = read(detail, INSPECTED, self._runtime)
            if (state := box.state(self._inspected)) != "running":
                raise says.not_running(box.name(self._inspected), self._runtime, state)
        elif word == "begun":
            self._entered = True
        elif word == "outside":
            self._outside = read(detail, OUTSIDE, "the program on the host, outside of the container,")
        elif word == "left":
            self.left = True
            if not self._entered:
                name = box.name(self._inspected)
                raise says.not_entered(name, self._runtime, noise, int(detail), going=False)

    @property
    def _runtime(self) -> str:
        return PurePosixPath(self._engine).name
