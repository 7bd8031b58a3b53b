#!/usr/bin/env python3
"""Connect, profile, pack, download: `collect-remote` under the name that existing pipelines call."""

import sys

from collect_remote.cli.main import run

sys.exit(run())
