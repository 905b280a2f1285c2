"""One log partition's part of a run: what it takes, where it stops, and what it will not take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow.parquet as pq
import pytest
from compaction.logs import MARKER_KEY, MARKER_VALUE
from offsetd_pipeline.archive.log_run import LogFailure, LogRun, LogWork, archive_log
from offsetd_pipeline.archive.manifests import RUNS, LogPosition
from offsetd_pipeline.arrow_columns import TIMESTAMP_MS_MAX
from offsetd_pipeline.folder_plan import plan_folder
from offsetd_pipeline.read_options import OnDamage
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.offsets_topic.schemas.transaction_marker import ControlType

if TYPE_CHECKING:
    from pathlib import Path

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
READ_MS = START_MS + 100 * DAY_MS
PRODUCER = 7


def record(offset: int, *, topic: str = "t", deleted: bool = False, time_ms: int = -1) -> Record:
    now_ms = START_MS + offset if time_ms < 0 else time_ms
    value = OffsetCommitValue(
        offset=offset, leader_epoch=-1, metadata="", commit_timestamp_ms=now_ms
    )
    return Record(
        key=encode_key(OffsetKey(group="g", topic=topic, partition=0)),
        value=None if deleted else value.encode(3),
        offset=offset,
        timestamp_ms=now_ms,
    )


def batch(
    *records: Record, producer_id: int = -1, compression: Compression = Compression.NONE
) -> bytes:
    return encode_batch(
        list(records),
        base_offset=records[0].offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
        compression=compression,
    )


def write(folder: Path, segments: dict[int, list[bytes]]) -> Path:
    log = folder / "__consumer_offsets-0"
    log.mkdir(parents=True)
    for base_offset, batches in segments.items():
        (log / f"{base_offset:020d}.log").write_bytes(b"".join(batches))
    return folder


def run(
    folder: Path,
    archive: Path,
    position: LogPosition | None = None,
    on_damage: OnDamage = OnDamage.FAIL,
) -> LogRun | LogFailure:
    _, [log] = plan_folder(OsFiles(), folder, is_wanted=lambda _: True)
    return archive_log(
        LogWork(
            log=log,
            position=position,
            archive=str(archive),
            run_id="r",
            time_ms=READ_MS,
            on_damage=on_damage,
        )
    )


def done(*arguments: Any, **named: Any) -> LogRun:
    found = run(*arguments, **named)
    assert isinstance(found, LogRun), found
    return found


def offsets(found: LogRun, archive: Path) -> list[int]:
    tables = [pq.read_table(archive / each.path, partitioning=None) for each in found.files]
    for table, file in zip(tables, found.files, strict=True):
        assert table.num_rows == file.record_count
    return [each for table in tables for each in table.column("log_offset").to_pylist()]


def test_only_what_is_new_is_taken(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", {0: [batch(record(0), record(1))], 2: [batch(record(2))]})
    first = done(folder, tmp_path / "to")
    assert offsets(first, tmp_path / "to") == [0, 1, 2]
    assert first.position.log_offset == 3
    assert first.gap is None
    later = write(tmp_path / "b", {0: [batch(record(0), record(1))], 2: [batch(record(2))]})
    with (later / "__consumer_offsets-0" / f"{2:020d}.log").open("ab") as log:
        log.write(batch(record(3)))
    second = done(later, tmp_path / "to", first.position)
    assert offsets(second, tmp_path / "to") == [3]
    third = done(later, tmp_path / "to", second.position)
    assert third.files == ()
    assert third.position == second.position


def test_each_day_has_a_file_also_where_days_alternate(tmp_path: Path) -> None:
    days = [0, 1, 2, 3, 4, 5, 0, 1, 5, 5]
    records = [record(offset, time_ms=START_MS + day * DAY_MS) for offset, day in enumerate(days)]
    folder = write(tmp_path / "a", {0: [batch(each) for each in records]})
    found = done(folder, tmp_path / "to")
    assert sorted(offsets(found, tmp_path / "to")) == list(range(len(days)))
    assert {each.day for each in found.files} == {f"2023-11-{14 + day}" for day in range(6)}
    assert len({each.path for each in found.files}) == len(found.files)
    for file in found.files:
        assert file.path.startswith(f"dt={file.day}/log_partition=0/")


def test_compressed_batches_of_one_record_are_each_their_own(tmp_path: Path) -> None:
    batches = [batch(record(offset), compression=Compression.GZIP) for offset in range(3)]
    found = done(write(tmp_path / "a", {0: batches}), tmp_path / "to")
    assert offsets(found, tmp_path / "to") == [0, 1, 2]


def test_nothing_behind_an_open_transaction_is_taken(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "a",
        {0: [batch(record(0)), batch(record(1), producer_id=PRODUCER), batch(record(2))]},
    )
    found = done(folder, tmp_path / "to")
    assert offsets(found, tmp_path / "to") == [0]
    assert found.position.log_offset == 1
    assert found.held_up is not None
    assert (found.held_up.log_offset, found.held_up.producer_id) == (1, PRODUCER)


def test_what_was_compacted_away_before_it_was_archived_is_a_gap(tmp_path: Path) -> None:
    whole = write(tmp_path / "a", {0: [batch(record(0, topic="gone"), record(1))]})
    first = done(whole, tmp_path / "to")
    # Of 2 to 4 a deletion of `gone`, and a commit, are no more there.
    later = write(
        tmp_path / "b", {0: [batch(record(1)), batch(record(4, topic="u"))], 5: [batch(record(5))]}
    )
    second = done(later, tmp_path / "to", first.position)
    assert second.gap is not None
    assert (second.gap.begin_log_offset, second.gap.end_log_offset) == (2, 6)
    assert second.gap.missing_count == 2
    assert (second.gap.from_ms, second.gap.to_ms) == (START_MS + 1, START_MS + 5)
    assert second.keys_file is not None
    keys = pq.read_table(tmp_path / "to" / RUNS / second.keys_file)
    assert sorted(keys.column("topic").to_pylist()) == ["t", "u"]


def ended(offset: int, time_ms: int) -> bytes:
    """The marker of a transaction that was committed."""
    marker = Record(
        key=MARKER_KEY.pack(0, ControlType.COMMIT),
        value=MARKER_VALUE.pack(0, 0),
        offset=offset,
        timestamp_ms=time_ms,
    )
    return encode_batch(
        [marker],
        base_offset=offset,
        producer_id=PRODUCER,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


@pytest.mark.parametrize(
    ("last_below", "last_segment", "known_from"),
    [
        (batch(record(3, time_ms=START_MS + 500)), [batch(record(4))], START_MS + 500),
        (
            batch(record(3), producer_id=PRODUCER),
            [batch(record(4)), ended(5, START_MS + 90)],
            START_MS + 90,
        ),
        (batch(record(3, time_ms=READ_MS + 500)), [batch(record(4))], READ_MS),
    ],
    ids=["the clock was set back", "a transaction went on", "of the future"],
)
def test_a_gap_ends_when_all_that_may_stand_for_what_is_missing_counts(
    tmp_path: Path, last_below: bytes, last_segment: list[bytes], known_from: int
) -> None:
    folder = write(tmp_path / "a", {0: [batch(record(0)), last_below], 4: last_segment})
    found = done(folder, tmp_path / "to")
    assert found.gap is not None
    assert (found.gap.missing_count, found.gap.to_ms) == (2, known_from)


def test_a_gap_in_the_last_segment_ends_when_the_log_was_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", {0: [batch(record(0)), batch(record(2))]})
    found = done(folder, tmp_path / "to")
    assert found.gap is not None
    assert found.gap.to_ms == READ_MS


def test_records_below_the_start_of_the_log_are_gone(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", {0: [batch(record(0)), batch(record(1))]})
    (folder / "log-start-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 1\n")
    found = done(folder, tmp_path / "to")
    assert offsets(found, tmp_path / "to") == [1]
    assert found.gap is not None
    assert found.gap.missing_count == 1


@pytest.mark.parametrize(
    ("position", "said"),
    [
        (LogPosition(log_offset=3, log_start_offset=0), "ends at log offset 2"),
        (
            LogPosition(
                log_offset=2, log_start_offset=0, last_log_offset=1, last_timestamp_ms=START_MS
            ),
            "another record at log offset 1",
        ),
    ],
    ids=["older", "other"],
)
def test_a_log_that_does_not_go_on_from_the_archive_is_refused(
    tmp_path: Path, position: LogPosition, said: str
) -> None:
    folder = write(tmp_path / "a", {0: [batch(record(0), record(1))]})
    found = run(folder, tmp_path / "to", position)
    assert isinstance(found, LogFailure)
    assert said in found.reason


def test_a_log_whose_tail_was_cleaned_away_is_the_same_log(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", {0: [batch(record(0))], 3: []})
    position = LogPosition(log_offset=2, log_start_offset=0)
    found = done(folder, tmp_path / "to", position)
    assert found.position.log_offset == 3
    assert found.gap is not None
    assert found.gap.missing_count == 1


def test_damage_fails_or_is_passed_over_and_told(tmp_path: Path) -> None:
    batches = [batch(record(0)), batch(record(1)), batch(record(2))]
    folder = write(tmp_path / "a", {0: batches})
    log = folder / "__consumer_offsets-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[len(batches[0]) + 70] ^= 1
    log.write_bytes(content)
    failed = run(folder, tmp_path / "to")
    assert isinstance(failed, LogFailure)
    assert f"at byte {len(batches[0])}" in failed.reason
    found = done(folder, tmp_path / "to", on_damage=OnDamage.SKIP)
    assert offsets(found, tmp_path / "to") == [0, 2]
    [damage] = found.damage
    assert (damage.position, damage.size_bytes) == (len(batches[0]), len(batches[1]))
    assert found.gap is not None
    assert found.gap.missing_count == 1


def test_times_that_no_table_has_are_its_last(tmp_path: Path) -> None:
    far_ms = 1 << 61
    folder = write(
        tmp_path / "a",
        {0: [batch(record(0, time_ms=far_ms)), batch(record(1, time_ms=far_ms), producer_id=7)]},
    )
    found = done(folder, tmp_path / "to")
    assert found.held_up is not None
    position = found.position
    times = position.latest_ms, found.held_up.since_ms
    assert times == (TIMESTAMP_MS_MAX, TIMESTAMP_MS_MAX)
    # By that the log is known again.
    assert position.last_timestamp_ms == far_ms
    assert done(folder, tmp_path / "to", position).position == position


def test_positions_never_lose_what_they_knew(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", {0: [batch(record(0))]})
    first = done(folder, tmp_path / "to").position
    assert (first.last_log_offset, first.latest_ms) == (0, START_MS)
    again = done(folder, tmp_path / "to", attrs.evolve(first)).position
    assert again == first
