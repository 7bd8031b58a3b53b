"""Gives torch_npu its operators on a host without an NPU; importing this package imports nothing else.

It waits for `torch_npu` to be imported and then registers CPU implementations for the device. Loaded by one
line in a .pth file of the simulated host's Python, or through `sitecustomize` where only the directory is on the
path.
"""

import os
import sys


class _AfterTorchNpu:
    """A meta path finder that lets torch_npu be found as ever and acts when it has been executed."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch_npu":
            return None
        sys.meta_path.remove(self)
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            # The operators run in the caller's thread, so there is no queue in which torch_npu could note them;
            # with its queue on for other tasks (events), its parser would look for every kernel in there.
            os.environ["TASK_QUEUE_ENABLE"] = "0"
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                from . import operators

                operators.register()

            spec.loader.exec_module = exec_module
        return spec


if not any(isinstance(finder, _AfterTorchNpu) for finder in sys.meta_path):
    sys.meta_path.insert(0, _AfterTorchNpu())
