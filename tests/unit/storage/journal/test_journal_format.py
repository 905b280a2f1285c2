"""The bytes of the journal: what is written is read, and nothing else is."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from offsetd_storage.disk.checksums import checksum
from offsetd_storage.errors import NewerFormat
from offsetd_storage.folder.folder_format import MARK_BYTES
from offsetd_storage.journal.journal_format import (
    FORMAT_VERSION,
    FRAME,
    FrameKind,
    FramePayload,
    JournalHeader,
    RecoveryPoint,
    batch_entry_bytes,
    decode_batches,
    decode_header,
    decode_points,
    encode_batches,
    encode_header,
    encode_points,
    frame_bytes,
    header_bytes,
    read_frame,
    sealed_frame,
)
from offsetd_storage.kernels import PADDING_BYTES, padded_copy
from offsetd_storage.topic_partition import TopicPartition

MARK = b"a secret"
P = TopicPartition("__consumer_offsets", 49)
Q = TopicPartition("orders.v-2_", 0)
POINTS = (
    RecoveryPoint(
        topic_partition=P,
        offset=1 << 40,
        journal_offset_next=(1 << 40) + 7,
        segment_base_offset=1 << 39,
        segment_bytes=104_857_600,
        leader_epoch=12,
    ),
    RecoveryPoint.of_held(Q),
)
HEADER = JournalHeader(
    folder_id=bytes(range(16)),
    life=(1 << 64) - 1,
    file_number=3,
    first_sequence=1 << 50,
    file_bytes=4096,
    frames_start=512,
    points=POINTS,
)


def frame_of(
    payload: bytes = b"payload", *, sequence: int = 5, life: int = 9, mark: bytes = MARK
) -> bytes:
    frame = sealed_frame(
        FramePayload.of(payload), mark=mark, kind=FrameKind.BATCHES, life=life, sequence=sequence
    )
    return frame.tobytes()


def flipped(content: bytes, position: int, bit: int) -> bytes:
    changed = bytearray(content)
    changed[position] ^= 1 << bit
    return bytes(changed)


def test_recovery_points_read_back() -> None:
    assert decode_points(encode_points(POINTS) + b"more") == POINTS


def test_batches_read_back_in_order() -> None:
    batches = [(P, b"one"), (Q, b""), (P, b"two" * 99)]
    payload = encode_batches(batches)
    assert list(decode_batches(payload)) == batches
    entries = sum(batch_entry_bytes(partition, len(batch)) for partition, batch in batches)
    assert len(payload) == 4 + entries


def test_a_frame_reads_back() -> None:
    content = frame_of(b"payload")
    frame = read_frame(padded_copy(content), 0, len(content), mark=MARK)
    assert frame is not None
    assert (frame.kind, frame.life, frame.sequence) == (1, 9, 5)
    assert content[frame.payload_start : frame.payload_end] == b"payload"
    assert frame.end == len(content) == frame_bytes(7)


def test_a_frame_with_any_bit_flipped_is_none() -> None:
    content = frame_of(b"payload")
    covered = FRAME.size + len(b"payload")  # Behind it there is padding, which means nothing.
    for position in range(covered):
        for bit in range(8):
            damaged = flipped(content, position, bit)
            frame = read_frame(padded_copy(damaged), 0, len(damaged), mark=MARK)
            assert frame is None, (position, bit)


@pytest.mark.parametrize("size", range(0, FRAME.size + 7, 5))
def test_a_frame_cut_short_is_none(size: int) -> None:
    content = frame_of(b"payload")[:size]
    assert read_frame(padded_copy(content), 0, size, mark=MARK) is None


def test_a_frame_of_another_folder_is_none() -> None:
    content = frame_of(mark=b"x" * MARK_BYTES)
    assert read_frame(padded_copy(content), 0, len(content), mark=MARK) is None


def test_a_header_reads_back() -> None:
    content = encode_header(HEADER)
    assert len(content) == header_bytes(POINTS)
    assert decode_header(padded_copy(content + b"frames"), len(content) + 6) == HEADER


def test_a_header_with_any_bit_flipped_is_none() -> None:
    content = encode_header(HEADER)
    for position in range(len(content)):
        for bit in range(8):
            damaged = flipped(content, position, bit)
            assert decode_header(padded_copy(damaged), len(damaged)) is None, (position, bit)


def test_a_header_cut_short_is_none() -> None:
    content = encode_header(HEADER)
    for size in range(len(content)):
        assert decode_header(padded_copy(content[:size]), size) is None


def test_zeros_are_neither_a_header_nor_a_frame() -> None:
    zeros = np.zeros(4096 + PADDING_BYTES, dtype=np.uint8)
    assert decode_header(zeros, 4096) is None
    assert read_frame(zeros, 512, 4096, mark=MARK) is None


def test_a_newer_header_is_recognised_whatever_follows() -> None:
    prefix = b"offsetdJ" + (FORMAT_VERSION + 1).to_bytes(4)
    content = prefix + checksum(prefix).to_bytes(4) + b"\xee" * 4000
    with pytest.raises(NewerFormat):
        decode_header(padded_copy(content), len(content))


def test_recovery_points_beyond_the_header_are_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        encode_header(attrs.evolve(HEADER, frames_start=100))
