"""Slots against a plain list, full to three quarters, with tags that collide."""

from __future__ import annotations

import random

import numpy as np
import pytest
from offsetd_coordinator.kernels.table.slots import (
    add_slot,
    has_tag,
    home_of,
    refill_slots,
    remove_slot,
    row_in,
    slot_after,
)
from offsetd_storage.kernels.registry import kernel

pytestmark = pytest.mark.kernel


@kernel("void(int64[::1], int64, int64)")
def add(slots: np.ndarray, tag: int, row: int) -> None:
    add_slot(slots, tag, row)


@kernel("void(int64[::1], int64, int64)")
def remove(slots: np.ndarray, tag: int, row: int) -> None:
    remove_slot(slots, tag, row)


@kernel("int64(int64[::1], int64, int64[::1])")
def find_all(slots: np.ndarray, tag: int, found: np.ndarray) -> int:
    count = 0
    at = home_of(slots, tag)
    while slots[at] != 0:
        if has_tag(slots[at], tag):
            found[count] = row_in(slots[at])
            count += 1
        at = slot_after(slots, at)
    return count


def rows_with(slots: np.ndarray, tag: int) -> list[int]:
    found = np.empty(slots.size, np.int64)
    return sorted(found[: find_all(slots, tag, found)].tolist())


# The last tags start at the last slot, so that probing goes around the end.
TAGS = [0, 1, 2**31, 2**32 - 2, 2**32 - 1]


@pytest.mark.parametrize("size", [4, 17, 100])
@pytest.mark.parametrize("tags", [TAGS, [2**32 - 1], None])
def test_slots_find_every_row_that_was_added_and_not_removed(
    size: int, tags: list[int] | None
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    slots = np.zeros(size, np.int64)
    held: list[tuple[int, int]] = []
    for row in range(2000):
        if held and (len(held) * 4 >= size * 3 or chance.random() < 0.4):
            tag, removed = held.pop(chance.randrange(len(held)))
            remove(slots, tag, removed)
        else:
            tag = chance.choice(tags) if tags else chance.randrange(2**32)
            add(slots, tag, row)
            held.append((tag, row))
        for tag, _ in held[-5:]:
            assert rows_with(slots, tag) == sorted(each for other, each in held if other == tag)
    assert np.count_nonzero(slots) == len(held)
    for tag, row in held:
        remove(slots, tag, row)
    assert not slots.any()


def test_other_slots_are_refilled_with_all_rows() -> None:
    slots = np.zeros(12, np.int64)
    for row, tag in enumerate([*TAGS, 5, 5]):
        add(slots, tag, row)
    more = np.zeros(40, np.int64)
    refill_slots(slots, more)
    assert [rows_with(more, tag) for tag in TAGS] == [[0], [1], [2], [3], [4]]
    assert rows_with(more, 5) == [5, 6]
