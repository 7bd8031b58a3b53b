"""What can be wrong with a simulated host, or special about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Knobs:
    """Every field can be given to :class:`SimHost` and changed while it runs (``set_state``)."""

    login_noise: str = ""
    """Text that the account's rc file prints on stdout, and again on stderr, in every session."""
    env: Mapping[str, str] = field(default_factory=dict)
    """More variables of every session, e.g. ``{"ASCEND_RT_VISIBLE_DEVICES": "2,3"}``."""
    umask: int = 0o022
    """The umask of every session; 0o002 where each user has a group of their own."""
    python3: Literal["good", "missing", "old"] = "good"
    """``old`` says that it is 3.6.8 and cannot run newer source."""
    msprof: bool = True
    """Whether sourcing set_env.sh puts msprof on the PATH."""
    set_env: bool = True
    """Whether CANN's set_env.sh is in its usual place."""
    npu_smi: bool = True
    """Whether npu-smi is on the PATH."""
    npu_smi_text: str | None = None
    """What npu-smi prints, on stdout, in place of its tables."""
    npu_smi_status: int = 0
    """The exit status that goes with `npu_smi_text`."""
    npu_smi_delay: float = 0.0
    """Seconds until npu-smi answers."""
    devices: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """What npu-smi says of devices, by logic id: ``health``, ``used_mb``, ``util`` (%), ``power``, ``temp``.
    A ``used_mb`` above the idle baseline without a row in `processes` is use that a container hides."""
    processes: Sequence[Mapping[str, Any]] = ()
    """Rows of other people's jobs: ``logic``, ``pid``, ``name``, ``mb``."""
    accept_key: bool = True
    """Whether the account accepts the client's key."""
    announce_own_key: bool = True
    """Whether ``host_key`` and ``known_hosts`` announce the server's own key; otherwise another one."""
