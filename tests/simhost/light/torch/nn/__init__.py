"""``torch.nn``."""

from __future__ import annotations

import sys as _sys
from typing import Any

from .._tensor import UNKNOWN as _UNKNOWN
from .._tensor import Parameter as Parameter
from . import functional as functional
from . import layers as _layers
from .module import Module as Module
from .module import ModuleDict as ModuleDict
from .module import ModuleList as ModuleList
from .module import ParameterList as ParameterList
from .module import Sequential as Sequential

for _name, _value in vars(_layers).items():
    if isinstance(_value, type) and issubclass(_value, Module) and not _name.startswith("_"):
        globals()[_name] = _value

init = _layers.init()
_sys.modules[__name__ + ".init"] = init  # type: ignore[assignment]
_sys.modules[__name__ + ".modules"] = _sys.modules[__name__]


def __getattr__(name: str) -> Any:
    raise AttributeError(_UNKNOWN.format("nn." + name))
