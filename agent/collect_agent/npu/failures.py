"""npu-smi's own failures, by name: what it printed, the likely cause, what to do.

npu-smi reports most failures on stdout, and its exit status is the code modulo 256 (hicann/driver, npucli),
so the text is asked first and the status only when the text explains nothing.
"""

from __future__ import annotations

import re
from typing import Dict, Optional, Tuple, Type

from ..failure import Failure, Trouble

OTHER = Trouble(
    "npu-smi-fails",
    "NpuSmiError",
    "npu-smi failed ({line})",
    "it could not tell which NPUs there are, and says so by a code",
    "look the code up in the npu-smi manual of this driver version",
)
DRIVER = Trouble(
    "npu-smi-8005",
    "NpuSmiDriverError",
    "npu-smi cannot talk to the driver ({line})",
    "-8005: the driver refused, mostly for lack of permission on /dev/davinci*",
    "let the login user into the group that owns /dev/davinci* (HwHiAiUser) and log in anew, also any "
    "shared ssh connection; in a container pass /dev/davinci*, /dev/davinci_manager and the driver; "
    "else the driver does not match the kernel or the firmware",
    ("dcmi module initialize failed. ret is -8005",),
)
IN_USE = Trouble(
    "npu-smi-8020",
    "NpuSmiInUseError",
    "npu-smi finds the devices in use by another container ({line})",
    "-8020: another container or namespace owns the devices, or driver mounts are missing. torch_npu is asked instead",
    "release the device in the other container (`cat /proc/uda/namespace_node` on the host names the owner), "
    "or mount /usr/local/dcmi, /usr/local/Ascend/driver/lib64, version.info and /etc/ascend_install.info here",
    ("dcmi model initialized failed, because the device is used. ret is -8020",),
)
BOARD_TYPE = Trouble(
    "npu-smi-9005",
    "NpuSmiBoardTypeError",
    "npu-smi cannot ask for the board type ({line})",
    "-9005: a container without the right to ask. torch_npu is asked instead; this is shown when it does not know "
    "either",
    "run npu-smi on the host or in a privileged container; torch_npu may work here all the same",
    ("ret is -9005",),
)
LIBRARY = Trouble(
    "npu-smi-library",
    "NpuSmiLibraryError",
    "npu-smi cannot load the driver's library {library}",
    "the loader did not find one of the driver's libraries",
    "set LD_LIBRARY_PATH to /usr/local/Ascend/driver/lib64, its common/ and its driver/; "
    "a login by ssh does not get the environment of a container's image",
    ("npu-smi: error while loading shared libraries: libc_sec.so: cannot open shared object file",),
)
MISSING = Trouble(
    "npu-smi-missing",
    "NpuSmiMissingError",
    "npu-smi cannot be run: {line}",
    "there is no npu-smi on PATH, nor where it usually is, or it may not be executed",
    "install the driver, or mount npu-smi into the container; usual places: /usr/local/sbin, /usr/local/bin; "
    "if it is there, check that the login user may execute it",
    ("bash: npu-smi: command not found",),
)
TIMEOUT = Trouble(
    "npu-smi-hangs",
    "NpuSmiTimeoutError",
    "npu-smi did not answer in time (exit status {status})",
    "a wedged card can hang it, and every other program that asks for the devices",
    "run `npu-smi info` on the host by hand: a wedged card needs a reset by its administrator",
)
FORMAT = Trouble(
    "npu-smi-output",
    "NpuSmiFormatError",
    "the output of npu-smi is not understood: {misfit}",
    "a table that this version does not know, or one that was cut off; it is never answered with a guess",
    "send the whole text of `npu-smi info`, the driver version and the product to the project",
)


class NpuSmiError(Failure):
    """npu-smi could not tell which NPUs there are.

    `kind` is the name of the class, `code` npu-smi's own negative return code where it printed one.
    """

    trouble = OTHER

    def __init__(self, message: str, remedy: str = "", *, code: Optional[int] = None) -> None:
        super().__init__(type(self).__name__, message, remedy or self.trouble.remedy, self.trouble.id)
        self.code = code


