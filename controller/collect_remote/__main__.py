"""`python -m collect_remote` is `collect-remote`."""

import sys

from .cli.main import run

status = run()
# Python notes an interrupt that leaves the text of an `exec` (dataclasses are made so), though it was answered, and
# under -m ends by a SIGINT to itself in place of the status. The next `exec` makes it forget (Python 3.8 to 3.13).
exec("")  # noqa: S102
sys.exit(status)
