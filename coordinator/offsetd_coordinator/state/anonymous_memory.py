"""Arrays over anonymous memory, for tables that grow.

A page takes memory only after it is used for the first time, so spare room is free. The memory
returns to the system as soon as the array is freed; with `malloc`, it does not always. There is no
file.
"""

from __future__ import annotations

import math
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

PAGE_BYTES = mmap.PAGESIZE


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """An array of zeros, of at least one element."""
    count = math.prod(shape)
    memory = mmap.mmap(-1, count * np.dtype(dtype).itemsize, flags=mmap.MAP_PRIVATE)
    return np.frombuffer(memory, dtype=dtype, count=count).reshape(shape)


def grown(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    """A copy with `rows` rows, the new ones zero."""
    copy = zeros((rows, *array.shape[1:]), array.dtype)
    if array.any():  # If all are zeros, a copy would only make the pages take memory.
        copy[: len(array)] = array
    return copy
