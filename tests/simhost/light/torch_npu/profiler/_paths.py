"""Where the profiler writes: rules for paths, the name of the directory, and the one place they are remembered."""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
import warnings
from typing import Any, List, Optional

from .._errors import error_line
from .._faults import fault
from ._messages import warn

MAX_PATH, MAX_NAME, MAX_WORKER_NAME = 4096, 255, 226
DIRECTORY_MODE, FILE_MODE = 0o750, 0o640
OUTPUT = "ASCEND_PROFILER_OUTPUT"

_PLAIN = re.compile(r"(\.|/|_|-|\s|[~0-9a-zA-Z]|[\u4e00-\u9fa5])+")


def _objection(message: str) -> None:
    """Unusual paths are warned about; older releases refused them."""
    if fault("strict_paths") is not None:
        raise RuntimeError(message + error_line("PTA", "parameter"))
    warnings.warn(message, stacklevel=2)


def check(path: str) -> None:
    """Raises RuntimeError for a file where a directory is meant, or, in strict releases, for an unusual path."""
    if len(path) > MAX_PATH or any(len(name) > MAX_NAME for name in path.split("/")):
        _objection("Length of input path exceeds the limit.")
    if os.path.islink(path):
        _objection("Invalid input path is a symbolic link: {}".format(path))
    if not _PLAIN.fullmatch(path):
        _objection("Invalid input path: {}".format(path))
    if os.path.isfile(path):
        raise RuntimeError("Invalid input path is a file path: {path}" + error_line("PTA", "parameter"))


def real(path: str) -> str:
    if not path:
        raise RuntimeError("Input path is empty, please check. ErrorType: resource unavailable")
    path = os.path.expanduser(path)
    if os.path.islink(path):
        warnings.warn("Invalid input path is a symbolic link: {}".format(path), stacklevel=2)
    return os.path.realpath(path)


def check_writable(path: str) -> None:
    if not os.path.exists(path):
        raise RuntimeError("The path does not exist: {}".format(path))
    if not os.access(path, os.W_OK):
        warnings.warn("The path permission check failed: {}".format(path), stacklevel=2)


def make_directory(path: str) -> None:
    try:
        os.makedirs(path, mode=DIRECTORY_MODE, exist_ok=True)
    except OSError as problem:
        raise RuntimeError("Failed to make directory: {}".format(path) + error_line("PTA", "system call")) from problem


def write(path: str, text: str) -> None:
    """A new file of the profiler; raises RuntimeError when it cannot be written."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE), "w", newline="") as file:
            file.write(text)
    except OSError as problem:
        raise RuntimeError("Can't create file: {}".format(path) + error_line("PROF", "system call")) from problem


def subdirectory(directory: str, pattern: str) -> str:
    """The first child directory whose name matches, or ""."""
    for name in sorted(os.listdir(directory)):
        if re.match(pattern, name) and os.path.isdir(os.path.join(directory, name)):
            return os.path.join(directory, name)
    return ""


def cann_directory(profile: str) -> str:
    return subdirectory(profile, r"^PROF_\d+_\d+_[0-9a-zA-Z]+")


def framework_directory(profile: str) -> str:
    return subdirectory(profile, r"^FRAMEWORK$")


def info_file(profile: str) -> str:
    for name in sorted(os.listdir(profile)):
        if re.match(r"^profiler_info(_\d+)?\.json$", name):
            return os.path.join(profile, name)
    return ""


def profiles_in(path: str) -> List[str]:
    """``path`` itself when it holds raw data, else its direct children that do."""
    if not os.path.isdir(path):
        return []
    if framework_directory(path) or cann_directory(path):
        return [path]
    children = [os.path.join(path, name) for name in os.listdir(path)]
    return [c for c in children if os.path.isdir(c) and (framework_directory(c) or cann_directory(c))]


class PathCreator:
    """One a process: what the last built handler said is where the next recording goes."""

    def __init__(self) -> None:
        self._worker: Optional[str] = None
        self._directory: Optional[str] = None
        self._export_only = False
        self.current = ""
        self.ready = False

    def init(self, worker_name: Any = None, dir_name: Any = None, export_only: bool = False) -> None:
        self._export_only = export_only
        if worker_name is None or (worker_name and isinstance(worker_name, str) and len(worker_name) < MAX_WORKER_NAME):
            self._worker = worker_name
        else:
            warn("Invalid parameter worker_name, reset it to default.")
            self._worker = None
        if dir_name is not None and not (dir_name and isinstance(dir_name, str)):
            warn("Invalid parameter dir_name, reset it to default.")
            dir_name = None
        if dir_name is not None:
            dir_name = real(dir_name)
            check(dir_name)
        self._directory = dir_name

    def create(self) -> str:
        """Make ``<worker or host>_<pid>_<local time to the ms>_ascend_pt`` and return its path."""
        parent = self._directory
        if parent is None:
            work = os.getenv("ASCEND_WORK_PATH")
            self._export_only = self._export_only and work is None
            if work:
                parent = os.path.join(os.path.abspath(work), "profiling_data")
            else:
                parent = os.path.join(os.getcwd(), "export_only_prof_dir") if self._export_only else os.getcwd()
        if os.path.exists(parent):
            check_writable(parent)
        seconds = time.time()
        stamp = time.strftime("%Y%m%d%H%M%S", time.localtime(seconds)) + "{:03d}".format(int(seconds * 1000) % 1000)
        name = "{}_{}_{}_ascend_pt".format(self._worker or socket.gethostname(), os.getpid(), stamp)
        self.current = os.path.join(parent, name)
        check(self.current)
        make_directory(self.current)
        check_writable(self.current)
        self.ready = True
        return self.current

    def delete_export_only(self) -> None:
        if self._export_only:
            self.delete()

    def delete(self) -> None:
        try:
            shutil.rmtree(self.current)
        except OSError:
            warn("Remove temporary profiling data saving path failed.")


creator = PathCreator()
