"""What to do about the errors of torch_npu and CANN, told from their texts alone. Pure."""

from __future__ import annotations

import re
from typing import Iterable, NamedTuple, Optional

from .failure import Trouble

SETUP = "name its set_env.sh under `setup` in the inventory"


def _known(entry: str, cause: str, remedy: str, *seen: str) -> Trouble:
    """Somebody else's words in an error of ours, which has another kind where it is a run that raises it."""
    return Trouble(entry, "EnvironmentUnfit", "{said}", cause, remedy, seen)


TLS = _known(
    "static-tls",
    "on aarch64 there is little room for the thread-local data of libraries that are loaded late",
    "load that library first: `env: {{LD_PRELOAD: {library}}}` in the inventory, or import it before torch",
    "libgomp-804f19d4.so.1.0.0: cannot allocate memory in static TLS block",
)
DRIVER = _known(
    "library-of-the-driver",
    "the library is not on LD_LIBRARY_PATH; some set_env.sh leave the driver's directories out",
    "it belongs to the driver: see that its lib64 and lib64/driver are there (in a container: mounted), or add their "
    "place to LD_LIBRARY_PATH under `env` in the inventory",
    "libascend_hal.so: cannot open shared object file: No such file or directory",
)
NNAL = _known(
    "library-of-nnal",
    "CANN's nnal is a package of its own, with a set_env.sh of its own",
    "it belongs to CANN's nnal package: install it, or name nnal/atb/set_env.sh under `setup` in the inventory",
    "libatb.so: cannot open shared object file: No such file or directory",
)
TOOLKIT = _known(
    "library-of-the-toolkit",
    "CANN's environment was not loaded, or its toolkit is incomplete",
    "it belongs to CANN's toolkit: " + SETUP + ", or install the whole toolkit",
    "libhccl.so: cannot open shared object file: No such file or directory",
    "ModuleNotFoundError: No module named 'tbe.common'",
)
NUMBER = _known(
    "device-number",
    "a model that opens a device by the number it has on the host; only the chosen ones are visible, counted from 0",
    "the device of a run is npu:0, whatever its number on the host: use the `device` that load() is given",
    "Invalid device ID",
    "aclrtSetDevice failed, error code is 107001",
)
VERSIONS = _known(
    "releases-do-not-fit",
    "something was built for another release than the one that is installed",
    "torch, torch_npu, CANN and the system do not fit together: `collect-remote doctor` compares their versions",
    "libtorch_npu.so: undefined symbol: _ZN3c10",
    "libstdc++.so.6: version `GLIBCXX_3.4.29' not found",
)
MODULE = _known(
    "module-of-cann",
    "CANN is half Python, and needs decorator, scipy, attrs, psutil, sympy, ... in the one that the model runs in",
    "CANN needs it in the same Python: install it there, or name another with `python` in the inventory",
    "ModuleNotFoundError: No module named 'decorator'",
)
MEETING = _known(
    "ranks-do-not-meet",
    "the launchers of a job meet at a port of its first host: something else listens there, or the others cannot reach "
    "it by the address that the inventory has for that host",
    "name an address of the first host that the others reach, and a port that is free there: `env: {{MASTER_ADDR: ..., "
    "MASTER_PORT: ...}}` of that host in the inventory",
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address",
    "The client socket has timed out after 600000ms while trying to connect to (ascend01, 29511)",
    "The IPv4 network addresses of (ascend01, 29511) cannot be retrieved (gai error: -2 - Name or service not known)",
)
# (pattern, trouble); the first that is found counts. Libraries by the package that brings them.
REMEDIES = (
    (r"server socket has failed to listen|client socket has (?:timed out|failed)|gai error", MEETING),
    (r"static TLS block", TLS),
    (r"lib(?:ascend_hal|drv\w*|dcmi|devmmap|mmpa|c_sec)\.so", DRIVER),
    (r"lib(?:atb|asdops|mki|sip)\w*\.so", NNAL),
    (r"lib(?:hccl|acl|ascendcl|ge_|graph|runtime|opapi|nnopbase|msprof|mspti|hcomm|register)\w*\.so", TOOLKIT),
    (r"Invalid device ID|\b107001\b", NUMBER),
    (r"undefined symbol|version `\S+' not found", VERSIONS),
    (r"No module named '?(?:tbe|te|acl|hccl)\b", TOOLKIT),
    (r"No module named '?(?:decorator|scipy|attrs?|psutil|sympy|numpy|cloudpickle|cffi|yaml|pybind11)\b", MODULE),
)


class Known(NamedTuple):
    """What to do, and the entry of docs/troubleshooting.md that says more."""

    remedy: str
    entry: str


def find(text: str) -> Optional[Known]:
    """What to do about an error with this text; None when nothing is known of it."""
    for pattern, trouble in REMEDIES:
        if re.search(pattern, text):
            library = re.search(r"(\S+\.so[\w.]*): cannot allocate", text)
            place = library.group(1) if library else "/path/to/library.so"
            return Known(trouble.remedy.format(library=place), trouble.id)
    return None


def cann_error(lines: Iterable[str]) -> Optional[str]:
    """The first line of CANN's own, e.g. "EH9999: Inner Error!"; the ones behind it are details."""
    return next((line.strip() for line in lines if re.match(r"\s*E[A-Z0-9]\d{4}\b", line)), None)
