"""What waits for a flush: gathered by log, in frames that say where each log ends with them."""

from __future__ import annotations

from log_stores import P0, P1, append, opened
from offsetd_storage.journal_format import COUNT, LogEnd, batch_entry_bytes
from offsetd_storage.record_batch import batch_header
from offsetd_storage.runs import split_run
from offsetd_storage.simulated_files import SimulatedFiles
from offsetd_storage.unflushed import Unflushed


def test_a_frame_has_one_run_of_each_log() -> None:
    store = opened(SimulatedFiles())
    batches = [append(store, each) for each in (P0, P1, P0)]
    [frame] = store._unflushed.frames()
    assert [(run.topic_partition, run.batches) for run in frame.runs] == [
        (P0, batches[0] + batches[2]),
        (P1, batches[1]),
    ]
    assert frame.payload_bytes == COUNT.size + sum(
        batch_entry_bytes(run.topic_partition, len(run.batches)) for run in frame.runs
    )


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
    frames = store._unflushed.frames()
    assert len(frames) > 2
    for frame in frames:
        assert frame.payload_bytes <= payload_bytes_max
        for run in frame.runs:
            *_, last = split_run(run.batches)
            assert run.end == ends[run.topic_partition, batch_header(last).last_offset + 1]
    for topic_partition, content in appended.items():
        runs = [run for frame in frames for run in frame.runs]
        mine = [run.batches for run in runs if run.topic_partition == topic_partition]
        assert b"".join(mine) == content


def test_what_was_taken_is_gone() -> None:
    log = opened(SimulatedFiles()).logs[P0]
    unflushed = Unflushed(1000)
    assert not unflushed
    assert unflushed.take() == []
    unflushed.add(log, b"one")
    assert unflushed
    taken = unflushed.take()
    assert [run.batches for frame in taken for run in frame.runs] == [b"one"]
    assert not unflushed
    unflushed.add(log, b"two")
    assert [run.batches for frame in taken for run in frame.runs] == [b"one"]


def test_batches_larger_than_what_is_left_begin_a_frame() -> None:
    log = opened(SimulatedFiles()).logs[P0]
    unflushed = Unflushed(1000)
    for size_bytes in (900, 10, 900):
        unflushed.make_room(size_bytes)
        unflushed.add(log, bytes(size_bytes))
    assert [len(run.batches) for frame in unflushed.take() for run in frame.runs] == [900, 10, 900]


def test_a_frame_that_has_ended_waits_for_a_flush_though_nothing_follows_it() -> None:
    log = opened(SimulatedFiles()).logs[P0]
    unflushed = Unflushed(1000)
    unflushed.add(log, bytes(900))
    unflushed.make_room(900)  # What this was for found no room on the disk.
    assert unflushed
    [frame] = unflushed.take()
    assert [len(run.batches) for run in frame.runs] == [900]
    assert not unflushed
