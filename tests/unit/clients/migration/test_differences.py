"""How what is stored stands to what a source has."""

from __future__ import annotations

import pytest
from migrations import FakeTarget, found
from offsetd_clients import Bounds, TopicPartition
from offsetd_clients.migration.differences import State, differences

WHERE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("stored", "bounds", "state"),
    [
        (None, None, State.MISSING),
        (42, None, State.EQUAL),
        (41, None, State.BEHIND),
        (43, None, State.AHEAD),
        (None, Bounds(0, 41), State.OUT_OF_BOUNDS),
        (None, Bounds(43, 50), State.OUT_OF_BOUNDS),
        (42, Bounds(43, 50), State.OUT_OF_BOUNDS),
        (None, Bounds(42, 42), State.MISSING),
        (None, Bounds(None, 42), State.MISSING),
        (None, Bounds(42, None), State.MISSING),
    ],
)
def test_states(stored: int | None, bounds: Bounds | None, state: State) -> None:
    target = FakeTarget()
    if stored is not None:
        target.commit("g", "t", 0, stored)
    [difference] = differences(
        "g",
        [found("t", 0, 42)],
        target.stored(["g"])["g"],
        {} if bounds is None else {WHERE: bounds},
    )
    assert (difference.state, difference.found.offset) == (state, 42)


@pytest.mark.parametrize("more", [{"leader_epoch": 3}, {"metadata": "m"}])
def test_the_same_offset_with_something_else_beside_it_is_a_conflict(
    more: dict[str, object],
) -> None:
    target = FakeTarget()
    target.commit("g", "t", 0, 42)
    stored = target.stored(["g"])["g"]
    [difference] = differences("g", [found("t", 0, 42, **more)], stored)
    assert difference.state is State.CONFLICT
