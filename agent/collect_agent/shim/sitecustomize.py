"""What a Python runs when it starts, if this directory is first on its PYTHONPATH: ours, then the file it shadows.

Without COLLECT_REMOTE_SHIM, or with a request that cannot be read, nothing of ours happens.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import PathFinder

PACKAGE = "collect_remote_shim"


def start():
    # type: () -> None
    """Make ready for torch_npu.profiler; once in a process, and whatever goes wrong stays here."""
    request = os.environ.get("COLLECT_REMOTE_SHIM")
    if not request or PACKAGE in sys.modules:
        return
    before = sys.dont_write_bytecode
    sys.dont_write_bytecode = False  # these files are in a directory of ours: compile them once, not in every process
    try:
        import_module(PACKAGE + ".start").start(request)
    except Exception:  # noqa: BLE001, S110 - a program runs as if the shim were not there
        pass
    finally:
        sys.dont_write_bytecode = before


def chain():
    # type: () -> None
    """Run the sitecustomize that this one hides, as if this one were not there; its errors are its own."""
    here = os.path.realpath(os.path.dirname(__file__))
    others = [place for place in sys.path if os.path.realpath(place) != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None or spec.origin is None:
        return
    module = type(sys)("sitecustomize")
    module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


start()
chain()
