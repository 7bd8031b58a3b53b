"""The programs of `onhost`, each as one text that a Python on the host reads from its standard input."""

from __future__ import annotations

import base64
import functools
import zlib
from importlib import resources


def _program(*names: str) -> str:
    """How the host is asked about its NPUs is the agent's own code; the rest follows, its last part is what runs."""
    look = resources.files("collect_agent.npu").joinpath("look.py").read_text(encoding="utf-8")
    onhost = resources.files(__package__).joinpath("onhost")
    return look + "".join("\n" + onhost.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in names)


@functools.cache
def survey() -> str:
    return _program("reader", "uploaded", "pythons", "output", "facts")


@functools.cache
def outside() -> str:
    return _program("reader", "uploaded", "outside")


@functools.cache
def trial() -> str:
    return _program("reader", "trial")


def packed(program: str) -> str:
    """The program in less than half its bytes: on a far link the script of the survey has to go out at once."""
    text = base64.b64encode(zlib.compress(program.encode(), 9)).decode()
    return f'import base64, zlib\nexec(zlib.decompress(base64.b64decode("{text}")))'
