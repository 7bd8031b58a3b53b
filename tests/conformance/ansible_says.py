"""What ansible-core makes of inventories; runs in its venv, as `ansible-inventory --list` does, for many at once.

Standard input is a list of {"sources": [...], "patterns": [...]}; standard output has for each {"groups", "variables",
"patterns"}: the hosts of every group in their order, the variables of every host, the hosts of every pattern, or null
where it refuses it.
"""

import json
import sys

from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.vars.manager import VariableManager


def answer(case):
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=case["sources"])
    variables = VariableManager(loader=loader, inventory=inventory)
    return {
        "groups": inventory.get_groups_dict(),
        "variables": {
            name: variables.get_vars(host=host, include_hostvars=False, stage="all")
            for name, host in inventory.hosts.items()
        },
        "patterns": {pattern: matching(inventory, pattern) for pattern in case["patterns"]},
    }


def matching(inventory, pattern):
    try:
        return [host.name for host in inventory.get_hosts(pattern)]
    except AnsibleError:
        return None


init_plugin_loader()
json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout, default=str)
