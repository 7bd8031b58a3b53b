"""What goes wrong on demand: VLLM_MINIATURE_TROUBLES, a comma list of ``name`` or ``name=value``.

slow_load=S      loading the model takes so many seconds more
never_ready      it never ends
dies_loading     a worker is killed while it loads the model
dies_serving=N   a worker is killed in its forward number N after the profiler was started
slow_stop=S      /stop_profile answers so much later
stop_500         /stop_profile answers with 500
"""

from __future__ import annotations

import os


def trouble(name: str) -> str | None:
    """Its value, "" where it has none; None where it was not asked for."""
    asked = dict(item.partition("=")[::2] for item in os.environ.get("VLLM_MINIATURE_TROUBLES", "").split(","))
    return asked.get(name)
