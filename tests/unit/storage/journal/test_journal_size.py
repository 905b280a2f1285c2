"""A journal gets small where nothing is written, and large again, and never loses anything."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import attrs
import pytest
from journals import PATHS
from log_stores import FOLDER, P0, P1, SMALL, append, contents, opened, seeded
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFile, SimulatedFiles
from offsetd_storage.errors import (
    JournalDamaged,
    JournalTooSmall,
    RecordTooLarge,
    StorageFailed,
)
from offsetd_storage.journal.journal_files import JOURNAL_NAMES, SPARE_NAME
from offsetd_storage.journal.journal_recovery import recover_journal
from offsetd_storage.log.store_config import TopicSpec

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.disk.simulated_faults import Operation
    from offsetd_storage.log_store import LogStore

FULL_BYTES = 20480
CONFIG = attrs.evolve(SMALL, journal_file_bytes=FULL_BYTES)
FILES = tuple(FOLDER / path.name for path in PATHS)


def sizes(files: SimulatedFiles) -> list[int]:
    return [files.size(path) for path in FILES]


def rested(*, batches: int = 5) -> tuple[SimulatedFiles, LogStore]:
    """A store that holds a few batches, with a journal at rest."""
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    for _ in range(batches):
        append(store, P0)
    store.settle_points()
    assert store.journal_size.rest()
    return files, store


def commit(store: LogStore, count: int = 1) -> None:
    for _ in range(count):
        append(store, P0)
        store.flush()


def test_a_journal_at_rest_takes_the_largest_batch_and_little_more() -> None:
    files, store = rested()
    small, other = sizes(files)
    assert small == other < FULL_BYTES / 4
    append(store, P1, size_bytes=store.logs[P1].batch_bytes_max)
    store.flush()
    held = contents(store)
    assert contents(opened(files.power_cut(), CONFIG)) == held


def test_a_full_disk_takes_no_flush_from_a_journal_at_rest() -> None:
    config = attrs.evolve(CONFIG, log=attrs.evolve(CONFIG.log, segment_bytes_max=6000))
    files = SimulatedFiles()
    store = opened(files, config)
    assert store.journal_size.rest()
    append(store, P1, size_bytes=6000)  # There was room for it in the segment.
    files.capacity_bytes = 0
    store.flush()
    held = contents(store)
    files.capacity_bytes = None
    assert contents(opened(files.power_cut(), config)) == held


def test_without_room_to_grow_the_files_just_take_more_turns() -> None:
    files, store = rested()
    files.faults.append(
        Fault(errno=errno.ENOSPC, path=f"*{SPARE_NAME}", kind=OperationKind.WRITE, nth=1)
    )
    assert not store.journal_size.grow()
    assert not files.exists(FOLDER / SPARE_NAME)
    commit(store, 60)
    assert len(set(sizes(files))) == 1
    held = contents(store)
    assert contents(opened(files.power_cut(), CONFIG)) == held
    assert store.failed is None


@pytest.mark.parametrize("nth", [1, 2])
def test_without_room_to_rest_files_stay_as_they_are(nth: int) -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    commit(store, 3)
    store.settle_points()
    files.faults.append(
        Fault(errno=errno.ENOSPC, path=f"*{SPARE_NAME}", kind=OperationKind.CREATE, nth=nth)
    )
    assert not store.journal_size.rest()
    assert sizes(files).count(FULL_BYTES) == 3 - nth
    commit(store, 60)
    held = contents(store)
    assert contents(opened(files.power_cut(), CONFIG)) == held
    files.faults.clear()
    store.settle_points()
    assert store.journal_size.rest()
    assert FULL_BYTES not in sizes(files)


def test_a_journal_grows_while_commits_go_on() -> None:
    files, store = rested()
    room, small_bytes = store.journal_size, store.journal_size.batch_bytes_max

    def commit_meanwhile(_: SimulatedFiles, operation: Operation) -> None:
        if operation.path.name == SPARE_NAME and operation.kind is OperationKind.SYNC:
            files.before_operation = None
            assert store._locks.journal.locked() or not commit(store, 20)

    files.before_operation = commit_meanwhile
    assert room.grow()
    assert sizes(files) == [FULL_BYTES] * 2
    assert room.batch_bytes_max > small_bytes
    assert room.growth_bytes == 0
    commit(store, 100)
    held = contents(store)
    assert contents(opened(files.power_cut(), CONFIG)) == held


@pytest.mark.parametrize("opens_left", [0, 1])
def test_an_exchange_that_was_begun_needs_no_more_descriptors(
    opens_left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, store = rested()
    left = iter(range(opens_left))

    def open_file(path: Path, **how: bool) -> SimulatedFile:
        if next(left, None) is None:
            raise OSError(errno.EMFILE, "too many open files")
        return SimulatedFiles.open(files, path, **how)

    monkeypatch.setattr(files, "open", open_file)
    assert not store.journal_size.grow()
    assert sizes(files).count(FULL_BYTES) == opens_left
    assert not files.exists(FOLDER / SPARE_NAME)
    commit(store, 2)
    monkeypatch.undo()
    assert store.journal_size.grow()
    commit(store, 20)
    held = contents(store)
    assert contents(opened(files.power_cut(), CONFIG)) == held


def test_a_journal_does_not_rest_before_all_is_in_the_segments() -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    append(store, P0)
    assert not store.journal_size.rest(), "it waits to be flushed"
    store.flush()
    assert not store.journal_size.rest(), "it is in the journal alone"
    store.advance_recovery_points()
    append(store, P0)
    assert not store.journal_size.rest(), "the next one waits"
    assert sizes(files) == [FULL_BYTES] * 2
    store.settle_points()
    assert store.journal_size.rest()
    assert not store.journal_size.rest(), "it rests"


def test_frames_that_were_begun_at_rest_fit_the_small_files() -> None:
    files, store = rested()
    for _ in range(30):
        append(store, P0)  # All of it is one flush, and more than a file takes.
    store.flush()
    held = contents(store)
    assert contents(opened(files.power_cut(), CONFIG)) == held


def test_a_small_journal_is_not_made_smaller() -> None:
    large = attrs.evolve(CONFIG.log, segment_bytes_max=FULL_BYTES // 2)
    store = opened(SimulatedFiles(), attrs.evolve(CONFIG, log=large))
    assert store.journal_size.rest_gain_bytes == 0
    assert not store.journal_size.rest()


def test_a_start_takes_files_at_rest_as_they_are() -> None:
    files, store = rested()
    before = sizes(files)
    store.close()
    files = files.power_cut()
    again = opened(files, CONFIG)
    assert sizes(files) == before
    commit(again, 60)
    assert again.journal_size.grow()
    assert sizes(files) == [FULL_BYTES] * 2


def test_a_start_makes_files_anew_that_do_not_take_the_largest_batch() -> None:
    files, store = rested()
    store.close()
    large = attrs.evolve(CONFIG.log, segment_bytes_max=6000)
    again = opened(files, attrs.evolve(CONFIG, log=large))
    assert sizes(files) == [FULL_BYTES] * 2
    append(again, P0, size_bytes=6000)
    again.flush()


def test_a_start_without_room_for_full_files_makes_small_ones() -> None:
    files, store = rested()
    store.close()
    before = sizes(files)
    files.capacity_bytes = 1 << 20
    files.capacity_bytes -= files.free_bytes(FOLDER) - (FULL_BYTES - 4096)
    config = attrs.evolve(CONFIG, log=attrs.evolve(CONFIG.log, segment_bytes_max=2500))
    store = opened(files, config)
    assert max(before) < min(sizes(files))
    assert max(sizes(files)) < FULL_BYTES
    files.capacity_bytes = None
    append(store, P1, size_bytes=2500)
    store.flush()
    held = contents(store)
    assert contents(opened(files.power_cut(), config)) == held
    assert store.journal_size.grow()


def test_a_start_with_a_few_more_partitions_takes_files_at_rest_as_they_are() -> None:
    files, store = rested()
    before = sizes(files)
    store.close()
    more = TopicSpec(topic="events", partitions=2, log=CONFIG.log)
    config = attrs.evolve(CONFIG, other_topics=(more,))
    opened(files, config)
    assert sizes(files) == before


def test_a_batch_that_became_possible_waits_until_the_files_have_grown() -> None:
    _, store = rested()
    assert not store.journal_size.is_short
    store.logs[P0].config = attrs.evolve(CONFIG.log, segment_bytes_max=6000)
    assert store.journal_size.is_short
    with pytest.raises(JournalTooSmall, match="until the journal has grown"):
        append(store, P0, size_bytes=6000)
    with pytest.raises(RecordTooLarge, match="than what max"):
        append(store, P0, size_bytes=6001)
    assert store.journal_size.grow()
    assert not store.journal_size.is_short
    append(store, P0, size_bytes=6000)
    store.flush()


@pytest.mark.parametrize("more_bytes", [0, 1])
def test_a_rest_of_one_file_takes_no_batch_that_the_other_cannot(more_bytes: int) -> None:
    files, store = rested()
    room = store.journal_size
    files.faults.append(
        Fault(errno=errno.ENOSPC, path=f"*{SPARE_NAME}", kind=OperationKind.CREATE, nth=2)
    )
    assert not room.grow()
    assert sizes(files).count(FULL_BYTES) == 1
    small_bytes = room.batch_bytes_max
    larger = attrs.evolve(CONFIG.log, segment_bytes_max=small_bytes + more_bytes)
    store.logs[P0].config = larger
    assert room.is_short == (more_bytes > 0)
    bounds = []

    def look(_: SimulatedFiles, operation: Operation) -> None:
        if operation.path.name == SPARE_NAME:
            bounds.append(room.batch_bytes_max)

    files.before_operation = look
    assert room.rest() != room.is_short
    assert set(bounds) == (set() if room.is_short else {small_bytes})
    append(store, P0, size_bytes=small_bytes)
    store.flush()


@pytest.mark.parametrize("nth", range(1, 8))
def test_a_file_that_was_being_made_when_the_process_died_is_removed(nth: int) -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    commit(store)
    store.settle_points()
    files.faults.append(Fault(errno=errno.EIO, path=f"*{SPARE_NAME}", nth=nth))
    try:
        store.journal_size.rest()
    except StorageFailed:
        assert store.failed is not None
    held = contents(store)
    files = files.kill()
    assert contents(opened(files, CONFIG)) == held
    assert not files.exists(FOLDER / SPARE_NAME)


def test_a_start_has_the_room_of_a_file_that_was_being_made() -> None:
    files, store = rested()
    for _ in range(8):
        append(store, P0, size_bytes=500)
    store.flush()
    held = contents(opened(files.kill(), CONFIG))
    files.faults.append(
        Fault(errno=errno.EIO, path=f"*{SPARE_NAME}", kind=OperationKind.SYNC, nth=1)
    )
    with pytest.raises(StorageFailed):
        store.journal_size.grow()
    files = files.kill()
    assert files.size(FOLDER / SPARE_NAME) == FULL_BYTES
    files.faults.clear()
    files.capacity_bytes = 1 << 20
    files.capacity_bytes -= files.free_bytes(FOLDER)
    assert contents(opened(files, CONFIG)) == held


# Damage to a journal at rest -----------------------------------------------------------------


@pytest.mark.slow
def test_rot_anywhere_in_a_journal_at_rest_is_refused_or_changes_nothing() -> None:
    files, store = rested()
    commit(store, 2)
    end = store._journal._position
    commit(store)
    sound = followed(files, store)
    refused, random = 0, seeded()
    for path in FILES:
        content = files.read_bytes(path)
        for position in range(len(content)):
            is_current = path.name == JOURNAL_NAMES[store._journal._place]
            if is_current and position in range(end, store._journal._position):
                continue  # The very last frame: nothing tells its rot from a tear.
            rotten = files.kill()
            flipped = content[position] ^ 1 << random.randrange(8)
            changed = content[:position] + bytes([flipped]) + content[position + 1 :]
            rotten.put_durable(path, changed)
            try:
                assert followed(rotten, store) == sound, (path, position)
            except JournalDamaged:
                refused += 1
    assert refused > 300


@pytest.mark.parametrize("commits", [0, 1])
@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_current_file_that_is_replaced_by_itself_of_before_is_missed(
    commits: int, turns: int
) -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    commit(store, 3)
    before: dict[str, list[bytes]] = {path.name: [bytes(FULL_BYTES)] for path in FILES}

    def keep() -> None:
        for path in FILES:
            before[path.name].append(files.read_bytes(path))

    keep()
    for _ in range(turns):
        store.settle_points()
        store._journal.turn()
        keep()
        commit(store)
        keep()
    store.settle_points()
    assert store.journal_size.rest()
    commit(store, commits)
    sound = followed(files, store)
    name = JOURNAL_NAMES[store._journal._place]
    assert len(before[name]) > 1
    for content in before[name]:
        damaged = files.kill()
        damaged.put_durable(FOLDER / name, content)
        with pytest.raises(JournalDamaged):
            followed(damaged, store)
    assert followed(files, store) == sound


@pytest.mark.parametrize(
    ("file_bytes", "segment_bytes_max"), [(4 * FULL_BYTES, 20_000), (FULL_BYTES // 2, 700)]
)
def test_an_older_copy_of_the_current_file_is_missed_though_a_start_made_both_anew(
    file_bytes: int, segment_bytes_max: int
) -> None:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    commit(store)
    store.settle_points()
    path = FILES[store._journal._place]
    before = files.read_bytes(path)
    store.close()
    opened(files, CONFIG).close()  # In the other file.
    log = attrs.evolve(CONFIG.log, segment_bytes_max=segment_bytes_max)
    config = attrs.evolve(CONFIG, journal_file_bytes=file_bytes, log=log)
    store = opened(files, config)
    assert path == FILES[store._journal._place]
    assert sizes(files) == [file_bytes] * 2
    commit(store, 3)
    files = files.power_cut()
    files.put_durable(path, before)
    with pytest.raises(JournalDamaged):
        opened(files, config)


def followed(files: SimulatedFiles, store: LogStore) -> object:
    """What recovery acts on."""
    recovered = recover_journal(files, FOLDER, store._journal._identity, begun=True)
    assert recovered is not None
    return recovered.batches, recovered.end.points, recovered.closed_clean
