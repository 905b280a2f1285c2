"""A stream over a folder says each record once, and tells where some are gone."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_pipeline.source import OffsetdSource
from offsetd_pipeline.streams.errors import PositionAboveEnd, RecordsLost
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.errors import FolderMismatch
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ALL = ReadAllAvailable()
SEGMENT = 10  # Records.
COMMIT = b"\0\0\0\1"


def batch(offset: int, count: int = 2, **fields: Any) -> bytes:
    """Commits of offsets that are their own log offsets."""
    key = encode_key(OffsetKey(group="g", topic="t", partition=0))
    records = [
        Record(
            key=key,
            value=OffsetCommitValue(
                offset=each, leader_epoch=-1, metadata="", commit_timestamp_ms=1
            ).encode(3),
            offset=each,
            timestamp_ms=1,
        )
        for each in range(offset, offset + count)
    ]
    return encode_batch(records, base_offset=offset, **fields)


def marker(offset: int, producer: int) -> bytes:
    record = Record(key=COMMIT, value=bytes(6), offset=offset, timestamp_ms=1)
    return encode_batch(
        [record],
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def segment_of(folder: Path, base_offset: int, partition: int = 0) -> Path:
    log = folder / f"__consumer_offsets-{partition}"
    log.mkdir(parents=True, exist_ok=True)
    return log / f"{base_offset:020d}.log"


def write(folder: Path, start: int, end: int, *, partition: int = 0) -> None:
    """Batches of two records, in segments of ten."""
    for offset in range(start, end, 2):
        base_offset = offset - offset % SEGMENT
        with segment_of(folder, base_offset, partition).open("ab") as segment:
            segment.write(batch(offset))


def clean(folder: Path, *offsets: int) -> None:
    """Takes the batches that begin with these away, as compaction does."""
    for offset in offsets:
        path = segment_of(folder, offset - offset % SEGMENT)
        content = path.read_bytes()
        assert batch(offset) in content
        path.with_suffix(".log.cleaned").write_bytes(content.replace(batch(offset), b""))
        path.with_suffix(".log.cleaned").rename(path)


def stream_of(folder: Path, mode: str = "history", **options: str) -> Any:
    source = OffsetdSource({"path": str(folder), "mode": mode, **options})
    return source.streamReader(source.schema())


def offsets_in(stream: Any, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return read(stream, stream.partitions(start, end))


def read(stream: Any, works: Iterable[Any]) -> list[int]:
    again = [pickle.loads(pickle.dumps(work)) for work in works]  # As an executor gets them.
    return [
        row["log_offset"]
        for work in again
        for rows in stream.read(work)
        for row in rows.to_pylist()
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, 0, 40)
    return tmp_path


# What is lost --------------------------------------------------------------------------------

LOSSES: list[tuple[str, Any, int, list[int]]] = [
    ("cleaned", lambda folder: clean(folder, 22, 24), 20, [20, 21, *range(26, 40)]),
    (
        "a deleted segment",
        lambda folder: [segment_of(folder, each).unlink() for each in (0, 10, 20)],
        30,
        list(range(30, 40)),
    ),
]


@pytest.mark.parametrize("mode", ["history", "raw"])
@pytest.mark.parametrize(("name", "lose", "goes_on_at", "left"), LOSSES)
def test_what_is_gone_before_it_was_read_is_an_error_or_a_warning(
    folder: Path,
    caplog: pytest.LogCaptureFixture,
    mode: str,
    name: str,
    lose: Any,
    goes_on_at: int,
    left: list[int],
) -> None:
    stream = stream_of(folder, mode)
    begun = stream.initialOffset()
    position = stream.latestOffset(begun, ReadMaxRows(20))
    assert offsets_in(stream, begun, position) == list(range(20))
    lose(folder)
    with pytest.raises(RecordsLost, match="log offset 20") as raised:
        stream_of(folder, mode).latestOffset(position, ALL)
    lost = pickle.loads(pickle.dumps(raised.value))
    assert (lost.log_partition, lost.position, lost.goes_on_at) == (0, 20, goes_on_at)
    assert "fail_on_data_loss=false" in str(lost)

    careless = stream_of(folder, mode, fail_on_data_loss="false")
    with caplog.at_level(logging.WARNING):
        end = careless.latestOffset(position, ALL)
        assert offsets_in(careless, position, end) == left
    assert "log partition 0" in caplog.text
    assert careless.latestOffset(end, ALL) == end


@pytest.mark.parametrize("mode", ["history", "raw"])
def test_what_is_cleaned_between_planning_and_reading_is_noticed(folder: Path, mode: str) -> None:
    for options in ({}, {"fail_on_data_loss": "false"}):
        stream = stream_of(folder, mode, **options)
        begun = stream.initialOffset()
        works = stream.partitions(begun, stream.latestOffset(begun, ALL))
        if not options:
            clean(folder, 14)
            with pytest.raises(RecordsLost, match=r"of 40 records .* 2 were"):
                read(stream, works)
        else:
            clean(folder, 18)
            assert 18 not in read(stream, works)


def test_what_was_cleaned_before_a_stream_began_is_no_loss(folder: Path) -> None:
    clean(folder, 4, 18, 22)
    stream = stream_of(folder)
    begun = stream.initialOffset()
    assert begun == {"0": 0, "gaps": {"0": 6}}
    position, said = begun, []
    while (end := stream.latestOffset(position, ReadMaxRows(3))) != position:
        found = offsets_in(stream, position, end)
        assert found == offsets_in(stream_of(folder), position, end)
        said += found
        position, stream = end, stream_of(folder)
    assert said == [each for each in range(40) if each // 2 not in (2, 9, 11)]
    assert "gaps" not in position
    # What is cleaned behind the stream is none, either.
    clean(folder, 0, 6)
    write(folder, 40, 44)
    end = stream.latestOffset(position, ALL)
    assert offsets_in(stream, position, end) == [40, 41, 42, 43]


def test_cleaning_that_goes_on_ahead_of_a_stream_is_a_loss_also_where_it_was_cleaned_before(
    folder: Path,
) -> None:
    clean(folder, 4, 22)
    stream = stream_of(folder)
    position = stream.latestOffset(stream.initialOffset(), ReadMaxRows(8))
    clean(folder, 24)
    with pytest.raises(RecordsLost, match="2 records behind log offset 10"):
        stream_of(folder).latestOffset(position, ALL)


@pytest.mark.parametrize(("written", "more"), [(20, 0), (10, 0), (10, 2)])
def test_what_is_cleaned_behind_a_stream_changes_no_count_ahead_of_it(
    tmp_path: Path, written: int, more: int
) -> None:
    write(tmp_path, 0, written)
    stream = stream_of(tmp_path)
    end = stream.latestOffset(stream.initialOffset(), ReadMaxRows(6))
    segment_of(tmp_path, 10).touch()  # It was rolled, if it was not before.
    write(tmp_path, written, written + more)
    clean(tmp_path, 2, 4)  # The batch that the look began with stays.
    for position in (7, 8):
        start, end = end, stream.latestOffset(end, ReadMaxRows(1))
        assert end == {"0": position}
        assert offsets_in(stream, start, end) == [position - 1]


def test_a_log_that_ends_with_a_gap_goes_on_behind_it(tmp_path: Path) -> None:
    write(tmp_path, 0, 10)
    segment_of(tmp_path, 10).touch()  # Rolled, and then the last records were cleaned away.
    clean(tmp_path, 8)
    stream = stream_of(tmp_path)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert offsets_in(stream, start, end) == list(range(8))
    write(tmp_path, 10, 14)
    for again in (stream, stream_of(tmp_path)):
        assert offsets_in(again, end, again.latestOffset(end, ALL)) == [10, 11, 12, 13]


def test_a_batch_that_comes_again_has_the_same_records_or_fails(folder: Path) -> None:
    stream = stream_of(folder)
    begun = stream.initialOffset()
    end = stream.latestOffset(begun, ALL)
    # The query is killed; its first batch is planned, and Spark asks anew where it begins.
    write(folder, 40, 50)
    again = stream_of(folder)
    assert offsets_in(again, again.initialOffset(), end) == list(range(40))
    clean(folder, 6)
    late = stream_of(folder)
    with pytest.raises(RecordsLost):
        late.partitions(late.initialOffset(), end)


def test_where_latest_was_is_kept_with_the_first_batch(folder: Path) -> None:
    stream = stream_of(folder, starting_offsets="latest")
    begun = stream.initialOffset()
    assert begun == {"0": 40}
    write(folder, 40, 44)
    end = stream.latestOffset(begun, ALL)
    write(folder, 44, 50)
    again = stream_of(folder, starting_offsets="latest")
    assert offsets_in(again, again.initialOffset(), end) == [40, 41, 42, 43]
    assert again.partitions(end, end) == []
    assert offsets_in(again, end, again.latestOffset(end, ALL)) == list(range(44, 50))


def test_a_folder_that_was_replaced_by_an_older_copy_is_an_error(folder: Path) -> None:
    stream = stream_of(folder)
    position = stream.latestOffset(stream.initialOffset(), ALL)
    segment_of(folder, 30).unlink()
    for options in ({}, {"fail_on_data_loss": "false"}):
        with pytest.raises(PositionAboveEnd, match="ends at 30, below the stream's position 40"):
            stream_of(folder, **options).latestOffset(position, ALL)


def test_a_log_that_is_there_no_more_is_told_of_once_and_waited_for(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder, 0, 4, partition=1)
    stream = stream_of(folder)
    begun = stream.initialOffset()
    shutil.move(folder / "__consumer_offsets-1", tmp_path / "kept")
    with pytest.raises(RecordsLost, match=r"log partition 1 of .* there no more"):
        stream_of(folder).latestOffset(begun, ALL)
    careless = stream_of(folder, fail_on_data_loss="false")
    end = careless.latestOffset(begun, ALL)
    assert end == {"0": 40, "1": 0}
    assert offsets_in(careless, begun, end) == list(range(40))
    assert careless.latestOffset(end, ALL) == end
    assert caplog.text.count("there no more") == 1
    shutil.move(tmp_path / "kept", folder / "__consumer_offsets-1")
    assert offsets_in(careless, end, careless.latestOffset(end, ALL)) == [0, 1, 2, 3]


# Transactions, ends, limits ------------------------------------------------------------------


def test_what_is_in_an_open_transaction_waits_for_its_end(folder: Path) -> None:
    stream = stream_of(folder)
    position = stream.latestOffset(stream.initialOffset(), ALL)
    pending = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    with segment_of(folder, 40).open("ab") as segment:
        segment.write(batch(40) + batch(42, **pending) + batch(44))
    end = stream.latestOffset(position, ALL)
    assert end == {"0": 42}
    assert offsets_in(stream, position, end) == [40, 41]
    assert stream.latestOffset(end, ALL) == end
    raw = stream_of(folder, "raw")
    assert raw.latestOffset(raw.initialOffset(), ALL)["0"] == 46
    with segment_of(folder, 46).open("ab") as segment:
        segment.write(marker(46, 7) + batch(47))
    for each in (stream, stream_of(folder)):
        behind = each.latestOffset(end, ALL)
        assert behind == {"0": 49}
        rows = [
            (row["log_offset"], row["transaction"])
            for work in each.partitions(end, behind)
            for found in each.read(work)
            for row in found.to_pylist()
        ]
        assert rows == [
            *((offset, "committed") for offset in (42, 43)),
            *((offset, None) for offset in (44, 45, 47, 48)),
        ]


def test_available_now_ends_with_what_was_there(folder: Path) -> None:
    stream = stream_of(folder)
    position = stream.latestOffset(stream.initialOffset(), ReadMaxRows(5))
    again = stream_of(folder)
    again.prepareForTriggerAvailableNow()
    write(folder, 40, 50)
    write(folder, 0, 4, partition=1)
    said = []
    while (end := again.latestOffset(position, ReadMaxRows(7))) != position:
        said += offsets_in(again, position, end)
        position = end
    assert said == list(range(5, 40))


@pytest.mark.parametrize(
    ("limit", "count"),
    [
        (ALL, 40),
        (ReadMaxRows(1), 1),
        (ReadMaxRows(13), 13),
        (ReadMaxRows(100), 40),
        (ReadMinRows(40), 40),
        (ReadMinRows(41), 0),
        (ReadMaxBytes(1), 1),
        (ReadMaxBytes(1 << 30), 40),
    ],
)
def test_a_limit_bounds_a_batch(folder: Path, limit: Any, count: int) -> None:
    stream = stream_of(folder)
    begun = stream.initialOffset()
    assert len(offsets_in(stream, begun, stream.latestOffset(begun, limit))) == count


def test_a_limit_is_shared_by_log_partitions_in_proportion(folder: Path) -> None:
    write(folder, 0, 80, partition=1)
    stream = stream_of(folder, max_records_per_trigger="30")
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(30)
    end = stream.latestOffset(stream.initialOffset(), limit)
    assert {name: end[name] for name in ("0", "1")} == {"0": 10, "1": 20}
    assert stream_of(folder).getDefaultReadLimit() == ALL
    with pytest.raises(ValueError, match="knows no ReadMaxFiles"):
        stream.latestOffset(stream.initialOffset(), ReadMaxFiles(1))


def test_a_new_log_partition_is_begun_and_then_read(folder: Path) -> None:
    stream = stream_of(folder)
    position = stream.latestOffset(stream.initialOffset(), ALL)
    write(folder, 10, 14, partition=3)
    begun = stream.latestOffset(position, ALL)
    assert begun == {"0": 40, "3": 10}
    assert offsets_in(stream, position, begun) == []
    end = stream.latestOffset(begun, ALL)
    assert offsets_in(stream, begun, end) == [10, 11, 12, 13]
    # So that it is noticed, too, if that is gone before it was read.
    segment_of(folder, 10, 3).write_bytes(batch(12))
    with pytest.raises(RecordsLost, match="log partition 3"):
        stream_of(folder).latestOffset(begun, ALL)


def test_without_arguments_batches_end_as_older_sparks_ask(folder: Path) -> None:
    stream = stream_of(folder, max_records_per_trigger="16")
    begun = stream.initialOffset()
    first = stream.latestOffset()
    assert len(offsets_in(stream, begun, first)) == 16
    again = stream_of(folder, max_records_per_trigger="16")
    again.partitions(first, first)  # So a restarted query is told where it is.
    second = again.latestOffset()
    assert len(offsets_in(again, first, second)) == 16
    # Only to know where `availableNow` ends it is asked before.
    unknowing = stream_of(folder, max_records_per_trigger="16")
    assert offsets_in(again, second, unknowing.latestOffset()) == list(range(32, 40))


@pytest.mark.parametrize(
    ("starting", "said"),
    [
        ("earliest", list(range(40))),
        ("latest", []),
        ('{"0": 36}', [36, 37, 38, 39]),
        ('{"0": 37}', [37, 38, 39]),
        ('{"0": 40}', []),
    ],
)
def test_a_query_begins_where_it_is_said(folder: Path, starting: str, said: list[int]) -> None:
    stream = stream_of(folder, starting_offsets=starting)
    begun = stream.initialOffset()
    assert offsets_in(stream, begun, stream.latestOffset(begun, ALL)) == said


def test_a_query_does_not_begin_where_there_is_nothing(folder: Path) -> None:
    with pytest.raises(ValueError, match="no log partition 7"):
        stream_of(folder, starting_offsets='{"7": 0}').initialOffset()
    with pytest.raises(PositionAboveEnd, match="ends at 40"):
        stream_of(folder, starting_offsets='{"0": 41}').initialOffset()


def test_a_query_does_not_begin_in_a_folder_without_the_log(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    for starting in ("earliest", "latest"):
        with pytest.raises(FolderMismatch, match="no partition of __consumer_offsets"):
            stream_of(tmp_path, starting_offsets=starting).initialOffset()


def test_positions_go_through_json(folder: Path) -> None:
    clean(folder, 12)
    stream = stream_of(folder)
    begun = json.loads(json.dumps(stream.initialOffset()))
    end = json.loads(json.dumps(stream.latestOffset(begun, ReadMaxRows(4))))
    assert end == {"0": 4, "gaps": {"0": 2}, "from": begun}
    assert stream.latestOffset(end, ReadMinRows(1000)) == end


def test_a_stretch_without_records_is_passed_whatever_the_limit(folder: Path) -> None:
    with segment_of(folder, 40).open("ab") as segment:
        emptied = encode_batch([], base_offset=40, last_offset=49)
        segment.write(emptied)
    stream = stream_of(folder, starting_offsets='{"0": 40}')
    begun = stream.initialOffset()
    assert begun == {"0": 40, "gaps": {"0": 10}}
    end = stream.latestOffset(begun, ReadMaxRows(1))
    assert end["0"] == 50
    assert offsets_in(stream, begun, end) == []


def test_only_chosen_groups_and_topics_are_said(folder: Path) -> None:
    for options, count in (
        ({"groups": "g, h"}, 40),
        ({"groups": '["h"]'}, 0),
        ({"group_prefix": "g"}, 40),
        ({"topics": "u"}, 0),
    ):
        stream = stream_of(folder, **options)
        begun = stream.initialOffset()
        assert len(offsets_in(stream, begun, stream.latestOffset(begun, ALL))) == count


def test_how_far_a_log_reaches_is_told_without_reading_it_again(folder: Path) -> None:
    stream = stream_of(folder)
    assert stream.reportLatestOffset() == {"0": 40}
    position = stream.latestOffset(stream.initialOffset(), ALL)
    known = segment_of(folder, 30)
    known.rename(folder / "kept")
    known.write_bytes(bytes((folder / "kept").stat().st_size))  # It cannot be read any more.
    assert stream.reportLatestOffset() == {"0": 40}
    (folder / "kept").rename(known)
    write(folder, 40, 44)
    assert stream.reportLatestOffset() == {"0": 44}
    assert offsets_in(stream, position, stream.latestOffset(position, ALL)) == [40, 41, 42, 43]
