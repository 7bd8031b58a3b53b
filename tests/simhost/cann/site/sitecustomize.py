"""For a Python that has this directory on its path: see `simulated_npu`."""

import simulated_npu  # noqa: F401 - importing it is what it is for
