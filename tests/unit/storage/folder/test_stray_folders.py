"""Folders of ours that a broker set aside get their names again, unless the folder is refused."""

from __future__ import annotations

from pathlib import Path
from random import Random

import attrs
import pytest
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderMismatch
from offsetd_storage.folder.stray_folders import strays_taken_back
from offsetd_storage.log_store import LogStore, LogStoreConfig, TopicSpec
from offsetd_storage.topic_partition import TopicPartition

FOLDER = Path("/data")
OURS = TopicPartition("ours", 0)
CONFIG = LogStoreConfig(
    partitions=1,
    journal_file_bytes=1 << 20,
    other_topics=(TopicSpec(topic="ours", partitions=1, log=LogConfig()),),
)
STRAY = "ours-0.5e8723de8e044b7c9746ff23826e34a9-stray"


def opened(files: SimulatedFiles, config: LogStoreConfig = CONFIG) -> LogStore:
    return LogStore.open(files, FOLDER, config, clock=ManualClock(), random=Random(1))


def set_aside() -> SimulatedFiles:
    """A folder with a record of ours in a partition that a broker has set aside since."""
    files = SimulatedFiles()
    store = opened(files)
    batch = encode_batch([Record(key=b"k", value=b"v", offset=0, timestamp_ms=5)], base_offset=0)
    store.append(OURS, batch, last_offset=0, max_timestamp_ms=5)
    store.close()
    files.rename(FOLDER / "ours-0", FOLDER / STRAY)
    files.sync_folder(FOLDER)
    return files


def test_what_a_broker_set_aside_is_there_again_with_a_warning() -> None:
    files = set_aside()
    store = opened(files)
    assert store.logs[OURS].offset_next == 1
    assert store.logs[OURS].read(0, bytes_max=1000)
    assert not files.exists(FOLDER / STRAY)
    assert any(STRAY in warning for warning in store.report.warnings)
    store.close()
    assert opened(files).report.warnings == ()


def test_a_folder_that_is_refused_stays_as_it_was() -> None:
    files = set_aside()
    with pytest.raises(FolderMismatch):
        opened(files, attrs.evolve(CONFIG, partitions=7))
    assert files.exists(FOLDER / STRAY)
    assert not files.exists(FOLDER / "ours-0")


def test_a_partition_that_has_a_folder_keeps_it() -> None:
    files = set_aside()
    store = opened(files)
    store.close()
    files.make_folder(FOLDER / STRAY)
    store = opened(files)
    assert store.logs[OURS].offset_next == 1
    assert files.exists(FOLDER / STRAY)
    store.close()


@pytest.mark.parametrize(
    "name",
    ["ours-0.5e8723de-stray", "ours-0-stray", "theirs-0" + STRAY[6:], STRAY + "x"],
)
def test_what_is_not_ours_or_no_brokers_stays(name: str) -> None:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    files.make_folder(FOLDER / name)
    with strays_taken_back(files, FOLDER, [OURS]) as warnings:
        assert warnings == ()
    assert files.list_folder(FOLDER) == [name]
