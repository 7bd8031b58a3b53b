"""`python -m collect_remote` is `collect-remote`."""

import sys

from .cli import run

sys.exit(run())
