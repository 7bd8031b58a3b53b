#!/usr/bin/env python3
"""Print the logic id of the best free NPU of a host of the inventory: pick_free_device.py HOST [INVENTORY]."""

import sys
from pathlib import Path

from collect_remote import CollectError, load_inventory
from collect_remote.devices import Wish, groups
from collect_remote.pipeline import devices

if len(sys.argv) < 2:
    sys.exit(__doc__)
try:
    host = load_inventory(Path(sys.argv[2] if len(sys.argv) > 2 else "inventory.yaml")).host(sys.argv[1])
    print(groups(devices(host), Wish())[0][0].logic)
except CollectError as error:
    print(f"error: {error.message}\n  try: {error.remedy}", file=sys.stderr)
    sys.exit(error.exit_code)
