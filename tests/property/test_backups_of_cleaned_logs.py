"""Backups while the cleaner runs say what all batches ever appended say, also at earlier times."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import pytest
from backups import RESTORED, back_up, repository_of
from chance import seed_of
from cleaned_logs import record_batch
from cleaned_stores import CONFIG, CleanedStore
from log_stores import log_bytes
from offsetd_storage.backups.backup_errors import BackupRefused
from offsetd_storage.backups.log_restoring import LogRestoring
from offsetd_storage.backups.pinned_logs import PinnedLogs
from offsetd_storage.backups.point_in_time import backup_for, cuts_at
from offsetd_storage.backups.restored_folder import begin_restore, end_restore
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log_store import OFFSETS_TOPIC, LogStore
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import NOW_MS, everything

if TYPE_CHECKING:
    from offsetd_storage.backups.manifest import Manifest
    from offsetd_storage.backups.point_in_time import Cut
    from offsetd_storage.backups.repository import Repository

STEPS = 400 if os.environ.get("OFFSETD_NIGHTLY") else 120
SEEDS = range(20 if os.environ.get("OFFSETD_NIGHTLY") else 3)
LOG = TopicPartition(OFFSETS_TOPIC, 0)
State = dict[bytes, bytes]


def said_by(batches: bytes) -> State:
    """What a log says: the last value of each key."""
    state: State = {}
    for batch in decode_batches(batches):
        for record in batch.records:
            assert record.key is not None
            if record.value is None:
                state.pop(record.key, None)
            else:
                state[record.key] = record.value
    return state


def begun(random: Random) -> CleanedStore:
    return CleanedStore(SimulatedFiles(), random, ManualClock(NOW_MS))


def append(store: CleanedStore, key: str, value: str | None) -> None:
    """A record with a time of its own, which is durable."""
    store.clock.advance(10)
    offset = store.log().offset_next
    batch = record_batch(offset, key, value, timestamp_ms=store.clock.now_ms())
    store.append_batch(0, batch)
    store.flush()


def append_some(store: CleanedStore, random: Random) -> None:
    for _ in range(random.randrange(1, 12)):
        value = None if random.random() < 0.2 else f"{random.random()}"
        append(store, f"k{random.randrange(8)}", value)


def clean(store: CleanedStore) -> None:
    store.roll(0)
    store.advance()
    store.clean(0)


def restored(
    store: CleanedStore,
    repository: Repository,
    manifest: Manifest,
    cuts: dict[TopicPartition, Cut] | None = None,
) -> LogStore:
    now_ms = store.clock.now_ms()
    lock = begin_restore(store.files, RESTORED)
    LogRestoring(
        repository=repository,
        manifest=manifest,
        files=store.files,
        folder=RESTORED,
        now_ms=now_ms,
        cuts=cuts or {},
    ).restore(store.random)
    end_restore(store.files, RESTORED)
    lock.release()
    return LogStore.open(
        store.files, RESTORED, CONFIG, clock=ManualClock(now_ms), random=store.random
    )


def forget(store: CleanedStore, opened: LogStore) -> None:
    """Empties the restored folder, as an operator does before the next restore."""
    opened.abandon()
    store.files.put_durable(RESTORED / "offsetd.restoring", b"")


@pytest.mark.parametrize("number", SEEDS)
@pytest.mark.slow
def test_backups_and_earlier_times_are_exact_or_refused(number: int) -> None:
    random = Random(f"{seed_of()} {number}")
    store = begun(random)
    repository = repository_of(store.files)
    model: list[tuple[int, int]] = []  # The time and the end of each batch.
    exact = refused = 0
    for _ in range(STEPS):
        step = random.random()
        if step < 0.5:
            append_some(store, random)
        elif step < 0.7:
            clean(store)
        elif step < 0.75:
            store.restart()
        else:
            moment_ms = store.clock.now_ms()
            manifest = back_up(store.store, repository, moment_ms=moment_ms).manifest
            held = restored(store, repository, manifest)
            end = manifest.logs[0].end_offset
            assert said_by(everything(held.logs[LOG])) == said_by(state_until(store, end))
            forget(store, held)
            model = times_of(store)
            if model and exact + refused < 40:
                time_ms = random.choice(model[-30:])[0]
                was_exact = check_time(store, repository, manifest, time_ms, model)
                exact, refused = exact + was_exact, refused + (not was_exact)
    assert exact
    assert refused


def state_until(store: CleanedStore, end: int) -> bytes:
    return b"".join(store.appended[0].before(end))


def times_of(store: CleanedStore) -> list[tuple[int, int]]:
    batches = store.appended[0]
    times = [next(decode_batches(each)).records[0].timestamp_ms for each in batches.batches]
    return list(zip(times, batches.ends, strict=True))


def check_time(
    store: CleanedStore,
    repository: Repository,
    manifest: Manifest,
    time_ms: int,
    model: list[tuple[int, int]],
) -> bool:
    """Whether the state at that time is in the backup; then it is restored, and is right."""
    try:
        cuts = cuts_at(repository, manifest, time_ms, of=str)
    except BackupRefused:
        return False
    held = restored(store, repository, manifest, cuts)
    end = max(end for at_ms, end in model if at_ms <= time_ms)
    assert said_by(everything(held.logs[LOG])) == said_by(state_until(store, end))
    assert held.logs[LOG].offset_next > manifest.logs[0].end_offset
    forget(store, held)
    return True


def test_a_time_before_the_cleaned_part_is_refused_with_the_times_that_there_are() -> None:
    store = begun(Random(1))
    repository = repository_of(store.files)
    for number in range(20):
        append(store, f"k{number % 2}", str(number))
    clean(store)
    append(store, "k0", "last")
    manifest = back_up(store.store, repository, moment_ms=store.clock.now_ms()).manifest
    cleaned_ms, last_ms = NOW_MS + 200, NOW_MS + 210
    with pytest.raises(BackupRefused, match=f"all states from {cleaned_ms} to {last_ms}"):
        cuts_at(repository, manifest, cleaned_ms - 1, of=str)
    cuts = cuts_at(repository, manifest, cleaned_ms, of=str)
    assert cuts[LOG].offset == 20
    assert cuts_at(repository, manifest, last_ms, of=str) == {}


def test_the_earliest_backup_after_a_time_is_taken() -> None:
    store = begun(Random(1))
    repository = repository_of(store.files)
    append(store, "k", "v")
    ids = [back_up(store.store, repository, moment_ms=each).backup_id for each in (1000, 2000)]
    backups = repository.backups()
    assert backup_for(backups, 900, of=str) == ids[0]
    assert backup_for(backups, 1000, of=str) == ids[0]
    assert backup_for(backups, 1001, of=str) == ids[1]
    with pytest.raises(BackupRefused, match=r"no backup reaches to 2001: the newest .* of 2000"):
        backup_for(backups, 2001, of=str)


def test_a_log_that_was_cleaned_beyond_the_moment_is_pinned_at_a_later_one() -> None:
    store = begun(Random(1))
    for number in range(10):
        append(store, f"k{number}", "old")
    early = store.store.durable_ends()
    for number in range(10):
        append(store, f"k{number}", "new")
    clean(store)  # The old values are gone, and the new ones are not below the early ends.
    ends = iter([early, store.store.durable_ends()])
    with PinnedLogs.pin(store.store, clock=store.clock, ends=lambda: next(ends)) as pinned:
        assert pinned.head.logs[0].end_offset == 20


def test_a_restored_log_is_cleaned_beyond_its_jump() -> None:
    random = Random(1)
    store = begun(random)
    repository = repository_of(store.files)
    for number in range(20):
        append(store, f"k{number % 3}", str(number))
    manifest = back_up(store.store, repository, moment_ms=store.clock.now_ms()).manifest
    restored(store, repository, manifest).abandon()
    continued = begun(random)
    continued.store.abandon()
    continued.store = LogStore.open(store.files, RESTORED, CONFIG, clock=store.clock, random=random)
    continued.files, continued.clock = store.files, store.clock
    continued.checkpoint = type(continued.checkpoint)(store.files, RESTORED)
    for number in range(20):
        append(continued, f"k{number % 2}", f"new {number}")
    before = len(log_bytes(continued.log()))
    for _ in range(3):
        clean(continued)
    expected = {b"k0": b"new 18", b"k1": b"new 19", b"k2": b"17"}
    assert said_by(everything(continued.log())) == expected
    assert len(everything(continued.log())) < before / 2
