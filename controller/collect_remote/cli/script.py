"""What the small scripts share: one host of an inventory in, one line out, errors as the command says them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import CollectError, Interrupted
from ..inventory import Host, load
from .say import explain, warn


def run(usage: str | None, ask: Callable[[Host], object]) -> int:
    """Print what `ask` tells of the host that the command line names: HOST [INVENTORY]. The exit status."""
    if len(sys.argv) not in (2, 3):
        print(usage, file=sys.stderr)
        return 1
    name, inventory = (*sys.argv[1:], "inventory.yaml")[:2]
    try:
        known = load(Path(inventory))
        for caution in known.cautions:
            warn(caution.message, caution.remedy)
        print(ask(known.host(name)))
    except CollectError as error:
        explain(error)
        return error.exit_code
    except KeyboardInterrupt:
        explain(Interrupted("interrupted"))
        return Interrupted.exit_code
    return 0
