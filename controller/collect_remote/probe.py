"""The programs of `onhost`, each as one text that a Python on the host reads from its standard input."""

from __future__ import annotations

from importlib import resources


def _program(*names: str) -> str:
    """How the host is asked about its NPUs is the agent's own code; the rest follows, its last part is what runs."""
    look = resources.files("collect_agent.npu").joinpath("look.py").read_text(encoding="utf-8")
    onhost = resources.files(__package__).joinpath("onhost")
    return look + "".join("\n" + onhost.joinpath(f"{name}.py").read_text(encoding="utf-8") for name in names)


SURVEY = _program("reader", "pythons", "output", "facts")


def trial() -> str:
    return _program("reader", "trial")
