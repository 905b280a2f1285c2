"""What a reader without a lock sees of a data folder."""

import random
from pathlib import Path

import pytest
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import FolderMismatch, JournalDamaged, NewerFormat
from offsetd_storage.folder.folder_format import PROPERTIES_NAME
from offsetd_storage.journal.journal_format import RecoveryPoint
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import LogView, read_folder

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-4.1.1" / "data"
FIRST = TopicPartition("__consumer_offsets", 0)


def open_store(folder: Path) -> LogStore:
    config = LogStoreConfig(partitions=3, journal_file_bytes=256 << 10)
    return LogStore.open(OsFiles(), folder, config, clock=ManualClock(), random=random.Random(7))


def append(store: LogStore, offset: int) -> bytes:
    batch = encode_batch(
        [Record(key=b"k", value=b"v", offset=offset, timestamp_ms=1)], base_offset=offset
    )
    store.append(FIRST, batch, last_offset=offset, max_timestamp_ms=1)
    store.flush()
    return batch


def first_log(folder: Path) -> LogView:
    return next(log for log in read_folder(OsFiles(), folder).logs if log.topic_partition == FIRST)


def test_beside_a_running_server_a_log_is_read_up_to_its_recovery_point(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = open_store(folder)
    batch = append(store, 0)
    store.advance_recovery_points()
    append(store, 1)
    view = read_folder(OsFiles(), folder)
    assert not view.is_settled
    assert view.offsets_partitions == 3
    assert [log.topic_partition.partition for log in view.logs] == [0, 1, 2]
    assert first_log(folder).readable_bytes(0, 2 * len(batch)) == len(batch)
    store.abandon()
    assert not read_folder(OsFiles(), folder).is_settled, "a crash looks the same"


def test_after_a_clean_stop_everything_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    store = open_store(folder)
    batch = append(store, 0)
    store.close()
    assert read_folder(OsFiles(), folder).is_settled
    assert first_log(folder).recovery_point is None
    assert first_log(folder).readable_bytes(0, len(batch)) == len(batch)


def test_a_brokers_folder_is_read_whole_and_has_as_many_partitions_as_it_names() -> None:
    view = read_folder(OsFiles(), GOLDEN)
    assert view.is_settled
    assert view.offsets_partitions == 50
    assert len(view.logs) == 22
    assert all(log.recovery_point is None for log in view.logs)


@pytest.mark.parametrize(
    ("base_offset", "readable"), [(0, 100), (5, 40), (9, 0)], ids=["before", "at", "behind"]
)
def test_a_recovery_point_bounds_its_own_segment_and_those_behind(
    base_offset: int, readable: int
) -> None:
    point = RecoveryPoint(
        topic_partition=FIRST,
        offset=7,
        journal_offset_next=8,
        segment_base_offset=5,
        segment_bytes=40,
        leader_epoch=0,
    )
    log = LogView(topic_partition=FIRST, folder=Path("x"), recovery_point=point)
    assert log.readable_bytes(base_offset, 100) == readable
    assert log.readable_bytes(base_offset, 30) == min(readable, 30)


def test_what_is_no_data_folder_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(FolderMismatch, match="does not exist"):
        read_folder(OsFiles(), tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(FolderMismatch, match="is not a folder"):
        read_folder(OsFiles(), tmp_path / "file")
    with pytest.raises(FolderMismatch, match="no partition folders"):
        read_folder(OsFiles(), tmp_path)


def test_damaged_or_newer_properties_and_a_cut_journal_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    open_store(folder).abandon()
    journals = [folder / "offsetd-journal-0", folder / "offsetd-journal-1"]
    contents = [journal.read_bytes() for journal in journals]
    for journal in journals:
        journal.write_bytes(journal.read_bytes()[: 200 << 10])
    with pytest.raises(JournalDamaged):
        read_folder(OsFiles(), folder)
    for journal, content in zip(journals, contents, strict=True):
        journal.write_bytes(content)
    properties = (folder / PROPERTIES_NAME).read_text()
    (folder / PROPERTIES_NAME).write_text(properties.replace("partitions=3", "partitions=4"))
    with pytest.raises(FolderMismatch, match="damaged"):
        read_folder(OsFiles(), folder)
    (folder / PROPERTIES_NAME).write_text(properties.replace("version=1", "version=2"))
    with pytest.raises(NewerFormat):
        read_folder(OsFiles(), folder)


def test_a_damaged_checkpoint_leaves_the_folders_to_name_the_partitions(tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-4").mkdir()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("nonsense")
    assert read_folder(OsFiles(), tmp_path).offsets_partitions == 5
