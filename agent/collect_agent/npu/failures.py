"""npu-smi's own failures, by name: what it printed, the likely cause, what to do.

npu-smi reports most failures on stdout, and its exit status is the code modulo 256 (hicann/driver, npucli),
so the text is asked first and the status only when the text explains nothing.
"""

from __future__ import annotations

import re
from typing import Dict, Optional, Tuple, Type

from ..failure import Failure


class NpuSmiError(Failure):
    """npu-smi could not tell which NPUs there are.

    `kind` is the name of the class, `code` npu-smi's own negative return code where it printed one.
    """

    def __init__(self, message: str, remedy: str, *, code: Optional[int] = None) -> None:
        super().__init__(type(self).__name__, message, remedy)
        self.code = code


class NpuSmiDriverError(NpuSmiError):
    """-8005: the driver refused, mostly for lack of permission on /dev/davinci*."""


class NpuSmiInUseError(NpuSmiError):
    """-8020: another container or namespace owns the devices, or driver mounts are missing."""


class NpuSmiBoardTypeError(NpuSmiError):
    """-9005: npu-smi may not ask in this container. torch_npu may work there all the same."""


class NpuSmiLibraryError(NpuSmiError):
    """The loader did not find one of the driver's libraries."""


class NpuSmiMissingError(NpuSmiError):
    """There is no npu-smi, or it may not be executed."""


class NpuSmiTimeoutError(NpuSmiError):
    """npu-smi did not answer in time: a wedged card can hang it."""


class NpuSmiFormatError(NpuSmiError):
    """The text is not a table this version knows. Never answered with a guess."""


FORMAT_REMEDY = "send the whole text of `npu-smi info`, the driver version and the product to the project"

_DRIVER = (
    "let the login user into the group that owns /dev/davinci* (HwHiAiUser) and log in anew, also any "
    "shared ssh connection; in a container pass /dev/davinci*, /dev/davinci_manager and the driver; "
    "else the driver does not match the kernel or the firmware"
)
_IN_USE = (
    "release the device in the other container (`cat /proc/uda/namespace_node` on the host names the owner), "
    "or mount /usr/local/dcmi, /usr/local/Ascend/driver/lib64, version.info and /etc/ascend_install.info here"
)
_BOARD_TYPE = "run npu-smi on the host or in a privileged container; torch_npu may work here all the same"
_LIBRARY = (
    "set LD_LIBRARY_PATH to /usr/local/Ascend/driver/lib64, its common/ and its driver/; "
    "a login by ssh does not get the environment of a container's image"
)
_MISSING = (
    "install the driver, or mount npu-smi into the container; usual places: /usr/local/sbin, /usr/local/bin; "
    "if it is there, check that the login user may execute it"
)
_TIMEOUT = "run `npu-smi info` on the host by hand: a wedged card needs a reset by its administrator"

_KNOWN_TEXTS: Tuple[Tuple["re.Pattern[str]", Type[NpuSmiError], str, str], ...] = (
    (
        re.compile(r"loading shared libraries: (\S+?):"),
        NpuSmiLibraryError,
        "npu-smi cannot load the driver's library {0}",
        _LIBRARY,
    ),
    (
        re.compile(r"npu-smi\S*:? .*(?:not found|No such file or directory|Permission denied)|ommand.*: npu-smi\b"),
        NpuSmiMissingError,
        "npu-smi cannot be run: {line}",
        _MISSING,
    ),
    (
        re.compile(r"ret is (-8005)\b"),
        NpuSmiDriverError,
        "npu-smi cannot talk to the driver ({line})",
        _DRIVER,
    ),
    (
        re.compile(r"ret is (-8020)\b"),
        NpuSmiInUseError,
        "npu-smi finds the devices in use by another container ({line})",
        _IN_USE,
    ),
    (
        re.compile(r"ret is (-9005)\b"),
        NpuSmiBoardTypeError,
        "npu-smi cannot ask for the board type ({line})",
        _BOARD_TYPE,
    ),
    (
        re.compile(r"ret is (-[0-9]+)"),
        NpuSmiError,
        "npu-smi failed ({line})",
        "look the code up in the npu-smi manual of this driver version",
    ),
)

_TIMEOUT_STATUSES = (124, 137)  # coreutils' timeout: ended, or killed when that did not help
_KNOWN_STATUSES: Dict[int, Tuple[Type[NpuSmiError], str, str, Optional[int]]] = {
    126: (NpuSmiMissingError, "npu-smi may not be executed", _MISSING, None),
    127: (NpuSmiMissingError, "npu-smi was not found", _MISSING, None),
    -8005 % 256: (NpuSmiDriverError, "npu-smi cannot talk to the driver", _DRIVER, -8005),
    -8020 % 256: (
        NpuSmiInUseError,
        "npu-smi finds the devices in use by another container",
        _IN_USE,
        -8020,
    ),
    -9005 % 256: (NpuSmiBoardTypeError, "npu-smi cannot ask for the board type", _BOARD_TYPE, -9005),
}


def missing() -> NpuSmiMissingError:
    """The failure of a host on which no npu-smi was found."""
    places = "/usr/local/sbin, /usr/local/bin, /usr/local/dcmi or the driver's directory"
    return NpuSmiMissingError("npu-smi is not on PATH, nor in " + places, _MISSING)


def failure(text: str, status: Optional[int] = None) -> Optional[NpuSmiError]:
    """The failure that `text` (stdout and stderr of npu-smi) or its exit status speaks of, or None.

    A time-out comes first, whatever was printed until then. Older tools go on after the first error and print
    a second one that follows from it: the first one counts.
    """
    if status in _TIMEOUT_STATUSES:
        return NpuSmiTimeoutError("npu-smi did not answer in time (exit status {})".format(status), _TIMEOUT)
    for line in text.splitlines():
        for pattern, error, message, remedy in _KNOWN_TEXTS:
            found = pattern.search(line)
            if found:
                words = found.groups()
                code = int(words[0]) if words and words[0].startswith("-") else None
                return error(message.format(*words, line=line.strip()), remedy, code=code)
    if status in _KNOWN_STATUSES:
        error, message, remedy, code = _KNOWN_STATUSES[status]
        return error("{} (exit status {})".format(message, status), remedy, code=code)
    return None
