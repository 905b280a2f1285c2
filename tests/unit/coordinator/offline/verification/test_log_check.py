"""Damage of a log, named by file and byte, up to its end and over all segments."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from offsetd_coordinator.offline.verification import log_check
from offsetd_coordinator.offline.verification.log_check import LogVerifier
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.journal.journal_format import RecoveryPoint
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import LogView

NOW_MS = 1_700_000_000_000
PARTITION = partition_of("g", 50)
HERE = TopicPartition("__consumer_offsets", PARTITION)
KEY = encode_key(OffsetKey(group="g", topic="t", partition=3))
VALUE = OffsetCommitValue(offset=7, commit_timestamp_ms=NOW_MS).encode(4)
LOG = f"{HERE}/00000000000000000000.log"
EPOCHS = f"{HERE}/leader-epoch-checkpoint"


def batch(offset: int, *, epoch: int = 0, key: bytes = KEY, value: bytes = VALUE) -> bytes:
    record = Record(key=key, value=value, offset=offset, timestamp_ms=NOW_MS)
    return encode_batch([record], base_offset=offset, leader_epoch=epoch)


SIZE = len(batch(0))


def changed(encoded: bytes, position: int) -> bytes:
    return encoded[:position] + bytes([encoded[position] ^ 0xFF]) + encoded[position + 1 :]


def written(
    folder: Path, *segments: tuple[int, Sequence[bytes]], epochs: str = "0\n1\n0 0\n"
) -> LogView:
    log_folder = folder / HERE.folder_name
    log_folder.mkdir()
    (log_folder / "leader-epoch-checkpoint").write_text(epochs)
    for base_offset, batches in segments:
        (log_folder / f"{base_offset:020d}.log").write_bytes(b"".join(batches))
    return LogView(topic_partition=HERE, folder=log_folder, recovery_point=None)


def verified(
    log: LogView, *, partitions: int | None = 50
) -> tuple[list[tuple[str, int | None, str]], LogVerifier]:
    verifier = LogVerifier(OsFiles(), log, partitions=partitions)
    found = [(each.file, each.position, each.reason) for each in verifier.findings()]
    return found, verifier


def test_a_whole_log_has_no_findings_and_is_counted(tmp_path: Path) -> None:
    compressed = [
        encode_batch(
            [Record(key=KEY, value=VALUE, offset=4 + each, timestamp_ms=NOW_MS)],
            base_offset=4 + each,
            compression=codec,
        )
        for each, codec in enumerate(Compression)
    ]
    log = written(tmp_path, (0, [batch(0), batch(1)]), (4, compressed), (20, []))
    found, verifier = verified(log)
    assert found == []
    assert (verifier.batches, verifier.records) == (7, 7)
    assert (verifier.log_start_offset, verifier.offset_next) == (0, 20)


CHECKSUM = "a batch has a wrong checksum"
NEXT = "; the next valid batch is at byte {}"
TORN = "a batch is cut short; the {} bytes up to the end hold no valid batch, as after a torn write"


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        (
            [batch(0), changed(batch(1), 80), batch(2)],
            [(SIZE, CHECKSUM + NEXT.format(2 * SIZE))],
        ),
        (
            [batch(0), changed(batch(1), 80), batch(2), changed(batch(3), 16), batch(4)],
            [
                (SIZE, CHECKSUM + NEXT.format(2 * SIZE)),
                (3 * SIZE, "no batch of format v2 is here" + NEXT.format(4 * SIZE)),
            ],
        ),
        ([batch(0), batch(1)[:-1]], [(SIZE, TORN.format(SIZE - 1))]),
        (
            [batch(0), changed(batch(1), 80), batch(2), b"\x00" * 100],
            [(SIZE, CHECKSUM + NEXT.format(2 * SIZE)), (3 * SIZE, TORN.format(100))],
        ),
        (
            [batch(0), batch(0), batch(1)],
            [(SIZE, "a batch's offset is not above the offsets before it, or out of range")],
        ),
        (
            [batch(0, epoch=5), batch(1, epoch=4), batch(2, epoch=5)],
            [(SIZE, "a batch has a lower leader epoch than the batches before it")],
        ),
    ],
    ids=["checksum", "twice", "torn", "damaged and torn", "offset twice", "leader epoch"],
)
def test_damage_is_named_wherever_it_is(
    tmp_path: Path, batches: list[bytes], expected: list[tuple[int, str]]
) -> None:
    log = written(tmp_path, (0, batches), epochs="0\n1\n5 0\n")
    found, _ = verified(log)
    assert [(name, position) for name, position, _ in found] == [
        (LOG, each) for each, _ in expected
    ]
    for (_, _, reason), (_, start) in zip(found, expected, strict=True):
        assert reason.startswith(start)


def test_a_torn_batch_that_is_not_at_the_end_of_the_log_is_no_torn_write(tmp_path: Path) -> None:
    log = written(tmp_path, (0, [batch(0), batch(1)[:-1]]), (2, [batch(2)]))
    ((_, position, reason),), verifier = verified(log)
    assert position == SIZE
    assert reason.endswith("hold no valid batch")
    assert verifier.records == 2


def test_a_segment_that_begins_before_the_one_before_ends_is_damage(tmp_path: Path) -> None:
    log = written(tmp_path, (0, [batch(0), batch(1), batch(2)]), (2, [batch(2), batch(3)]))
    found, _ = verified(log)
    assert [(name, position) for name, position, _ in found] == [
        (f"{HERE}/00000000000000000002.log", 0)
    ]


def test_bad_records_are_named_before_and_behind_damage(tmp_path: Path) -> None:
    bad = [batch(offset, value=b"\x00\x04") for offset in (1, 4)]
    log = written(tmp_path, (0, [batch(0), bad[0], changed(batch(2), 80), batch(3), bad[1]]))
    found, _ = verified(log)
    short = SIZE - len(VALUE) + 2
    assert [position for _, position, _ in found] == [
        SIZE,
        SIZE + short,
        SIZE + short + 2 * SIZE,
    ]
    assert [reason.split(":")[0] for _, _, reason in found][::2] == ["offset 1", "offset 4"]


@pytest.mark.parametrize("read_bytes", [100, SIZE, 2 * SIZE - 1, 10 * SIZE])
def test_batches_of_any_size_pass_through_the_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    monkeypatch.setattr(log_check, "READ_BYTES", read_bytes)
    bad = b"\x00\x04" + bytes(500)
    contents = [batch(0), batch(1, value=bad), batch(2, value=b""), batch(3), batch(4, key=b"")]
    contents = [*contents, batch(5), batch(6, value=b"\x00")]
    found, verifier = verified(written(tmp_path, (0, contents)))
    assert verifier.records == 7
    assert [reason.split(":")[0] for _, _, reason in found] == [
        f"offset {offset}" for offset in (1, 2, 4, 6)
    ]


def test_beside_a_running_server_nothing_behind_the_recovery_point_is_judged(
    tmp_path: Path,
) -> None:
    log = written(tmp_path, (0, [batch(0), batch(1)[:-1]]), epochs="0\n2\n0 0\n1 99\n")
    point = RecoveryPoint(
        topic_partition=HERE,
        offset=1,
        journal_offset_next=9,
        segment_base_offset=0,
        segment_bytes=SIZE,
        leader_epoch=0,
    )
    bounded = LogView(topic_partition=HERE, folder=log.folder, recovery_point=point)
    assert verified(bounded)[0] == []
    assert len(verified(log)[0]) == 2


@pytest.mark.parametrize(
    ("epochs", "reason"),
    [
        ("nonsense", "version"),
        ("0\n1\n0 0\n", "leader epoch 3, which the log has, is missing"),
        ("0\n2\n3 0\n4 9\n", "leader epoch 4 begins at 9, above the log's end 1"),
        ("", "leader epoch 3, which the log has, is missing"),
    ],
)
def test_leader_epochs_have_to_fit_the_log(tmp_path: Path, epochs: str, reason: str) -> None:
    found, _ = verified(written(tmp_path, (0, [batch(0, epoch=3)]), epochs=epochs))
    ((name, position, text),) = found
    assert (name, position) == (EPOCHS, None)
    assert reason in text


def test_a_folder_without_a_segment_is_a_finding(tmp_path: Path) -> None:
    assert verified(written(tmp_path))[0] == [(str(HERE), None, "there is no segment")]


def test_the_records_of_other_topics_are_not_looked_into(tmp_path: Path) -> None:
    log = written(tmp_path, (0, [batch(0, key=b"\x00\x02")]))
    assert verified(log, partitions=None)[0] == []
    assert len(verified(log)[0]) == 1
