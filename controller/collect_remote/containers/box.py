"""A container of a host, as its engine describes it and as both sides were found: plain data. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from collect_agent.failure import Failure

SHORT_ID = 12  # as `docker ps` shows it


@dataclass(frozen=True, slots=True)
class Mount:
    """`source` on the host is `target` inside; for a volume, `source` is where the engine keeps it.

    `proven`: both sides were looked at, and are one directory.
    """

    source: str
    target: str
    writable: bool
    proven: bool = False


@dataclass(frozen=True, slots=True)
class Outside:
    """The host itself, where the leases are held: its Python, our directory there, and whether the agent is in it."""

    python: str
    python_version: tuple[int, ...]
    workdir: str
    agent_present: bool


@dataclass(frozen=True, slots=True)
class Box:
    """A running container. `engine`: path of its program on the host. `user`: as whom everything runs there.

    `logic_ids`: {logic id on the host: in the container} of the devices that it has. `shared`: the mount on which the
    work directory lies, None where it is the container's own.
    """

    engine: str
    id: str
    name: str
    image: str
    user: str
    mounts: tuple[Mount, ...]
    logic_ids: Mapping[int, int]
    shared: Mount | None
    outside: Outside
    run_as: str | None
    """What the inventory says of the user."""

    @property
    def runtime(self) -> str:
        return PurePosixPath(self.engine).name

    def __str__(self) -> str:
        """What it is, as whom we are there, and what it has of the host."""
        ids = ", ".join(f"{outer} as {inner}" for outer, inner in sorted(self.logic_ids.items()))
        mounts = (f"{mount.source} at {mount.target}{'' if mount.writable else ' (ro)'}" for mount in self.mounts)
        return (
            f"{self.name} ({self.runtime} {self.id[:SHORT_ID]}, {self.image}) as {self.user}; "
            f"logic ids of the host: {ids or 'none'}; mounts: {', '.join(mounts) or 'none'}"
        )

    def document(self) -> dict[str, Any]:
        """As plan and manifest have it."""
        return {
            "runtime": self.runtime,
            "name": self.name,
            "id": self.id[:SHORT_ID],
            "image": self.image,
            "user": self.user,
            "logic_ids": sorted(self.logic_ids.items()),
        }

    def inside(self, path: str) -> str | None:
        """Where a path of the host is in the container; None where no mount brings it there."""
        place = PurePosixPath(path)
        holding = [mount for mount in self.mounts if place.is_relative_to(mount.source)]
        if not holding:
            return None
        mount = max(holding, key=lambda mount: len(mount.source))
        return str(PurePosixPath(mount.target) / place.relative_to(mount.source))

    def advice(self, key: str, path: str) -> str:
        """What to do about a path of the inventory that is not there: most often it is one of the host."""
        inner = self.inside(path)
        means = f"`{key}` means a path in the container {self.name}"
        return f"{means}: there {path} of the host is {inner}" if inner else f"{means}: correct it, or mount it there"

    def command(self, *argv: str, variables: Mapping[str, str] | None = None) -> list[str]:
        """What runs `argv` inside, its input and output ours; never on a terminal."""
        more = [f"--env={name}={value}" for name, value in (variables or {}).items()]
        return [self.engine, "exec", "-i", *(["-u", self.run_as] if self.run_as else []), *more, self.id, *argv]


def state(inspected: Mapping[str, Any]) -> str:
    """running, paused, exited, ...: whether the container can be entered."""
    told = inspected.get("State") or {}
    if told.get("Paused"):
        return "paused"
    return "running" if told.get("Running") else str(told.get("Status") or "not running").lower()


def name(inspected: Mapping[str, Any]) -> str:
    return str(inspected.get("Name") or inspected.get("Id", "")[:SHORT_ID]).lstrip("/")


def build(
    engine: str, run_as: str | None, inspected: Mapping[str, Any], outside: Mapping[str, Any], inside: Mapping[str, Any]
) -> Box:
    """From what `inspect` says, and what the programs of the survey found on the host and in the container."""
    config = inspected.get("Config") or {}
    mounts = tuple(_mounts(inspected, outside["sources"], inside["mount"]))
    return Box(
        engine=engine,
        id=str(inspected["Id"]),
        name=name(inspected),
        image=str(config.get("Image") or inspected.get("ImageName") or inspected.get("Image") or ""),
        user=run_as or str(config.get("User") or "root"),
        mounts=mounts,
        logic_ids=_logic_ids(inspected, outside["npu"], inside),
        shared=shared(mounts, inside["workdir"]),
        outside=Outside(
            outside["python"], tuple(outside["version"]), outside["workdir"], bool(outside["agent_present"])
        ),
        run_as=run_as,
    )


def shared(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    """The mount that holds a path of the container: the longest that leads to it."""
    place = PurePosixPath(path)
    holding = [mount for mount in mounts if place.is_relative_to(mount.target)]
    return max(holding, key=lambda mount: len(mount.target), default=None)


def _mounts(inspected: Mapping[str, Any], sources: Mapping[str, Any], seen: Mapping[str, Any]) -> list[Mount]:
    """`sources`: {path on the host: [device, inode]}; `seen`: the mount point below the work directory, likewise."""
    return [
        Mount(
            str(told["Source"]),
            str(told["Destination"]),
            bool(told.get("RW", True)),
            told["Destination"] == seen["point"] and sources.get(told["Source"]) == seen["id"] is not None,
        )
        for told in inspected.get("Mounts") or ()
        if told.get("Source") and told.get("Destination")
    ]


def _logic_ids(inspected: Mapping[str, Any], seen: Mapping[str, Any], inside: Mapping[str, Any]) -> dict[int, int]:
    """Nothing where npu-smi does not tell the host's devices: then nothing is chosen either."""
    from collect_agent.npu.inside import logic_ids  # which takes its time, and is for containers only
    from collect_agent.npu.interpret import interpret

    try:
        devices = interpret(seen)
    except (Failure, LookupError, TypeError, ValueError):
        return {}
    return logic_ids(devices, inside["npu"], _physical_ids(inspected, inside["nodes"]))


def _physical_ids(inspected: Mapping[str, Any], nodes: list[int]) -> list[int]:
    """The devices whose nodes are in the container; the engine may have given one another name there."""
    given = (inspected.get("HostConfig") or {}).get("Devices") or ()
    renamed = {told.get("PathInContainer"): told.get("PathOnHost", "") for told in given}
    paths = [renamed.get(f"/dev/davinci{node}") or f"/dev/davinci{node}" for node in nodes]
    numbers = [path.removeprefix("/dev/davinci") for path in paths]
    return [int(number) for number in numbers if number.isdecimal()]
