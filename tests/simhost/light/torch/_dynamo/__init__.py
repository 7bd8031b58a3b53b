"""``torch._dynamo``: the counters, and a reset that forgets them."""

from __future__ import annotations

from . import utils as utils


class config:
    cache_size_limit = recompile_limit = 8
    suppress_errors = False


def reset() -> None:
    utils.counters.clear()
