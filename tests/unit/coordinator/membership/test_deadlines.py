"""Deadlines that are moved far more often than they come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.membership.deadlines import Deadlines

keys = st.sampled_from("abcd")
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), keys, st.integers(0, 50)),
        st.tuples(st.just("cancel"), keys, st.just(0)),
        st.tuples(st.just("wait"), st.just(""), st.integers(0, 20)),
    ),
    max_size=60,
)


@given(steps)
def test_each_key_comes_once_when_its_last_deadline_does(
    drawn: list[tuple[str, str, int]],
) -> None:
    deadlines: Deadlines[str] = Deadlines()
    model: dict[str, int] = {}
    now = 0
    for what, key, number in drawn:
        if what == "set":
            deadlines.set(key, now + number)
            model[key] = now + number
        elif what == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            now += number
            came = list(deadlines.expired(now))
            assert sorted(came) == sorted(key for key, due in model.items() if due <= now)
            model = {key: due for key, due in model.items() if due > now}
        assert len(deadlines) == len(model)
        assert all(deadlines.get(key) == due for key, due in model.items())
        if model:
            assert deadlines.next_ms is not None
            assert deadlines.next_ms <= min(model.values())


def test_what_was_cancelled_is_forgotten_at_last() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for number in range(10_000):
        deadlines.set(number, 1_000_000)
        deadlines.cancel(number)
    assert len(deadlines) == 0
    assert len(deadlines._heap) < 200


def test_moving_a_deadline_to_a_later_time_leaves_the_heap_alone() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for now in range(10_000):
        deadlines.set("member", now + 10_000)
    assert len(deadlines._heap) == 1
    assert list(deadlines.expired(10_000)) == []
    assert deadlines.next_ms == 19_999


def test_a_deadline_may_be_set_and_cancelled_by_what_another_brings() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, due in (("a", 1), ("b", 2), ("c", 3)):
        deadlines.set(key, due)
    came = []
    for key in deadlines.expired(10):
        came.append(key)
        if key == "a":
            deadlines.cancel("b")
            deadlines.set("d", 5)
    assert came == ["a", "c", "d"]
