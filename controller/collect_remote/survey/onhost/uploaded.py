"""Whether the agent is there already, whole."""

import hashlib
import os

TYPE_CHECKING = False


def intact(path):
    # type: (str) -> bool
    """Whether the agent is there and has the digest that its name begins."""
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()[:16] in os.path.basename(path)
    except (IOError, OSError):
        return False
