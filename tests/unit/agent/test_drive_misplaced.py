"""A rank on another host than its own, by the environments of a job's processes."""

from __future__ import annotations

import pytest

from collect_agent.drive.misplaced import misplaced


def of(**variables: str) -> list[bytes]:
    return ["{}={}".format(*pair).encode() for pair in variables.items()] + [b""]


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"RANK": "2", "WORLD_SIZE": "4"}, None),
        ({"RANK": "1", "WORLD_SIZE": "4"}, 1),
        ({"RANK_ID": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "4"}, 0),
        ({"RANK_ID": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}, None),
        ({"LOCAL_RANK": "0", "WORLD_SIZE": "4"}, None),  # which of the job's it is does not show
        ({"RANK": "0", "WORLD_SIZE": "2"}, None),  # of a job within
        ({"RANK": "first", "WORLD_SIZE": "4"}, None),
        ({"PATH": "/bin"}, None),
    ],
)
def test_ranks_of_the_second_of_two_hosts(variables: dict[str, str], found: int | None) -> None:
    assert misplaced([of(WORLD_SIZE="4"), of(**variables)], range(2, 4), 4) == found
