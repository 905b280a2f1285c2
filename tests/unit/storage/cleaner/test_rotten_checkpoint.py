"""A cleaner's checkpoint in which a digit rots, to an offset that could be right."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from cleaned_logs import record_batch, replayed
from log_stores import FOLDER, P0, SMALL, SMALL_LOG, log_bytes, opened
from offsetd_storage.cleaner.cleaned_transactions import ProducerHistory
from offsetd_storage.cleaner.cleaning_plan import log_to_clean
from offsetd_storage.cleaner.cleaning_round import CleanerTools, clean_and_checkpoint
from offsetd_storage.cleaner.log_summaries import log_summary
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.folder.checkpoint_files import write_offset_checkpoint
from offsetd_storage.folder.cleaner_checkpoint import CLEANER_CHECKPOINT, CleanerCheckpoint
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from offsetd_storage.log_store import LogStore

CONFIG = attrs.evolve(SMALL, log=attrs.evolve(SMALL_LOG, delete_retention_ms=10))
PATH = FOLDER / CLEANER_CHECKPOINT


def put(store: LogStore, key: str, value: str | None) -> None:
    offset = store.logs[P0].offset_next
    batch = record_batch(offset, key, value)
    store.append(P0, batch, last_offset=offset, max_timestamp_ms=NOW_MS)


def clean(files: SimulatedFiles, store: LogStore, *, now_ms: int) -> None:
    """One round, by a cleaner that has just been started."""
    store.roll(P0)
    store.flush()
    store.advance_recovery_points()
    checkpoint, log = CleanerCheckpoint(files, FOLDER), store.logs[P0]
    tools = CleanerTools(
        files=files,
        offset_map=OffsetMap(
            100 * SLOT_BYTES, load_factor=1.0, hash_key=bytes(16), bitmap_bytes_max=64
        ),
        clock=ManualClock(now_ms),
    )
    summary = log_summary(
        files,
        log,
        recovery_point=store.recovery_point(P0),
        history=ProducerHistory(),
        checkpoint=checkpoint.first_dirty(P0),
    )
    found = log_to_clean(summary, log.config, now_ms=now_ms)
    clean_and_checkpoint(log, tools, found, checkpoint)


@pytest.mark.parametrize(
    ("has_checksum", "comes_back"),
    [(True, {}), (False, {b"k": b"old"})],  # Without, as Kafka's own file: this is what it is for.
)
def test_a_deletion_is_not_lost_where_the_checksum_is(
    has_checksum: bool, comes_back: dict[bytes, bytes]
) -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG, random=Random(1))
    put(store, "other", "0")
    clean(files, store, now_ms=NOW_MS)
    put(store, "k", "old")
    put(store, "k", None)
    rotten = store.logs[P0].offset_next
    if has_checksum:
        text = files.read_bytes(PATH)
        line = f"{P0.topic} 0 1\n".encode()
        assert line in text
        files.put_durable(PATH, text.replace(line, f"{P0.topic} 0 {rotten}\n".encode()))
    else:
        write_offset_checkpoint(files, PATH, {P0: rotten})
    for days in range(1, 4):
        put(store, "other", str(days))
        clean(files, store, now_ms=NOW_MS + 86_400_000 * days)
    assert replayed(log_bytes(store.logs[P0])) == {b"other": b"3"} | comes_back


def test_whoever_opens_the_folder_is_told_of_it() -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    put(store, "k", "v")
    store.close()
    files.put_durable(PATH, b"0\n1\nrot")
    store = opened(files, CONFIG)
    (warning,) = store.report.warnings
    assert str(PATH) in warning
    assert "dirty from their starts" in warning
    store.close()
