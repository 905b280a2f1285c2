"""Arrays over anonymous memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from offsetd_coordinator.state.anonymous_memory import grown, zeros


@pytest.mark.parametrize("shape", [(1,), (1000,), (3, 7)])
def test_new_memory_is_zero_writable_and_contiguous(shape: tuple[int, ...]) -> None:
    array = zeros(shape, np.int64)
    assert array.shape == shape
    assert not array.any()
    array += 1
    assert array.all()
    assert array.flags.c_contiguous
    assert array.flags.aligned


def test_a_grown_array_keeps_its_rows_and_adds_zeros() -> None:
    array = zeros((2, 3), np.int64)
    array[:] = [[1, 2, 3], [4, 5, 6]]
    larger = grown(array, 4)
    assert larger.tolist() == [[1, 2, 3], [4, 5, 6], [0, 0, 0], [0, 0, 0]]
    larger[0, 0] = 9
    assert array[0, 0] == 1


def test_what_was_never_written_takes_no_memory_when_it_grows() -> None:
    array = zeros((64 << 20,), np.uint8)
    before_bytes = anonymous_bytes()
    larger = grown(array, 2 * array.size)
    assert anonymous_bytes() - before_bytes < 16 << 20
    larger[:] = 1
    assert anonymous_bytes() - before_bytes >= 128 << 20


def anonymous_bytes() -> int:
    """Memory of this process that is no file's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "RssAnon":
            return int(value.split()[0]) * 1024
    raise AssertionError("Linux tells RssAnon")
