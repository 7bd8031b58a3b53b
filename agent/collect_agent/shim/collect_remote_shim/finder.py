"""Told when a module has been imported, before whoever imported it can take a name out of it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

    Action = Callable[[Any], object]


class Finder:
    """Finds what the finders behind it find, and has `actions[name](module)` called when that module's body has run."""

    def __init__(self, actions: Dict[str, Action]) -> None:
        self.actions = actions

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self.actions:
            return None
        others = (one for one in list(sys.meta_path) if one is not self and hasattr(one, "find_spec"))
        found = (one.find_spec(name, path, target) for one in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None:
            _then(spec.loader, name, self.actions[name])
        return spec


def _then(loader: Any, name: str, action: Action) -> None:
    """Have `loader`, when it runs the module, call `action` behind it."""
    run: Optional[Action] = getattr(loader, "exec_module", None)
    if run is None or isinstance(loader, type):
        return

    def exec_module(module: Any) -> None:
        if module.__name__ == name:
            del loader.exec_module
        run(module)
        if module.__name__ == name:
            action(module)

    try:  # noqa: SIM105 - contextlib takes longer to import than all of this
        loader.exec_module = exec_module
    except AttributeError:
        pass  # a loader that takes nothing from us: its module stays as it is


def install(actions: Dict[str, Action]) -> None:
    """Call each action when its module is imported, or now where it is there already."""
    for name in [name for name in actions if name in sys.modules]:
        actions[name](sys.modules[name])
    sys.meta_path.insert(0, Finder(actions))
