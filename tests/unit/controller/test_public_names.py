"""What `import collect_remote` gives."""

from __future__ import annotations

import importlib
import pkgutil
import types

import pytest

import collect_remote


@pytest.mark.parametrize("name", collect_remote.__all__)
def test_a_public_name_is_never_a_module(name: str) -> None:
    """Whatever was imported before: a module of the same name would take its place."""
    for module in pkgutil.iter_modules(collect_remote.__path__, "collect_remote."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert not isinstance(getattr(collect_remote, name), types.ModuleType)


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'collector'"):
        collect_remote.collector  # noqa: B018
