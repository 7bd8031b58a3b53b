"""``<profile>/logs/profiler_<time>_<pid>_<Parser>.log``."""

from __future__ import annotations

import os
import sys
import time

from . import _paths


class Log:
    def __init__(self, profile: str) -> None:
        self._folder = os.path.join(profile, "logs")
        _paths.make_directory(self._folder)
        self._stamp = time.strftime("%Y%m%d%H%M%S")

    def write(self, parser: str, level: str, message: str) -> None:
        path = os.path.join(self._folder, "profiler_{}_{}_{}.log".format(self._stamp, os.getpid(), parser))
        now = time.time()
        stamp = time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime(now))
        line = sys._getframe(1).f_lineno
        with open(path, "a") as file:
            file.write(
                "[{}.{:03d}] [{}] [AscendProfiler_{}:{}] {}\n".format(
                    stamp, int(now * 1000) % 1000, level, parser, line, message
                )
            )
