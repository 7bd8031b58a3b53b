"""The inventory: one YAML file of Ansible's shape with the hosts there are and what can be profiled on them.

    inventory = load("inventory.yaml")
    host = inventory.host("ascend01")
    model = host.model("llama")

Every mistake is an InventoryError with file, line and column, what is wrong, and what to do.
"""

from __future__ import annotations

from pathlib import Path

from collect_remote.errors import InventoryError

from .hosts import Host, Inventory, ModelSpec

__all__ = ["Host", "Inventory", "ModelSpec", "load"]


def load(path: str | Path) -> Inventory:
    """Read an inventory file. Raises InventoryError."""
    # PyYAML is needed by this function alone; commands that never read an inventory need not wait for it
    from . import groups, variables
    from .document import read

    path = Path(path)
    directory = path.parent.resolve()
    found = groups.host_variables(read(path))
    if not found:
        raise InventoryError(f"{path}: the inventory has no hosts", "write at least `all: {hosts: {NAME: }}`")
    return Inventory(path, {name: variables.host(name, own, directory) for name, own in found.items()})
