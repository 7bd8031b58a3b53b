"""How a process has ended, in words."""

from __future__ import annotations

import pytest

from collect_agent.ending import ending, how_ended


@pytest.mark.parametrize(
    ("status", "said", "predicate"),
    [
        (0, "exit status 0", "ended with exit status 0"),
        (1, "exit status 1", "ended with exit status 1"),
        (128, "exit status 128", "ended with exit status 128"),
        (255, "exit status 255", "ended with exit status 255"),
        (-9, "killed by SIGKILL", "was killed by SIGKILL"),
        (-15, "killed by SIGTERM", "was killed by SIGTERM"),
        (-50, "killed by signal 50", "was killed by signal 50"),
        (137, "exit status 137, a shell's for SIGKILL", "ended with exit status 137, a shell's for SIGKILL"),
        (139, "exit status 139, a shell's for SIGSEGV", "ended with exit status 139, a shell's for SIGSEGV"),
    ],
)
def test_a_signal_is_named(status: int, said: str, predicate: str) -> None:
    assert (ending(status), how_ended(status)) == (said, predicate)
