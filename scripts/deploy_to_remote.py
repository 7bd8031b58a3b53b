#!/usr/bin/env python3
"""Put the agent on a host of the inventory and print where it is: deploy_to_remote.py HOST [INVENTORY]."""

import sys

try:
    from collect_remote.cli import script
    from collect_remote.collection import pipeline
except ImportError as error:
    sys.exit(f"error: collect-remote is not installed for {sys.executable}: {error}\n  try: pip install .")

if __name__ == "__main__":
    sys.exit(script.run(__doc__, pipeline.deploy_agent))
