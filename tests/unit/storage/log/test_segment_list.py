"""A segment that is gone, or not as it was, is found at the start, wherever it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from cleaned_logs import clean_group
from log_stores import FOLDER, P0, P1, P2, SMALL, append, contents, opened
from offsetd_coordinator.offline.verification.log_check import LogVerifier
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log.segment_list import (
    SEGMENT_LIST_NAME,
    SegmentListDamaged,
    read_segment_list,
)
from offsetd_storage.log.segment_swap import install
from offsetd_storage.views.folder_view import read_folder

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_coordinator.offline.verification.findings import Finding

CONFIG = attrs.evolve(SMALL, journal_file_bytes=1 << 16)
LOG = FOLDER / P0.folder_name
SIZE = 110


def stopped(*, closed: bool, rolled: bool = False) -> SimulatedFiles:
    """Logs of several segments of six batches; killed, some of it is above the recovery points."""
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    for at in range(20):
        for topic_partition in (P0, P1, P2):
            append(store, topic_partition, size_bytes=SIZE)
        store.flush()
        if at == 15:
            store.advance_recovery_points()
    for topic_partition in (P0, P1, P2):
        if rolled:
            store.roll(topic_partition)
    if closed:
        store.close()
    else:
        store.advance_recovery_points()
        append(store, P0, size_bytes=SIZE)
        store.flush()
        store.abandon()
    return files.kill()


def findings(files: SimulatedFiles) -> list[Finding]:
    """What a verification says of the first log, which nobody changes meanwhile."""
    view = read_folder(files, FOLDER)
    (log,) = [each for each in view.logs if each.topic_partition == P0]
    return list(LogVerifier(files, log, partitions=None).findings())


def paths(files: SimulatedFiles) -> list[Path]:
    return [segment_path(LOG, each) for each in segment_base_offsets(files, LOG)]


@pytest.mark.slow
@pytest.mark.parametrize("what", ["gone", "emptied", "cut"])
@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("closed", [True, False])
def test_a_segment_that_is_not_as_it_was_is_a_quarantine_and_a_finding(
    closed: bool, rolled: bool, what: str
) -> None:
    whole = stopped(closed=closed, rolled=rolled)
    held = contents(opened(whole.kill(), CONFIG))
    for path in paths(whole):
        files = whole.kill()
        content = files.read_bytes(path)
        if what == "gone":
            files.unlink(path)
            files.sync_folder(LOG)
        elif not content:
            continue
        else:
            files.put_durable(path, b"" if what == "emptied" else content[:-SIZE])
        found = [each for each in findings(files) if not each.is_warning]
        assert any(path.name in each.file for each in found), (path.name, found)
        store = opened(files, CONFIG)
        assert list(store.quarantined) == [P0], path.name
        store.close()
        # It is back: all is as it was.
        files.put_durable(path, content)
        again = opened(files, CONFIG)
        assert not again.quarantined
        assert contents(again) == held


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_every_bit_of_a_header_that_no_checksum_covers_is_found(closed: bool) -> None:
    whole = stopped(closed=closed)
    assert not findings(whole)
    view = read_folder(whole, FOLDER)
    (log,) = [each for each in view.logs if each.topic_partition == P0]
    for path in paths(whole):
        content = whole.read_bytes(path)
        end = log.readable_bytes(int(path.stem), len(content))
        starts = [0, (end // SIZE - 1) * SIZE] if end else []
        for bit in (start * 8 + bit for start in starts for bit in range(21 * 8)):
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            files = whole.kill()
            files.put_durable(path, bytes(flipped))
            assert [each for each in findings(files) if not each.is_warning], (path.name, bit)
            if bit % 8 != bit // 8 % 8:
                continue  # A start goes by the same digests, and takes long: one bit of each byte.
            store = opened(files, CONFIG)
            assert P0 in store.quarantined, (path.name, bit)
            store.abandon()


@pytest.mark.parametrize("closed", [True, False])
def test_a_folder_of_an_older_version_is_listed_once_with_a_note(
    closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr("offsetd_storage.log_store.with_listings", lambda _, points: points)
        older.setattr(
            "offsetd_storage.recovery.folder_recovery.with_listings", lambda _, points: points
        )
        files = stopped(closed=closed)
    assert not files.exists(LOG / SEGMENT_LIST_NAME)
    store = opened(files, CONFIG)
    assert not store.quarantined
    assert store.report.warnings == ()
    (note,) = store.report.notes
    assert "and 2 more are listed from now on" in note
    held = contents(store)
    store.close()
    again = opened(files, CONFIG)
    assert again.report.notes == ()
    assert contents(again) == held
    again.close()
    files.unlink(paths(files)[1])
    assert P0 in opened(files, CONFIG).quarantined


def test_a_segment_that_is_put_into_the_log_is_found() -> None:
    files = stopped(closed=True)
    oldest = paths(files)[0]
    files.put_durable(segment_path(LOG, 1), files.read_bytes(oldest)[SIZE : 2 * SIZE])
    files.put_durable(oldest, files.read_bytes(oldest)[:SIZE])
    assert P0 in opened(files, CONFIG).quarantined


def test_without_the_list_the_log_counts_as_it_is_and_is_listed_anew() -> None:
    files = stopped(closed=True)
    files.unlink(paths(files)[1])
    files.unlink(LOG / SEGMENT_LIST_NAME)
    files.sync_folder(LOG)
    store = opened(files, CONFIG)
    assert not store.quarantined
    (warning,) = store.report.warnings
    assert "it is missing" in warning
    store.close()
    assert read_segment_list(files, LOG) is not None
    again = opened(files, CONFIG)
    assert not again.report.warnings


def test_a_list_that_is_damaged_is_told_and_made_anew() -> None:
    whole = stopped(closed=True)
    content = whole.read_bytes(LOG / SEGMENT_LIST_NAME)
    held = contents(opened(whole.kill(), CONFIG))
    for bit in range(len(content) * 8):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        files = whole.kill()
        files.put_durable(LOG / SEGMENT_LIST_NAME, bytes(flipped))
        with pytest.raises(SegmentListDamaged):
            read_segment_list(files, LOG)
    store = opened(files, CONFIG)
    assert contents(store) == held
    assert any(SEGMENT_LIST_NAME in each for each in store.report.warnings)


@pytest.mark.slow
def test_every_bit_of_a_header_of_a_cleaned_segment_is_found() -> None:
    """Where offsets are missing between batches, no rule says what they have to be."""
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    for _ in range(20):
        append(store, P0, size_bytes=SIZE)
    store.settle_points()
    log = store.logs[P0]
    group = log.segments[:2]
    cleaned = clean_group(files, group, [2, 5, 9], folder=LOG, config=CONFIG.log)
    assert cleaned is not None
    install(files, log, [cleaned], group)
    held = contents(store)
    store.close()
    path = paths(files)[0]
    content = files.read_bytes(path)
    batch_bytes = len(content) // 3
    assert contents(opened(files.kill(), CONFIG)) == held
    for bit in (start * batch_bytes * 8 + bit for start in range(3) for bit in range(21 * 8)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        state = files.kill()
        state.put_durable(path, bytes(flipped))
        assert findings(state), bit
        again = opened(state, CONFIG)
        assert P0 in again.quarantined, bit
        again.abandon()
