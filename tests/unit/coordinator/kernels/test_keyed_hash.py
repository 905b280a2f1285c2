"""The keyed hash: it follows its definition, and depends on every bit and on its seeds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.kernels.table.keyed_hash import (
    hash_bytes,
    hash_words,
    multiply_fold,
    tag_of,
)
from offsetd_storage.kernels import padded_copy
from offsetd_storage.kernels.registry import kernel

if TYPE_CHECKING:
    import numpy as np

pytestmark = pytest.mark.kernel

SEED, SEED_2 = 0x243F6A8885A308D3, -0x6C8E9CF570932BD6
MASK = (1 << 64) - 1


@kernel("int64(int64, int64)")
def fold(first: int, second: int) -> int:
    return multiply_fold(first, second)


@kernel("int64(int64, int64, int64, int64)")
def words(first: int, second: int, seed: int, seed_2: int) -> int:
    return hash_words(first, second, seed, seed_2)


@kernel("int64(uint8[::1], int64, int64, int64, int64)")
def hashed_bytes(buffer: np.ndarray, start: int, size: int, seed: int, seed_2: int) -> int:
    return hash_bytes(buffer, start, size, seed, seed_2)


@kernel("int64(int64)")
def tag(hashed: int) -> int:
    return tag_of(hashed)


def hash_of(content: bytes, seed: int = SEED) -> int:
    return hashed_bytes(padded_copy(content), 0, len(content), seed, SEED_2)


@pytest.mark.parametrize(
    ("first", "second"), [(0, 5), (1, -1), (-1, -1), (2**63 - 1, -(2**63)), (SEED, SEED_2)]
)
def test_a_fold_is_the_xor_of_the_halves_of_the_unsigned_product(first: int, second: int) -> None:
    product = (first & MASK) * (second & MASK)
    folded = fold(first, second)
    assert folded & MASK == (product >> 64) ^ (product & MASK)
    assert words(first ^ SEED, second ^ SEED_2, SEED, SEED_2) == folded


@pytest.mark.parametrize("size", [*range(34), 249, 1000])
def test_every_bit_of_a_name_counts_and_nothing_around_it(size: int) -> None:
    content = bytes(index * 37 % 256 for index in range(size))
    hashed = hash_of(content)
    for bit in range(8 * size):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        assert hash_of(bytes(changed)) != hashed
    around = padded_copy(b"before" + content + b"behind it all there is more")
    assert hashed_bytes(around, 6, size, SEED, SEED_2) == hashed
    assert hash_of(content + b"\0") != hashed
    assert hash_of(content, SEED + 1) != hashed or size == 0


def test_tags_of_similar_names_spread_over_the_slots() -> None:
    seed = random.randrange(2**63)
    print(f"seed {seed}")
    tags = [tag(hash_of(b"consumer-group-%07d" % number, seed)) for number in range(20_000)]
    assert all(0 <= each < 2**32 for each in tags)
    slots = [each * 1000 >> 32 for each in tags]
    fullest = max(map(slots.count, range(1000)))
    assert fullest < 60  # 20 expected; 60 would be nine standard deviations off.
    assert len(set(tags)) > 19_990


def test_a_tag_is_the_upper_half() -> None:
    assert tag(-1) == 2**32 - 1
    assert tag(1 << 32) == 1
    assert tag((1 << 32) - 1) == 0
