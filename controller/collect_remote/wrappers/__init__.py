"""Modules that people put into their own projects, a file a scene: what `collect-remote template --for` prints."""

from __future__ import annotations

SCENES = ("training", "inference", "service", "rl")
VERSION = 1  # of what the modules do; part of the marker


def marker(scene: str) -> str:
    """The line by which a project is known that carries a module."""
    return f"# collect-remote wrapper: {scene}/{VERSION}"
