"""What a compaction would save is what the real one saves, and what each key's last record says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from audited_logs import WrittenLog
from log_commands import offsetd_log
from log_stores import seeded
from offsetd_pipeline.audit.cleaner_state import log_state
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import decode_batch
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC_LOG_CONFIG
from offsetd_storage.kernels.encode import BATCH_HEADER_BYTES
from offsetd_storage.recovery.quarantine import DamageFound

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

AT_ONCE = ("--set", "request.id.window.ms=0", "--set", "history.ms=0")


def random_log(chance: Random, *, deletions: float, unkeyed: float = 0.0) -> WrittenLog:
    log = WrittenLog()
    for number in range(200):
        if number and chance.random() < 0.03:
            log.roll()
        group = f"g{chance.randrange(20)}"
        if chance.random() < unkeyed:
            log.put(None, b"v", 1_000_000 + number)
        elif chance.random() < deletions:
            log.delete(group, 1_000_000 + number)
        else:
            log.commit(group, chance.randrange(1000), 1_000_000 + number)
    return log


def state_of(folder: Path, now_ms: int = 2_000_000) -> dict[str, Any]:
    return log_state(folder, 0, config=OFFSETS_TOPIC_LOG_CONFIG, now_ms=now_ms)


def log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in (folder / "__consumer_offsets-0").glob("*.log"))


def superseded_bytes(log: WrittenLog, end: int) -> int:
    """Of the records below `end` that have no key, or a later one of theirs below it.

    Of the last one its batch stays, empty, which says where the log ends.
    """
    keys = [decode_batch(batch).records[0].key for batch in log.batches[:end]]
    last = {key: offset for offset, key in enumerate(keys)}
    needless = sum(
        len(log.batches[offset])
        for offset, key in enumerate(keys)
        if key is None or last[key] != offset
    )
    return needless - (BATCH_HEADER_BYTES if keys[-1] is None else 0)


@pytest.mark.parametrize("attempt", range(4))
def test_what_is_saved_is_what_later_records_of_a_key_make_needless(
    tmp_path: Path, attempt: int
) -> None:
    log = random_log(seeded(), deletions=0.0, unkeyed=0.1 * (attempt % 2))
    log.write(tmp_path)
    found = state_of(tmp_path)
    assert found["saved_bytes"] == superseded_bytes(log, log.rolls[-1])
    assert found["rolled_saved_bytes"] == superseded_bytes(log, log.offset_next)
    assert found["rolled_saved_bytes"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(3))
def test_what_is_saved_is_what_the_real_cleaner_saves(tmp_path: Path, attempt: int) -> None:
    log = random_log(seeded(), deletions=0.1 * attempt)
    log.roll()  # So that the one that is active is empty, and its end is known.
    log.write(tmp_path)
    before, found = log_bytes(tmp_path), state_of(tmp_path, round(time.time() * 1000))
    outcome = offsetd_log("clean", "--data-dir", str(tmp_path), *AT_ONCE)
    assert outcome.code == 0, outcome.err
    assert before - log_bytes(tmp_path) == found["saved_bytes"] > 0


def test_a_log_is_dirty_from_where_the_cleaner_was(tmp_path: Path) -> None:
    log = WrittenLog()
    for number in range(8):
        if number in (2, 6):
            log.roll()
        log.commit("g", number, 1000)
    log.write(tmp_path)
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\n__consumer_offsets 0 2\n")
    found, one = state_of(tmp_path), len(log.batches[0])
    assert (found["clean_bytes"], found["dirty_bytes"]) == (2 * one, 4 * one)
    assert found["dirty_ratio"] == pytest.approx(4 / 6)
    assert (found["first_dirty_offset"], found["first_uncleanable_offset"]) == (2, 6)


@pytest.mark.parametrize(
    ("gone", "complete_from"),
    [((), 0), ((0,), 1), ((3, 4), 5), ((5,), 6), ((3, 7), 8), ((9,), 10), ((0, 1, 2, 3, 4), 5)],
)
def test_a_log_is_complete_behind_the_last_record_that_is_gone(
    tmp_path: Path, gone: tuple[int, ...], complete_from: int
) -> None:
    log = WrittenLog()
    for number in range(10):
        if number == 5:
            log.roll()
        transaction = {"producer_id": 3, "producer_epoch": 0, "is_transactional": True}
        log.commit("g", number, 1000, **(transaction if number == 8 else {}))
    for number in gone:
        log.batches[number] = b""
    log.write(tmp_path)
    if not any(log.batches[9:]):
        (tmp_path / "__consumer_offsets-0" / f"{10:020d}.log").write_bytes(b"")
    assert state_of(tmp_path)["complete_from"] == complete_from


def test_a_damaged_log_has_no_state(tmp_path: Path) -> None:
    log = random_log(seeded(), deletions=0.0)
    log.batches[7] = log.batches[7][:-1] + b"\xff"
    log.write(tmp_path)
    with pytest.raises(DamageFound):
        state_of(tmp_path)


def test_what_compression_makes_of_it_is_counted_as_it_is_on_disk(tmp_path: Path) -> None:
    log = WrittenLog()
    for number in range(4):
        if number == 3:
            log.roll()
        log.commit("g", number, 1000, compression=Compression.GZIP)
    log.write(tmp_path)
    assert state_of(tmp_path)["saved_bytes"] == sum(map(len, log.batches[:2]))
