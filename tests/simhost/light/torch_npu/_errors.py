"""Error texts in torch_npu's form: a message and a line with time, process, device, rank and error code."""

from __future__ import annotations

import os
import time

CODES = {
    "parameter": (1, "invalid parameter"),
    "type": (2, "invalid type"),
    "value": (3, "invalid value"),
    "internal": (5, "internal error"),
    "not found": (8, "resource not found"),
    "unavailable": (9, "resource unavailable"),
    "system call": (10, "system call failed"),
    "permission": (12, "permission error"),
    "acl": (100, "call acl api failed"),
}
_MODULES = {"PTA": 0, "PROF": 4}


def error_line(module: str, kind: str) -> str:
    """The tail of every torch_npu exception, led by a line end; empty with TORCH_NPU_COMPACT_ERROR_OUTPUT=1."""
    if os.environ.get("TORCH_NPU_COMPACT_ERROR_OUTPUT", "0") != "0":
        return ""
    from . import _device

    code, text = CODES[kind]
    return "\n[ERROR] {} (PID:{}, Device:{}, RankID:{}) ERR{:02d}{:03d} {} {}".format(
        time.strftime("%Y-%m-%d-%H:%M:%S"),
        os.getpid(),
        _device.state.index if _device.state.opened else -1,
        os.environ.get("RANK", "-1"),
        _MODULES[module],
        code,
        module,
        text,
    )


def acl_error(call: str, code: int, explanation: str, details: str) -> RuntimeError:
    """What a failed call into CANN raises: the call, its code, CANN's explanation and its error log."""
    return RuntimeError(
        "{0}:torch_npu/csrc/core/npu/NPUFunctions.cpp NPU function error: {0}, error code is {1}{2}\n"
        "[Error]: {3}\n{4}".format(call, code, error_line("PTA", "acl"), explanation, details)
    )
