"""The part of the survey on the host of a container: its devices, its Python, and where the mounts come from.

Arguments: the mark of our lines, our directory, the agent's file name. BOX in the environment is what the engine says
of the container, as JSON. Descriptor 5 is where the answers go in the end.
"""

import json
import os
import sys
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional  # noqa: F401 - used in comments

    from .looking import Looking
    from .uploaded import intact


def identity(path):
    # type: (str) -> Optional[List[int]]
    """What names a directory or file in whichever place it is mounted; None where it cannot be looked at."""
    try:
        status = os.stat(path)
    except (IOError, OSError):
        return None
    return [status.st_dev, status.st_ino]


def sources(inspected, found):
    # type: (str, Dict[str, Any]) -> None
    """Add every mount's place on the host. A dead network disk may hold this for ever."""
    try:
        told = json.loads(inspected).get("Mounts") or []
        for mount in told:
            found[mount["Source"]] = identity(mount["Source"])
    except (ValueError, AttributeError, KeyError, TypeError):
        pass


def outside(mark, workdir, agent):
    # type: (str, str, str) -> None
    looking = Looking((5,))
    places = {}  # type: Dict[str, Any]
    walking = threading.Thread(target=sources, args=(os.environ.pop("BOX", ""), places))
    walking.daemon = True
    walking.start()
    workdir = os.path.realpath(os.path.expanduser(workdir))
    found = {
        "python": sys.executable,
        "version": list(sys.version_info[:3]),
        "workdir": workdir,
        "agent_present": intact(os.path.join(workdir, "agent", agent)),
    }  # type: Dict[str, Any]
    found["npu"] = looking.found()
    walking.join(2.0)
    found["sources"] = dict(places)
    sys.stdout.write("\n" + mark + "outside " + json.dumps(found) + "\n")


if __name__ == "__main__":
    outside(*sys.argv[1:])
