"""The inventory: YAML files of Ansible's shape with the hosts there are and what can be profiled on them.

    inventory = load("inventory.yaml")
    host = inventory.host("ascend01")
    model = host.model("llama")

Every mistake is an InventoryError with file, line and column, what is wrong, and what to do.
"""

from __future__ import annotations

from pathlib import Path

from .hosts import Caution, Host, Inventory, ModelSpec
from .patterns import select

__all__ = ["Caution", "Host", "Inventory", "ModelSpec", "load", "select"]


def load(*sources: str | Path) -> Inventory:
    """Read one or several inventories: files, or directories of them; the later ones are stronger.

    Together with the host_vars and group_vars beside them. Raises InventoryError.
    """
    # PyYAML is needed by this function alone; commands that never read an inventory need not wait for it
    from .gather import gather

    return gather([Path(source) for source in sources])
