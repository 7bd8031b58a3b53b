#!/usr/bin/env python3
"""Put the agent on a host of the inventory and print where it is: deploy_to_remote.py HOST [INVENTORY]."""

import sys
from pathlib import Path

from collect_remote import CollectError, load_inventory
from collect_remote.pipeline import deploy_agent

if len(sys.argv) < 2:
    sys.exit(__doc__)
try:
    print(deploy_agent(load_inventory(Path(sys.argv[2] if len(sys.argv) > 2 else "inventory.yaml")).host(sys.argv[1])))
except CollectError as error:
    print(f"error: {error.message}\n  try: {error.remedy}", file=sys.stderr)
    sys.exit(error.exit_code)
