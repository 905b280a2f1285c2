"""Changes as they are read from a log's batches, whoever wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.history import offset_events
from offsetd_coordinator.history.history_errors import HistoryCompacted
from offsetd_coordinator.history.history_rows import rows_before
from offsetd_coordinator.kernels.records.change_records import COMMITTED, DELETED, UNREADABLE
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, batch_header, encode_batch
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from partition_logs import created
from shards import group_key, offset_key, offset_value

if TYPE_CHECKING:
    from offsetd_storage.log.partition_log import PartitionLog

NOW_MS = 1_700_000_000_000


def log_of(*batches: bytes) -> PartitionLog:
    log = created(SimulatedFiles(), config=LogConfig(index_interval_bytes=150))
    for batch in batches:
        header = batch_header(batch)
        log.append(
            batch,
            last_offset=header.last_offset,
            max_timestamp_ms=header.max_timestamp_ms,
            now_ms=NOW_MS,
        )
    log.write()
    return log


def batch(base: int, *records: tuple[bytes, bytes | None], **more: object) -> bytes:
    made = [
        Record(key=key, value=value, offset=base + place, timestamp_ms=NOW_MS + base + place)
        for place, (key, value) in enumerate(records)
    ]
    return encode_batch(made, base_offset=base, **more)  # type: ignore[arg-type]


def kinds(log: PartitionLog, group_id: bytes | None = None) -> list[tuple[int, int, int]]:
    found = offset_events.changes(log, 0, log.offset_next, group_id)
    return [(each.log_offset, each.kind, each.offset) for each in found]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_every_kind_of_record_is_told_also_compressed(compression: Compression) -> None:
    log = log_of(
        batch(
            0,
            (offset_key("g"), offset_value(10)),
            (group_key("g"), None),
            (offset_key("g"), None),
            (offset_key("g"), b"\x00\x09"),
            (offset_key("h", version=0), offset_value(20)),
            (b"\x00\x00\x00\x09", b""),
            (b"\x4f\x44\x00\x01g", b""),
            compression=compression,
        ),
        batch(7, (offset_key("g", partition=5), offset_value(30, version=1))),
    )
    assert kinds(log) == [
        (0, COMMITTED, 10),
        (2, DELETED, -1),
        (3, UNREADABLE, -1),
        (4, COMMITTED, 20),
        (7, COMMITTED, 30),
    ]
    assert kinds(log, b"g") == [
        (0, COMMITTED, 10),
        (2, DELETED, -1),
        (3, UNREADABLE, -1),
        (7, COMMITTED, 30),
    ]
    assert kinds(log, b"h") == [(4, COMMITTED, 20)]
    assert kinds(log, b"") == []
    times = [each.time_ms - NOW_MS for each in offset_events.changes(log, 0, 8)]
    assert times == [0, 2, 3, 4, 7]


def test_more_changes_than_fit_at_once_come_in_order() -> None:
    entries = [(offset_key("g", partition=place), offset_value(place)) for place in range(3000)]
    log = log_of(batch(0, *entries), batch(3000, *entries[:7]))
    found = list(offset_events.changes(log, 0, 3007))
    assert [each.log_offset for each in found] == list(range(3007))
    assert [each.partition for each in found[-7:]] == list(range(7))
    middle = offset_events.next_stretch(log, 2999, 3007, None, chunk_bytes=100)
    assert [each.log_offset for each in middle.changes] == [2999]
    assert middle.offset_next == 3000


def test_the_empty_group_is_one_group() -> None:
    log = log_of(batch(0, (offset_key(""), offset_value(1)), (offset_key("g"), offset_value(2))))
    assert kinds(log, b"") == [(0, COMMITTED, 1)]


def test_what_transactions_wrote_counts_as_gone() -> None:
    log = log_of(batch(0, (offset_key("g"), offset_value(1)), producer_id=5, is_transactional=True))
    assert kinds(log) == []


@pytest.mark.parametrize(
    ("time_ms", "limit"), [(-1, 0), (0, 1), (1, 2), (99, 3)], ids=["before", "first", "mid", "end"]
)
def test_a_time_is_where_the_first_later_record_lies(time_ms: int, limit: int) -> None:
    log = log_of(*(batch(each, (offset_key("g"), offset_value(each))) for each in range(3)))
    assert offset_events.end_of(log, NOW_MS + time_ms, 3) == limit
    assert offset_events.end_of(log, NOW_MS + time_ms, 1) == min(
        limit, 1
    )  # Nothing else is durable.


def test_a_stretch_of_which_something_is_gone_is_not_told() -> None:
    log = log_of(*(batch(each, (offset_key("g"), offset_value(each))) for each in range(3)))
    log._gapless_floor = 2
    with pytest.raises(HistoryCompacted) as refused:
        offset_events.next_stretch(log, 1, 3, None, chunk_bytes=100)
    assert refused.value.oldest_revision == 2
    assert offset_events.next_stretch(log, 2, 3, None, chunk_bytes=100).offset_next == 3


def offsets_before(log: PartitionLog, limit: int) -> list[int]:
    return [each.offset for each in rows_before(log, limit, 3, b"g").committed()]


def test_a_state_that_a_cleaned_record_may_have_been_part_of_is_not_told() -> None:
    log = log_of(*(batch(each, (offset_key("g"), offset_value(each))) for each in range(3)))
    assert offsets_before(log, 2) == [1]
    # Record 0 is gone: it may have been of a partition that came again at 2, or 1, or never.
    log._gapless_floor = 1
    log.note_superseders(2)
    assert offsets_before(log, 2) == [1]
    with pytest.raises(HistoryCompacted) as refused:
        offsets_before(log, 1)
    assert refused.value.oldest_revision == 2
    log.note_superseders(3)
    log._gapless_floor = 2
    with pytest.raises(HistoryCompacted):
        offsets_before(log, 2)
    assert offsets_before(log, 3) == [2]
