"""What can be wrong with a simulated host, or special about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Knobs:
    """Every field can be given to :class:`SimHost` and changed while it runs (``set_state``)."""

    login_shell: Literal["sh", "dash", "bash", "rbash", "csh", "tcsh", "zsh", "fish"] = "bash"
    """The account's login shell, which runs every command; FileNotFoundError where the machine does not have it."""
    rc: str | bytes = ""
    """Lines of the rc file that `login_shell` reads for a remote command, in its language: bash .bashrc, csh .cshrc,
    tcsh .tcshrc, zsh .zshenv, fish config.fish.  sh and dash read none: ValueError."""
    login_noise: str = ""
    """Text that the same file prints first, on stdout and again on stderr, in every session."""
    bash: bool = True
    """Whether there is a bash on the PATH."""
    banner: str = ""
    """What the server says before the login; counts from its next start on."""
    motd: str = ""
    """The message of the day: what a session without a command prints first."""
    sshd: Mapping[str, str] = field(default_factory=dict)
    """Settings of OpenSSH's sshd, before its others, e.g. ``{"RekeyLimit": "1M", "MaxStartups": "1"}``; count from
    its next start on.  The server asyncssh takes none: ValueError."""
    host_key_kind: Literal["ed25519", "rsa", "ecdsa"] = "ed25519"
    """The server's host key; one that is already in the host's directory stays."""
    authorized_keys: Sequence[str] = ()
    """Lines of authorized_keys besides the client's own key, whose place they take without `accept_key`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """More variables of every session, e.g. ``{"ASCEND_RT_VISIBLE_DEVICES": "2,3"}``."""
    umask: int = 0o022
    """The umask of every session; 0o002 where each user has a group of their own."""
    python3: Literal["good", "missing", "old"] = "good"
    """``old`` says that it is 3.6.8 and cannot run newer source."""
    msprof: bool = True
    """Whether sourcing set_env.sh puts msprof on the PATH."""
    set_env: bool | Collection[str] = True
    """Whether CANN's set_env.sh is in its usual place, or in which of the layouts only: "ascend-toolkit", "cann"."""
    npu_smi: Literal["path", "outside", "nowhere"] = "path"
    """Where npu-smi is; ``outside`` the PATH, in /usr/local/sbin, which needs root (a mount of every session)."""
    npu_smi_text: str | Mapping[str, str] | None = None
    """What npu-smi prints, on stdout, in place of its tables: always, or by arguments: ``{"info -m": "..."}``."""
    npu_smi_status: int = 0
    """The exit status that goes with `npu_smi_text`."""
    npu_smi_fails: Sequence[int] = ()
    """Codes of npu-smi's own failures, in the order printed: -8005, -8020, -9005."""
    npu_smi_library: bool = True
    """Whether the driver's library is found; without, the loader says so on stderr."""
    npu_smi_before: str = ""
    """Noise in front of every answer, e.g. ``"DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\\n"``."""
    npu_smi_after: str = ""
    """A complaint after every answer, e.g. ``"[WARNING]The driver package may not be ...\\n"``."""
    npu_smi_delay: float = 0.0
    """Seconds until npu-smi answers."""
    npu_smi_hangs: int | None = None
    """After how many lines npu-smi hangs for ever, until SIGKILL; None: it does not."""
    npu_smi_pids: Literal["own", "host"] = "own"
    """Whose pids npu-smi prints in a container: those that its processes have there, or those of the host, without
    names because the container cannot look them up, and its own in the container column where there is one."""
    driver_version: str | None = None
    """The driver's version, which also decides the layout of npu-smi's table; None: usual for the chip."""
    tool_version: str | None = None
    """npu-smi's own version; None: that of the driver."""
    devices: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """What npu-smi says of devices, by logic id: ``health`` (a word), ``used_mb``, ``total_mb``, ``util`` (%),
    ``power``, ``temp``; ``silent``: without processes it has no line that says so; ``lost``, a device that fell off
    the bus: "orphan" (its first line is missing), "row" (both are), "heartbeat" (all is zero, the memory's total
    too).  A ``used_mb`` above the idle baseline without a row in `processes` is use that a container hides.  The
    runtimes have the same memory, and no lost device; and what a host says, its containers say too."""
    processes: Sequence[Mapping[str, Any]] = ()
    """Other people's jobs: ``logic``, ``pid``, ``name`` ("": npu-smi cannot look it up), ``mb``, and at will
    ``hidden`` (it takes memory but has no row) and ``container_pid``.  A container shows rows of its own list
    alone, its host those of all; everybody sees the memory."""
    accept_key: bool = True
    """Whether the account accepts the client's key."""
    announce_own_key: bool = True
    """Whether ``host_key`` and ``known_hosts`` announce the server's own key; otherwise another one."""
    cann: Sequence[str] = ("8.3.RC1",)
    """The versions of CANN below ~/Ascend: ascend-toolkit/<version>, and from 8.5 on cann-<version>."""
    cann_latest: str | None = None
    """Which of its versions ``latest`` points to, or ``cann`` in the newer layout; None: the last one given."""
    set_env_faults: Collection[str] = ()
    """What is wrong with CANN's set_env.sh: "unset" (a variable, which ends a shell with -u), "errexit" (a command
    fails on the way), "returns" 1, "exits", "hangs", "prints" on both streams, "reads" a line from stdin,
    "overwrites" (it sets LD_LIBRARY_PATH and PYTHONPATH to its own alone), "no-path" (it leaves PATH alone)."""
    msprof_py: bool = True
    """Whether msprof.py is where torch_npu looks for it, from msprof on."""
    nnal: bool = False
    """Whether CANN's acceleration library is there: ~/Ascend/nnal/atb with set_env.sh and libatb.so."""
    driver: bool = False
    """Whether /usr/local/Ascend/driver is there, with lib64, version.info and bin/setenv.bash; needs root (a mount
    of every session).  No set_env.sh adds its lib64 to LD_LIBRARY_PATH."""
    libraries: Sequence[str] = ()
    """Libraries that ``import torch_npu`` loads by LD_LIBRARY_PATH, e.g. "libascend_hal.so" (light runtime).  CANN has
    libhccl.so and libascendcl.so, `nnal` libatb.so, `driver` libascend_hal.so; nothing has others."""
    torch_npu_import: Literal["works", "hangs", "aborts", "static-tls"] = "works"
    """How ``import torch_npu`` ends: never, by SIGABRT after an EH9999, or with the ImportError of a library that
    finds no room for its thread-local data (light runtime)."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of distributions: what their metadata say, and torch and torch_npu themselves (light runtime)."""
    environments: Sequence[str] = ()
    """Where in HOME the only Pythons with the runtime are, e.g. "miniconda3/envs/ascend", "venv",
    ".pyenv/versions/3.11.9"; python3 has none then."""
    sudo: Literal["of the machine", "waits", "no-terminal"] = "of the machine"
    """A sudo that wants a password: it waits for stdin, or says that a terminal is required."""
    addresses: Sequence[str] = ()
    """What ``hostname -I`` prints; nothing: that of the machine does it."""
    container_engine: Literal["docker", "podman", "nerdctl"] | None = None
    """Under which name the program of the container engine is on the PATH; None: it is not."""
    container_daemon: Literal["works", "denied", "down"] = "works"
    """How the engine's daemon answers: not to this account ("denied"), or not at all."""
