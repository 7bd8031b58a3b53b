"""Containers of a host: everything of ours runs inside, but for what only the host can see and keep, its devices.

find     the container, by name, id or label; both sides surveyed in one go
box      what was found, as plain data
enter    scripts into the container
says     engines' errors
"""

from __future__ import annotations

from .box import Box, Mount
from .enter import ask, keeping, stream
from .survey import Found

__all__ = ["Box", "Found", "Mount", "ask", "keeping", "stream"]
