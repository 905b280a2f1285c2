"""Rounds over the logs of a store, and what they would leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from cleaned_logs import record_batch, replayed
from log_stores import FOLDER, P0, P1, SMALL, SMALL_LOG, log_bytes, opened, tree
from offsetd_storage.cleaner.cleaning_round import CleanerTools
from offsetd_storage.cleaner.offline_cleaning import (
    clean_partition,
    preview_partition,
    roll_active,
    viewed_log,
)
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderMismatch
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.views.folder_view import read_folder
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.topic_partition import TopicPartition
    from offsetd_storage.views.folder_view import LogView

CONFIG = attrs.evolve(SMALL, log=attrs.evolve(SMALL_LOG, segment_bytes_max=400))


def tools_of(files: SimulatedFiles) -> CleanerTools:
    offset_map = OffsetMap(
        100 * SLOT_BYTES, load_factor=1.0, hash_key=bytes(16), bitmap_bytes_max=64
    )
    return CleanerTools(files=files, offset_map=offset_map, clock=ManualClock(NOW_MS))


def put(store: LogStore, topic_partition: TopicPartition, keys: str) -> None:
    for key in keys:
        offset = store.logs[topic_partition].offset_next
        batch = record_batch(offset, key, f"{key}{offset}")
        store.append(topic_partition, batch, last_offset=offset, max_timestamp_ms=NOW_MS)
    store.flush()


def view_of(files: SimulatedFiles, topic_partition: TopicPartition) -> LogView:
    logs = read_folder(files, FOLDER).logs
    return next(each for each in logs if each.topic_partition == topic_partition)


@pytest.mark.parametrize("rolls", [True, False], ids=["all of it", "closed segments"])
@pytest.mark.parametrize("closes", [True, False], ids=["closed", "beside a store"])
def test_a_preview_says_what_a_round_does(rolls: bool, closes: bool) -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    put(store, P0, "abcabcabcabcaaa")
    store.advance_recovery_points()
    if closes:
        store.close()
    before = tree(files)
    preview = preview_partition(
        view_of(files, P0), tools_of(files), CONFIG.log, first_dirty=None, rolls_active=rolls
    )
    assert tree(files) == before
    if closes:
        store = opened(files, CONFIG)
    said = replayed(log_bytes(store.logs[P0]))
    if rolls:
        roll_active(store, [P0, P1])
    checkpoint = CleanerCheckpoint(files, FOLDER)
    report = clean_partition(store, P0, tools_of(files), checkpoint)
    assert report == preview
    assert report is not None
    assert report.messages_written < report.messages_read
    assert (report.messages_read == 15) == rolls
    assert checkpoint.first_dirty(P0) == report.offset_next
    assert replayed(log_bytes(store.logs[P0])) == said


def test_a_log_with_nothing_but_an_active_segment_has_nothing_to_clean() -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    put(store, P0, "a")
    checkpoint = CleanerCheckpoint(files, FOLDER)
    assert clean_partition(store, P0, tools_of(files), checkpoint) is None
    store.close()
    for topic_partition, rolls in ((P0, False), (P1, False), (P1, True)):
        view = view_of(files, topic_partition)
        assert (
            preview_partition(
                view, tools_of(files), CONFIG.log, first_dirty=None, rolls_active=rolls
            )
            is None
        )


def test_what_was_cleaned_stays_known_and_a_log_start_is_kept() -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    put(store, P0, "abcabcabcabcaaa")
    store.advance_recovery_points()
    store.raise_log_start_offset(P0, 5)
    store.close()
    preview = preview_partition(
        view_of(files, P0),
        tools_of(files),
        CONFIG.log,
        first_dirty=2,  # Below the start: it cannot be right.
        log_start_offset=5,
        rolls_active=True,
    )
    assert preview is not None
    assert (preview.first_dirty, preview.offset_next) == (5, 15)


def test_a_log_that_is_only_looked_at_is_checked_and_has_a_segment() -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    put(store, P0, "abcabc")
    store.close()
    view = view_of(files, P0)
    with viewed_log(files, view, CONFIG.log, log_start_offset=7) as log:
        assert (log.log_start_offset, log.offset_next) == (6, 6)  # It starts not behind its end.
    path = segment_path(view.folder, 0)
    raw = bytearray(files.read_bytes(path))
    raw[70] ^= 1
    files.put_durable(path, bytes(raw))
    with pytest.raises(DamageFound), viewed_log(files, view, CONFIG.log):
        pass
    files.unlink(path)
    for base_offset in segment_base_offsets(files, view.folder):
        files.unlink(segment_path(view.folder, base_offset))
    with pytest.raises(FolderMismatch), viewed_log(files, view, CONFIG.log):
        pass
