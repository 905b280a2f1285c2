"""The judge of histories: good ones pass, and each planted kind of bad one does not."""

from __future__ import annotations

import attrs
import history_checker
import pytest
from history_checker import (
    Commit,
    DeleteOffsets,
    Fetched,
    NotSerializable,
    Undecided,
    Written,
    check_history,
)
from log_stores import seeded
from planted_histories import BAD, FIRST, GOOD, NOTHING, SECOND, Life, both, lost, op


@pytest.mark.parametrize("case", GOOD)
def test_a_good_history_passes(case: str) -> None:
    check_history(GOOD[case])
    check_history(reversed(GOOD[case]))


@pytest.mark.parametrize("case", BAD)
def test_a_bad_history_is_found(case: str) -> None:
    for operations in (BAD[case], BAD[case][::-1]):
        with pytest.raises(NotSerializable):
            check_history(operations)


def test_a_finding_says_where_the_order_ends() -> None:
    with pytest.raises(NotSerializable, match=r"after 2 writes.*\n.*call=Fetch"):
        check_history(BAD["a stale read"])


def test_what_takes_too_long_is_told_from_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_checker, "NODES_MAX", 3)
    with pytest.raises(Undecided):
        check_history([FIRST, SECOND, op(4, 5, both(30), Written(5)), lost(0, DeleteOffsets())])


@pytest.mark.parametrize("number", range(60))
def test_lives_drawn_at_random_pass_and_a_read_put_back_in_time_is_found(number: int) -> None:
    operations = Life(seeded()).run(1000, clients=8)
    check_history(operations)
    reads = [
        each for each in operations if isinstance(each.outcome, Fetched) and each.outcome != NOTHING
    ]
    commits = [
        each
        for each in operations
        if isinstance(each.outcome, Written) and isinstance(each.call, Commit)
    ]
    # What one read, given to another, with a commit in between.
    early, late = next(
        (early, late)
        for late in reads
        for early in reads
        for each in commits
        if early.answered < each.called and each.answered < late.called
    )
    put_back = attrs.evolve(late, outcome=early.outcome)
    with pytest.raises(NotSerializable):
        check_history([put_back if each is late else each for each in operations])
