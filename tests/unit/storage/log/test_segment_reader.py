"""Reading a segment: where batches begin and end, with and without the index."""

from __future__ import annotations

import numpy as np
import pytest
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.log.segment import Segment
from partition_logs import FOLDER, NOW_MS, batch_of

INDEX_INTERVAL_BYTES = 500


def written(sizes_bytes: list[int], *, count: int = 1) -> Segment:
    """A segment of batches of these sizes, or somewhat more."""
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    config = LogConfig(index_interval_bytes=INDEX_INTERVAL_BYTES)
    segment = Segment(files, FOLDER, 0, config, create=True)
    for size_bytes in sizes_bytes:
        batch = batch_of(segment.offset_next, count=count, size_bytes=size_bytes)
        segment.make_room(batch_bytes=len(batch), max_timestamp_ms=NOW_MS, now_ms=NOW_MS)
        last_offset = segment.offset_next + count - 1
        segment.append(batch, last_offset, NOW_MS, last_offset)
    segment.file.pwrite([segment.take_unwritten()], 0)
    segment.written_bytes = segment.size_bytes
    return segment


def batch_ends(segment: Segment) -> np.ndarray:
    with segment.reader() as reader:
        walked = reader.headers(0, segment.written_bytes)
        return np.array([position + header.size_bytes for position, header in walked])


def test_batches_are_found_with_and_without_the_index() -> None:
    segment = written([100 + 10 * number for number in range(30)], count=2)
    ends = batch_ends(segment)
    starts = np.concatenate(([0], ends[:-1]))
    assert len(segment.offset_index) > 3
    with segment.reader() as reader:
        for offset in range(60):
            assert reader.position_of(offset) == starts[offset // 2]
        assert reader.position_of(60) == segment.written_bytes
        for start in starts:
            for bytes_max in (1, 100, 555, 1000, 10**6):
                fitting = ends[(ends > start) & (ends <= start + bytes_max)]
                after_one = ends[ends > start][0]
                expected = max(fitting, default=after_one)
                assert reader.batches_end(int(start), bytes_max) == expected


def test_chunks_end_where_batches_do() -> None:
    segment = written([200] * 50)
    ends = batch_ends(segment)
    with segment.reader() as reader:
        assert reader.chunk_end(0, 10_000, 20_000) == 10_000
        for chunk_bytes in (1, 900, 2000, 5000):
            position = 0
            while position < 10_000:
                end = reader.chunk_end(position, 10_000, chunk_bytes)
                assert end > position
                assert end in ends
                assert end - position <= max(chunk_bytes, INDEX_INTERVAL_BYTES + 400)
                position = end


@pytest.mark.parametrize(("position", "content"), [(16, b"\x01"), (8, b"\x7f"), (11, b"\x00")])
def test_walking_over_a_damaged_header_raises(position: int, content: bytes) -> None:
    segment = written([100, 100])
    segment.file.pwrite([content], 100 + position)
    with segment.reader() as reader, pytest.raises(CorruptBatch):
        list(reader.headers(0, 200))


def test_a_reader_reads_on_after_the_segment_was_closed() -> None:
    segment = written([100, 100])
    with segment.reader() as reader:
        segment.close()
        assert [position for position, _ in reader.headers(0, 200)] == [0, 100]
