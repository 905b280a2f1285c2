"""From where on a log lacks nothing: what history and watchers rest on."""

from __future__ import annotations

import pytest
from cleaned_logs import clean_group, keyed_log, offsets_of, put, recovered
from log_stores import P0, append
from log_stores import opened as opened_store
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.segment_swap import delete_oldest, install
from partition_logs import created, everything, opened


@pytest.mark.parametrize(
    ("kept", "gapless_from"),
    [
        ("012345", 0),
        ("12345", 1),
        ("02345", 2),
        ("01345", 3),
        ("0134", 6),  # What went at the end shows by where the next segment begins.
        ("5", 5),
        ("", 6),
    ],
)
def test_a_log_is_whole_behind_the_last_record_that_was_cleaned_away(
    kept: str, gapless_from: int
) -> None:
    files = SimulatedFiles()
    log = keyed_log(files, ["abc", "abc", "de"])
    assert log.gapless_from == 0
    old = log.segments[:2]
    cleaned = clean_group(files, old, map(int, kept))
    install(files, log, [] if cleaned is None else [cleaned], old)
    assert log.gapless_from == gapless_from
    assert recovered(files).gapless_from == gapless_from
    assert set(range(gapless_from, log.offset_next)) <= set(offsets_of(everything(log)))


def test_what_appends_add_is_whole() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, ["aa", "b"])
    cleaned = clean_group(files, log.segments[:1], [1])
    assert cleaned is not None
    install(files, log, [cleaned], log.segments[:1])
    put(log, "c", "1")
    log.roll()
    put(log, "c", "2")
    log.write()
    assert log.gapless_from == 1


def test_a_log_starts_whole_behind_its_deleted_segments() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, ["aa", "bb", "cc"])
    log.raise_log_start_offset(3)
    assert log.gapless_from == 3
    delete_oldest(files, log, 1)
    assert log.gapless_from == 3
    assert opened(files, log_start_offset=3).gapless_from == 3


def test_a_record_missing_inside_of_a_batch_is_missing() -> None:
    files = SimulatedFiles()
    log = created(files)
    records = [Record(key=b"k", value=b"v", offset=each, timestamp_ms=1) for each in (0, 2)]
    log.append(encode_batch(records, base_offset=0), last_offset=2, max_timestamp_ms=1, now_ms=1)
    log.write()
    log.sync()
    assert opened(files).gapless_from == 3


def test_a_transaction_counts_as_missing() -> None:
    files = SimulatedFiles()
    log = created(files)
    record = Record(key=b"k", value=b"v", offset=0, timestamp_ms=1)
    batch = encode_batch([record], base_offset=0, producer_id=7, is_transactional=True)
    log.append(batch, last_offset=0, max_timestamp_ms=1, now_ms=1)
    put(log, "k", "w")
    log.write()
    log.sync()
    assert opened(files).gapless_from == 1


def test_a_log_whose_last_batches_are_gone_is_whole_from_its_end_on() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, ["aa", "b"])
    log.truncate(3)
    log.truncate(9)
    assert log.gapless_from == 9
    put(log, "c", "1")
    assert log.gapless_from == 9


def test_what_superseded_the_cleaned_records_lies_below_the_active_segment() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, ["aa", "ab", "c"])
    assert (log.superseders_end, recovered(files).superseders_end) == (0, 0)
    old = log.segments[:1]
    log.note_superseders(3)
    install(files, log, [], old)
    assert log.superseders_end == 3
    log.note_superseders(2)
    assert log.superseders_end == 3
    assert recovered(files).superseders_end == 4  # Nobody remembers: it cannot be later.


def test_a_store_says_up_to_where_each_log_is_durable() -> None:
    files = SimulatedFiles()
    store = opened_store(files)
    assert store.durable_end(P0) == 0
    append(store, P0)
    assert store.durable_end(P0) == 0
    store.flush()
    assert store.durable_end(P0) == 1
    append(store, P0)
    store.close()
    again = opened_store(files)
    assert again.durable_end(P0) == 2
    again.close()