class NpuSmiDriverError(NpuSmiError):
    """-8005: the driver refused, mostly for lack of permission on /dev/davinci*."""

    trouble = DRIVER


class NpuSmiInUseError(NpuSmiError):
    """-8020: another container or namespace owns the devices, or driver mounts are missing."""

    trouble = IN_USE


class NpuSmiBoardTypeError(NpuSmiError):
    """-9005: npu-smi may not ask in this container. torch_npu may work there all the same."""

    trouble = BOARD_TYPE


class NpuSmiLibraryError(NpuSmiError):
    """The loader did not find one of the driver's libraries."""

    trouble = LIBRARY


class NpuSmiMissingError(NpuSmiError):
    """There is no npu-smi, or it may not be executed."""

    trouble = MISSING


class NpuSmiTimeoutError(NpuSmiError):
    """npu-smi did not answer in time: a wedged card can hang it."""

    trouble = TIMEOUT


class NpuSmiFormatError(NpuSmiError):
    """The text is not a table this version knows. Never answered with a guess."""

    trouble = FORMAT


_KNOWN_TEXTS: Tuple[Tuple["re.Pattern[str]", Type[NpuSmiError]], ...] = (
    (re.compile(r"loading shared libraries: (?P<library>\S+?):"), NpuSmiLibraryError),
    (
        re.compile(r"npu-smi\S*:? .*(?:not found|No such file or directory|Permission denied)|ommand.*: npu-smi\b"),
        NpuSmiMissingError,
    ),
    (re.compile(r"ret is (?P<code>-8005)\b"), NpuSmiDriverError),
    (re.compile(r"ret is (?P<code>-8020)\b"), NpuSmiInUseError),
    (re.compile(r"ret is (?P<code>-9005)\b"), NpuSmiBoardTypeError),
    (re.compile(r"ret is (?P<code>-[0-9]+)"), NpuSmiError),
)

_TIMEOUT_STATUSES = (124, 137)  # coreutils' timeout: ended, or killed when that did not help
_KNOWN_STATUSES: Dict[int, Tuple[Type[NpuSmiError], str, Optional[int]]] = {
    126: (NpuSmiMissingError, "npu-smi may not be executed", None),
    127: (NpuSmiMissingError, "npu-smi was not found", None),
    -8005 % 256: (NpuSmiDriverError, "npu-smi cannot talk to the driver", -8005),
    -8020 % 256: (NpuSmiInUseError, "npu-smi finds the devices in use by another container", -8020),
    -9005 % 256: (NpuSmiBoardTypeError, "npu-smi cannot ask for the board type", -9005),
}


def missing() -> NpuSmiMissingError:
    """The failure of a host on which no npu-smi was found."""
    places = "/usr/local/sbin, /usr/local/bin, /usr/local/dcmi or the driver's directory"
    return NpuSmiMissingError("npu-smi is not on PATH, nor in " + places)


def failure(text: str, status: Optional[int] = None) -> Optional[NpuSmiError]:
    """The failure that `text` (stdout and stderr of npu-smi) or its exit status speaks of, or None.

    A time-out comes first, whatever was printed until then. Older tools go on after the first error and print
    a second one that follows from it: the first one counts.
    """
    if status in _TIMEOUT_STATUSES:
        return NpuSmiTimeoutError(TIMEOUT.message.format(status=status))
    for line in text.splitlines():
        if line.startswith(("|", "+")):
            continue  # a row of the table; what a process is called is no failure
        for pattern, error in _KNOWN_TEXTS:
            found = pattern.search(line)
            if found:
                words = found.groupdict()
                code = int(words["code"]) if "code" in words else None
                return error(error.trouble.message.format(**words, line=line.strip()), code=code)
    if status in _KNOWN_STATUSES:
        error, message, code = _KNOWN_STATUSES[status]
        return error("{} (exit status {})".format(message, status), code=code)
    return None
