"""Models the template can drive: one module a family, each with load, prefill and decode, or forward."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType


def find(name: str) -> ModuleType:
    """The adapter called `name`: a module of this package, or a Python file by its path.

    ImportError when what the adapter needs (transformers, diffusers, ...) is not on the host.
    """
    if not name.endswith(".py"):
        return importlib.import_module("." + name, __name__)
    spec = importlib.util.spec_from_file_location("user_adapter", name)
    if spec is None or spec.loader is None:
        raise ImportError("cannot load {}".format(name))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
