"""What to do about the errors of torch_npu and CANN, told from their texts alone. Pure."""

from __future__ import annotations

import re
from typing import Iterable, Optional

SETUP = "name its set_env.sh under `setup` in the inventory"
TOOLKIT = "it belongs to CANN's toolkit: " + SETUP + ", or install the whole toolkit"
NNAL = "it belongs to CANN's nnal package: install it, or name nnal/atb/set_env.sh under `setup` in the inventory"
DRIVER = (
    "it belongs to the driver: see that its lib64 and lib64/driver are there (in a container: mounted), or add their "
    "place to LD_LIBRARY_PATH under `env` in the inventory"
)
TLS = "load that library first: `env: {{LD_PRELOAD: {library}}}` in the inventory, or import it before torch"
VERSIONS = "torch, torch_npu, CANN and the system do not fit together: `collect-remote doctor` compares their versions"
NUMBER = "the device of a run is npu:0, whatever its number on the host: use the `device` that load() is given"
MODULE = "CANN needs it in the same Python: install it there, or name another with `python` in the inventory"
# (pattern, remedy); the first that is found counts. Libraries by the package that brings them.
REMEDIES = (
    (r"static TLS block", TLS),
    (r"lib(?:ascend_hal|drv\w*|dcmi|devmmap|mmpa|c_sec)\.so", DRIVER),
    (r"lib(?:atb|asdops|mki|sip)\w*\.so", NNAL),
    (r"lib(?:hccl|acl|ascendcl|ge_|graph|runtime|opapi|nnopbase|msprof|mspti|hcomm|register)\w*\.so", TOOLKIT),
    (r"Invalid device ID|\b107001\b", NUMBER),
    (r"undefined symbol|version `\S+' not found", VERSIONS),
    (r"No module named '?(?:tbe|te|acl|hccl)\b", TOOLKIT),
    (r"No module named '?(?:decorator|scipy|attrs?|psutil|sympy|numpy|cloudpickle|cffi|yaml|pybind11)\b", MODULE),
)


def remedy(text: str) -> Optional[str]:
    """What to do about an error with this text; None when nothing is known of it."""
    for pattern, what in REMEDIES:
        if re.search(pattern, text):
            library = re.search(r"(\S+\.so[\w.]*): cannot allocate", text)
            return what.format(library=library.group(1) if library else "/path/to/library.so")
    return None


def cann_error(lines: Iterable[str]) -> Optional[str]:
    """The first line of CANN's own, e.g. "EH9999: Inner Error!"; the ones behind it are details."""
    return next((line.strip() for line in lines if re.match(r"\s*E[A-Z0-9]\d{4}\b", line)), None)
