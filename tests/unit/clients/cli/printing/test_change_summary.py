"""The line that says what a change comes to."""

from __future__ import annotations

import pytest
from offsetd_clients.cli.printing.change_summary import summary


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([(5_000, 3)], "1 offset: 1 back, by 4,997 in all"),
        ([(5, 3)], "1 offset: 1 back, by 2 in all"),
        ([(5, 3), (9, 4)], "2 offsets: 2 back, by 7 in all"),
        ([(5, 8), (1, 1)], "2 offsets: 1 ahead, by 3 in all; 1 unchanged"),
        ([(None, 0), (0, None)], "2 offsets: 1 new; 1 deleted"),
    ],
)
def test_a_change_is_told_in_a_line(
    changes: list[tuple[int | None, int | None]], expected: str
) -> None:
    assert summary(changes) == expected
