"""The programs of `onhost`, each as one text that a Python on the host reads from its standard input."""

from __future__ import annotations

import base64
import functools
import zlib
from pathlib import Path

import collect_agent


def _part(*names: str) -> str:
    onhost = Path(__file__).parent / "onhost"
    return "\n".join((onhost / f"{name}.py").read_text(encoding="utf-8") for name in names)


def _look() -> str:
    """How the host is asked about its NPUs is the agent's own code."""
    return (Path(collect_agent.__file__).parent / "npu" / "look.py").read_text(encoding="utf-8") + "\n"


@functools.cache
def survey(*, project: bool = False) -> str:
    """In two parts: the first has npu-smi at work before the second is compiled. With `project`, it can look at one."""
    rest = ("project",) if project else ()
    return _packed(
        _look() + _part("reader", "pythons", "looking", "early"), _part("uploaded", "output", *rest, "facts")
    )


@functools.cache
def outside() -> str:
    return _packed(_look() + _part("reader", "looking", "uploaded", "outside"))


@functools.cache
def trial() -> str:
    return _packed(_look() + _part("reader", "trial"))


def _packed(*parts: str) -> str:
    """The program in less than half its bytes: on a far link the script of the survey has to go out at once."""
    texts = (base64.b64encode(zlib.compress(part.encode(), 9)).decode() for part in parts)
    return "import base64, zlib\n" + "\n".join(f'exec(zlib.decompress(base64.b64decode("{text}")))' for text in texts)
