"""What waits for a flush: frames as the journal is going to hold them, with where logs end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from log_stores import P0, P1, append, opened, runs_of
from offsetd_storage.batch.batch_runs import split_run
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.journal.journal_format import COUNT, LogEnd, batch_entry_bytes
from offsetd_storage.kernels import padded_copy
from offsetd_storage.log.pending_frames import PendingFrames

if TYPE_CHECKING:
    from offsetd_storage.journal.batches_frame import BatchesFrame


def sizes_of(frames: list[BatchesFrame]) -> list[list[int]]:
    return [[len(batches) for _, batches in runs_of(frame)] for frame in frames]


def test_a_frame_has_the_runs_in_the_order_of_the_appends() -> None:
    store = opened(SimulatedFiles())
    runs = [(each, append(store, each)) for each in (P0, P1, P0)]
    [frame] = store._pending_frames.frames()
    assert runs_of(frame) == runs
    assert frame.payload_bytes == COUNT.size + sum(
        batch_entry_bytes(topic_partition, len(batches)) for topic_partition, batches in runs
    )


@pytest.mark.parametrize("size_bytes", [1, 7, 100_000, 5 << 20])
def test_runs_that_are_added_together_are_as_if_one_by_one(size_bytes: int) -> None:
    logs = opened(SimulatedFiles()).logs
    content = np.random.default_rng(1).integers(0, 256, 3 * size_bytes, np.uint8).tobytes()
    first, second, third = (
        content[start : start + size_bytes] for start in range(0, 3 * size_bytes, size_bytes)
    )
    spans = np.array([[2 * size_bytes, 3 * size_bytes], [0, size_bytes], [5, 5]], np.int64)
    alone, together = PendingFrames(1 << 30), PendingFrames(1 << 30)
    for _ in range(3):  # The second time in the buffers of the first, the third in others again.
        for unflushed in (alone, together):
            unflushed.add(logs[P1], second)
        for log, batches in ((logs[P0], third), (logs[P1], first), (logs[P0], b"")):
            alone.add(log, batches)
        together.add_runs([logs[P0], logs[P1], logs[P0]], padded_copy(content), spans)
        [frame], [expected] = together.take(), alone.take()
        assert runs_of(frame) == runs_of(expected)
        assert runs_of(frame) == [(P1, second), (P0, third), (P1, first), (P0, b"")]
        assert frame.ends == expected.ends == {P0: logs[P0].end, P1: logs[P1].end}
        assert frame.payload_bytes == expected.payload_bytes
        frame.clear()
        expected.clear()


def test_each_frame_fits_and_ends_where_its_batches_do() -> None:
    store = opened(SimulatedFiles())
    payload_bytes_max = store._journal.frame_payload_bytes_max
    appended = {P0: b"", P1: b""}
    ends: dict[tuple[object, int], LogEnd] = {}
    for number in range(60):
        topic_partition = (P0, P0, P1)[number % 3]
        appended[topic_partition] += append(store, topic_partition, size_bytes=150)
        end = store.logs[topic_partition].end
        ends[topic_partition, end.offset_next] = end
    frames = store._pending_frames.frames()
    assert len(frames) > 2
    for frame in frames:
        assert frame.payload_bytes <= payload_bytes_max
        last = dict(runs_of(frame))
        assert frame.ends.keys() == last.keys()
        for topic_partition, end in frame.ends.items():
            *_, batch = split_run(last[topic_partition])
            assert end == ends[topic_partition, batch_header(batch).last_offset + 1]
    for topic_partition, content in appended.items():
        runs = [run for frame in frames for run in runs_of(frame)]
        assert b"".join(batches for log, batches in runs if log == topic_partition) == content


def test_what_was_taken_is_gone() -> None:
    log = opened(SimulatedFiles()).logs[P0]
    unflushed = PendingFrames(1000)
    assert not unflushed
    assert unflushed.take() == []
    unflushed.add(log, b"one")
    assert unflushed
    taken = unflushed.take()
    assert list(map(runs_of, taken)) == [[(P0, b"one")]]
    assert not unflushed
    unflushed.add(log, b"two")
    assert list(map(runs_of, unflushed.take())) == [[(P0, b"two")]]
    unflushed.add(log, b"three")
    assert list(map(runs_of, taken)) == [[(P0, b"one")]]
    assert list(map(runs_of, unflushed.take())) == [[(P0, b"three")]]


def test_batches_larger_than_what_is_left_begin_a_frame() -> None:
    log = opened(SimulatedFiles()).logs[P0]
    unflushed = PendingFrames(1000)
    for size_bytes in (600, 10, 600):
        assert unflushed.make_room(size_bytes)
        unflushed.add(log, bytes(size_bytes))
    assert sizes_of(unflushed.take()) == [[600, 10], [600]]


def test_runs_that_no_frame_takes_are_told() -> None:
    unflushed = PendingFrames(2000)
    assert unflushed.make_room(1000, runs=3)
    assert not unflushed.make_room(1000, runs=4)
    assert not unflushed.make_room(1800)


def test_a_frame_that_has_ended_waits_for_a_flush_though_nothing_follows_it() -> None:
    log = opened(SimulatedFiles()).logs[P0]
    unflushed = PendingFrames(1000)
    unflushed.add(log, bytes(900))
    unflushed.make_room(900)  # What this was for found no room on the disk.
    assert unflushed
    assert sizes_of(unflushed.take()) == [[900]]
    assert not unflushed
