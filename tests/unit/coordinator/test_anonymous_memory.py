"""Arrays over anonymous memory."""

from __future__ import annotations

import numpy as np
import pytest
from offsetd_coordinator.anonymous_memory import grown, zeros


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
