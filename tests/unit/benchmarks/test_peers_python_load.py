"""The load generator in Python: what it counts, and where."""

from __future__ import annotations

import pytest

from benchmarks.peers.python_load import Loop, Noted, check

LOOP = Loop(partitions=2, fetch=True, first=1, from_s=10.0, until_s=20.0)


def test_a_commit_counts_where_it_is_answered() -> None:
    noted = Noted(seconds=10.0)
    for started_s, answered_s in ((9.0, 9.5), (9.5, 11.0), (18.0, 19.0), (19.0, 21.0)):
        noted.add(LOOP, started_s, answered_s, answered_s + 0.25)
    noted.end(LOOP)
    assert noted.commits == [1.5, 1.0]
    assert noted.fetches == [0.25, 0.25]
    assert noted.all_commits == 4
    assert noted.seconds == 10.0


def test_what_came_late_counts_with_its_fetches_when_there_is_nothing_else() -> None:
    noted = Noted(seconds=10.0)
    noted.add(LOOP, 9.0, 21.0, 24.0)
    noted.end(LOOP)
    assert (noted.commits, noted.fetches, noted.all_commits) == ([12.0], [3.0], 1)
    assert noted.seconds != 10.0


@pytest.mark.parametrize("stored", [[7], [7, 6], [7, 7, 7], []])
def test_a_fetch_that_is_not_what_was_committed_is_refused(stored: list[int]) -> None:
    check([7, 7], 7, LOOP)
    with pytest.raises(RuntimeError, match="not 7"):
        check(stored, 7, LOOP)
