from __future__ import annotations

import struct

import attrs
import pytest
from cleaning import batch, keyed, no_throttle, rec, segments
from offsetd_storage.batch.compression import Compression
from offsetd_storage.cleaner.segment_chunks import SegmentChunk, SegmentChunks
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels import PADDING_BYTES, scan

CONTENT = [keyed("a"), keyed("b", at=1), batch(rec(2, "c", "v" * 499)), keyed("d", at=3)]


def taken(source: SegmentChunks, chunk_bytes: int) -> list[tuple[int, int]]:
    """Where each chunk lay and ended, if all whole batches in it are taken."""
    chunk = SegmentChunk(source, chunk_bytes=chunk_bytes)
    found = []
    size = 0
    while chunk.read_on(size, no_throttle):
        size = 0
        while size + 61 <= chunk.end:
            batch_bytes = chunk.header(size).size_bytes
            if size + batch_bytes > chunk.end:
                break
            size += batch_bytes
        found.append((chunk.position, chunk.position + size))
    return found


@pytest.mark.parametrize(
    ("chunk_bytes", "chunks"),
    [
        (10_000, [(0, 780)]),
        (141, [(0, 140), (140, 140), (140, 710), (710, 780)]),
        (1, [(0, 0), (0, 70), (70, 140), (140, 140), (140, 710), (710, 780)]),
    ],
)
def test_every_chunk_begins_with_a_batch_and_grows_to_hold_one(chunk_bytes, chunks):
    (source,) = segments(CONTENT)
    assert source.size_bytes == 780
    assert taken(source, chunk_bytes) == chunks


def test_reading_may_begin_behind_the_start():
    (source,) = segments(CONTENT)
    assert taken(attrs.evolve(source, start_position=140), 1000) == [(140, 780)]
    assert taken(attrs.evolve(source, start_position=780), 1000) == []


def test_the_buffer_is_padded():
    (source,) = segments(CONTENT)
    chunk = SegmentChunk(source, chunk_bytes=780)
    assert chunk.read_on(0, no_throttle)
    assert (chunk.end, chunk.buffer.size) == (780, 780 + PADDING_BYTES)


def test_a_batch_beyond_what_is_read_at_once_is_damage():
    (source,) = segments([keyed("a")])
    source.file.pwrite([struct.pack(">i", 2**30)], 8)
    chunk = SegmentChunk(attrs.evolve(source, size_bytes=2**31), chunk_bytes=61)
    assert chunk.read_on(0, no_throttle)
    with pytest.raises(CorruptBatch, match="too large at byte 0"):
        chunk.read_on(0, no_throttle)


@pytest.mark.parametrize(("size", "reason"), [(30, "incomplete"), (69, "incomplete")])
def test_a_batch_that_is_cut_is_damage(size, reason):
    (source,) = segments([keyed("a")])
    chunk = SegmentChunk(attrs.evolve(source, size_bytes=size), chunk_bytes=61)
    assert chunk.read_on(0, no_throttle)
    with pytest.raises(CorruptBatch, match=f"{reason} at byte 0"):
        chunk.read_on(0, no_throttle)


def test_a_batch_is_told_by_its_place_in_the_file():
    (source,) = segments([keyed("a"), keyed("b", at=1, compression=Compression.ZSTD)])
    source.file.pwrite([b"\1"], 70 + 22)  # It says gzip now.
    chunk = SegmentChunk(attrs.evolve(source, start_position=70), chunk_bytes=1000)
    assert chunk.read_on(0, no_throttle)
    header = chunk.header(0)
    for read in (
        lambda: chunk.decoded(0),
        lambda: chunk.check(0, header),
        lambda: chunk.decompressed(0, header),
        lambda: chunk.decompressed(0, attrs.evolve(header, attributes=7)),
        lambda: chunk.fail(scan.BAD_OFFSET, 0),
    ):
        with pytest.raises(CorruptBatch) as failure:
            read()
        assert failure.value.position == 70
