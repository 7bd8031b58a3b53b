#!/usr/bin/env python3
"""Print the logic id of the best free NPU of a host of the inventory: pick_free_device.py HOST [INVENTORY]."""

import sys

try:
    from collect_remote.cli import script
    from collect_remote.collection import pipeline
    from collect_remote.npus.judged import Wish, groups
except ImportError as error:
    sys.exit(f"error: collect-remote is not installed for {sys.executable}: {error}\n  try: pip install .")

if __name__ == "__main__":
    sys.exit(script.run(__doc__, lambda host: groups(pipeline.devices(host), Wish())[0][0].logic))
