"""A repair keeps what is whole, puts aside what is not, and has the partition served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import FOLDER, P0, P1, P2, SMALL, append, contents, opened, seeded
from offsetd_storage.batch.record_batch import Record, batch_header, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log_store import LogStore
from offsetd_storage.recovery.quarantine import quarantine_path
from offsetd_storage.recovery.repair_plan import ASIDE_SUFFIX, Bounds, mended_segment
from partition_logs import NOW_MS, batch_of

if TYPE_CHECKING:
    from random import Random

    from offsetd_storage.disk.simulated_faults import Operation

CONFIG = attrs.evolve(SMALL, journal_file_bytes=8192)
BATCHES = 18  # In segments of five.


def stopped(*, closed: bool) -> tuple[SimulatedFiles, list[bytes]]:
    """And the batches of P0; killed, two of them are above the recovery point."""
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    batches = []
    for at in range(BATCHES):
        if at == BATCHES - 2:
            store.advance_recovery_points()
        batches.append(append(store, P0, size_bytes=140))
        append(store, P1, size_bytes=140)
        store.flush()
    if closed:
        store.close()
    else:
        store.abandon()
    return files.kill(), batches


def repaired(files: SimulatedFiles, *, random: Random | None = None) -> LogStore:
    return LogStore.open(
        files, FOLDER, CONFIG, clock=ManualClock(NOW_MS), random=random or seeded(), repaired=[P0]
    )


def segment_of(files: SimulatedFiles, place: int) -> tuple[int, bytes]:
    folder = FOLDER / P0.folder_name
    base_offset = segment_base_offsets(files, folder)[place]
    return base_offset, files.read_bytes(segment_path(folder, base_offset))


def flip(files: SimulatedFiles, place: int, batch: int, at: int, bit: int = 0) -> None:
    """A bit of a byte of a batch of a segment; -1: the last one."""
    base_offset, content = segment_of(files, place)
    starts = [0]
    while starts[-1] + batch_header(content, starts[-1]).size_bytes < len(content.rstrip(b"\0")):
        starts.append(starts[-1] + batch_header(content, starts[-1]).size_bytes)
    flipped = bytearray(content)
    flipped[starts[batch] + at] ^= 1 << bit
    files.put_durable(segment_path(FOLDER / P0.folder_name, base_offset), bytes(flipped))


def asides(files: SimulatedFiles) -> list[bytes]:
    folder = FOLDER / P0.folder_name
    names = [name for name in files.list_folder(folder) if ASIDE_SUFFIX in name]
    return [files.read_bytes(folder / name) for name in names]


def is_quarantined(files: SimulatedFiles) -> bool:
    """As a plain start sees it, which closes the folder; its message names the repair."""
    store = opened(files, CONFIG)
    if store.quarantined:
        assert "offsetd log repair" in str(store.quarantined[P0])
    store.close()
    return bool(store.quarantined)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize(
    ("place", "batch", "at"),
    [(0, 0, 100), (1, 2, 70), (2, -1, 90), (0, 1, 10), (1, 0, 8), (-1, 0, 100), (1, 2, 7)],
)
def test_one_bad_batch_costs_itself_alone(
    closed: bool, is_held: bool, place: int, batch: int, at: int
) -> None:
    files, batches = stopped(closed=closed)
    flip(files, place, batch, at, bit=2)
    base_offset, before = segment_of(files, place)
    if is_held:
        assert is_quarantined(files)
    store = repaired(files)
    assert not store.quarantined
    found = contents(store)
    missing = [each for each in batches if each not in found[P0]]
    assert len(missing) == 1
    assert found[P0] == b"".join(each for each in batches if each not in missing)
    assert found[P1] != b""
    (repair,) = store.report.repairs
    assert [each.base_offset for each in repair.bad] == [base_offset]
    assert asides(files) == [before]
    assert not files.exists(quarantine_path(FOLDER, P0))
    assert store.logs[P0].offset_next == BATCHES
    new = append(store, P0)
    store.flush()
    store.close()
    assert not is_quarantined(files)
    again = opened(files, CONFIG)
    assert contents(again)[P0] == found[P0] + new
    assert again.report.repairs == ()


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_segment_that_is_missing_costs_its_batches_alone(closed: bool, place: int) -> None:
    files, batches = stopped(closed=closed)
    base_offset, content = segment_of(files, place)
    files.unlink(segment_path(FOLDER / P0.folder_name, base_offset))
    assert is_quarantined(files)
    store = repaired(files)
    lost = [each for each in batches if each in content]
    if not closed:
        lost = [each for each in lost if batch_header(each).base_offset < BATCHES - 2]
    assert contents(store)[P0] == b"".join(each for each in batches if each not in lost)
    assert store.logs[P0].offset_next == BATCHES
    (repair,) = store.report.repairs
    assert any(f"{base_offset:020d}.log" in each for each in repair.missing)
    assert repair.bad == ()
    store.close()
    assert not is_quarantined(files)


@pytest.mark.parametrize("closed", [True, False])
def test_headers_that_no_checksum_covers_lose_nothing_where_they_can_be_put_right(
    closed: bool,
) -> None:
    files, batches = stopped(closed=closed)
    flip(files, 1, 2, 15, bit=6)  # The leader epoch.
    assert is_quarantined(files)
    store = repaired(files)
    assert contents(store)[P0] == b"".join(batches)
    store.close()
    assert not is_quarantined(files)


def test_the_share_of_the_journal_that_cannot_be_read_is_kept_beside() -> None:
    files, batches = stopped(closed=False)
    flip(files, 0, 0, 100)
    assert is_quarantined(files)
    path = quarantine_path(FOLDER, P0)
    content = bytearray(files.read_bytes(path))
    content[40] ^= 1
    files.put_durable(path, bytes(content))
    assert is_quarantined(files)
    store = repaired(files)
    assert not store.quarantined
    assert contents(store)[P0].startswith(b"".join(batches[1 : BATCHES - 2]))
    assert files.read_bytes(path.with_name(f"damaged-{path.name}")) == bytes(content)
    store.close()
    assert not is_quarantined(files)


def test_a_partition_that_is_whole_is_as_it_was() -> None:
    files, batches = stopped(closed=False)
    store = repaired(files)
    assert contents(store)[P0] == b"".join(batches)
    assert store.report.repairs == ()
    assert P2 in store.logs


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_a_crash_while_a_log_is_repaired_leaves_what_a_repair_mends(closed: bool) -> None:
    random = seeded()
    files, batches = stopped(closed=closed)
    flip(files, 1, 2, 70)
    states: list[SimulatedFiles] = []

    def look(running: SimulatedFiles, _: Operation) -> None:
        states.extend(running.crash_states(samples=1, random=random))
        states.append(running.kill())

    files.before_operation = look
    store = repaired(files, random=random)
    whole = contents(store)
    assert len(whole[P0]) == sum(map(len, batches)) - 140
    store.abandon()
    files.before_operation = None
    assert len(states) > 20
    for state in states:
        again = repaired(state, random=random)
        assert contents(again) == whole
        again.abandon()


def test_what_looks_like_a_batch_within_a_bad_one_is_not_taken() -> None:
    forged = batch_of(1, size_bytes=140)
    record = Record(key=b"k", value=forged, offset=1, timestamp_ms=NOW_MS)
    outer = encode_batch([record], base_offset=1)
    batches = [batch_of(0, size_bytes=140), outer, batch_of(2, size_bytes=140)]
    content = bytearray(b"".join(batches))
    content[140 + 30] ^= 1
    mended = mended_segment(bytes(content), 0, Bounds(offset_min=0), index_interval_bytes=4096)
    assert mended.content == batches[0] + batches[2]
    assert [(each.position, len(each.content)) for each in mended.bad] == [(140, len(outer))]
