"""What a start leaves out after a close in order, and what it never does on a mark's word alone."""

from __future__ import annotations

import errno
import os
import shutil
import time
from random import Random
from typing import TYPE_CHECKING

import pytest
from log_stores import FOLDER, P0, P1, P2, commit, opened
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFile, SimulatedFiles
from offsetd_storage.errors import JournalDamaged
from offsetd_storage.journal.journal import JOURNAL_NAMES
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.recovery.clean_shutdown_marker import CLOSED_MARK_NAME, read_marker
from patience import PATIENCE_SECONDS
from recovered_folders import committed, log_path, put

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MARK = FOLDER / CLOSED_MARK_NAME
FOLDERS = {FOLDER / each.folder_name for each in (P0, P1, P2)}
LOGS = {log_path(each) for each in (P0, P1, P2)}


def synced_by_a_start(files: SimulatedFiles) -> set[Path]:
    """What is synced before the first change of a start, of files that it does not always sync."""
    files = files.kill()
    seen: list[Operation] = []
    files.before_operation = lambda _, operation: seen.append(operation)
    opened(files, random=Random(1)).abandon()
    synced = set()
    for operation in seen:
        if operation.kind not in (OperationKind.SYNC, OperationKind.SYNC_FOLDER):
            break
        synced.add(operation.path)
    return {path for path in synced if path.parent in FOLDERS or path in FOLDERS}


def test_after_a_close_in_order_no_log_is_synced() -> None:
    assert synced_by_a_start(committed(closed=True)) == set()
    assert synced_by_a_start(committed(closed=True).power_cut()) == set()


def test_after_a_crash_every_log_is_synced() -> None:
    synced = synced_by_a_start(committed(closed=False))
    assert synced >= LOGS | FOLDERS
    assert log_path(P0, suffix=".timeindex") in synced


def test_a_crash_after_a_close_has_the_logs_synced_though_the_mark_is_there() -> None:
    files = committed(closed=True)
    opened(files).abandon()
    assert files.exists(MARK)
    assert synced_by_a_start(files) >= LOGS


def copied(files: SimulatedFiles) -> None:
    """The log of P0 is replaced by a copy that was not synced, as by `cp`."""
    content = files.read_bytes(log_path(P0))
    files.unlink(log_path(P0))
    put(files, log_path(P0), content)


def overwritten(files: SimulatedFiles) -> None:
    put(files, log_path(P0), files.read_bytes(log_path(P0)))


def dated(files: SimulatedFiles) -> None:
    files.set_modified_ms(log_path(P0), 1)


def to_and_fro(files: SimulatedFiles) -> None:
    files.rename(log_path(P0), FOLDER / P0.folder_name / "aside")
    files.rename(FOLDER / P0.folder_name / "aside", log_path(P0))


def beside(files: SimulatedFiles) -> None:
    put(files, segment_path(FOLDER / P0.folder_name, 0, ".log.cleaned"), b"")


def index_gone(files: SimulatedFiles) -> None:
    files.unlink(log_path(P0, suffix=".index"))


@pytest.mark.parametrize("touch", [copied, overwritten, dated, to_and_fro, beside, index_gone])
def test_a_log_that_was_touched_since_is_synced_and_the_others_are_not(
    touch: Callable[[SimulatedFiles], None],
) -> None:
    files = committed(closed=True)
    touch(files)
    synced = synced_by_a_start(files)
    assert {log_path(P0), FOLDER / P0.folder_name} <= synced
    assert {path for path in synced if P0.folder_name not in str(path)} == set()


def test_what_was_there_beside_the_log_when_it_was_closed_is_not_taken_for_durable() -> None:
    files = SimulatedFiles()
    store = opened(files)
    commit(store, P0)
    beside(files)
    store.close()
    assert log_path(P0) in synced_by_a_start(files)


def test_a_life_after_the_close_whose_header_was_lost_is_missed() -> None:
    """What is left of the journal then ends with the frame of the close."""
    files = committed(closed=True)
    store = opened(files)
    commit(store, P0)
    store.abandon()
    newest = max(JOURNAL_NAMES, key=lambda name: files.stamp(FOLDER / name))
    put(files, FOLDER / newest, bytes(80))
    with pytest.raises(JournalDamaged, match="durable before it"):
        opened(files)


def test_of_a_journal_that_is_as_it_was_closed_only_the_frames_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_for: list[object] = []
    monkeypatch.setattr(
        "offsetd_storage.journal.journal_recovery._refuse_lost_frames",
        lambda files, **_: looked_for.append(files),
    )
    files = committed(closed=True)
    opened(files.kill()).abandon()
    assert not looked_for
    for name in JOURNAL_NAMES:
        touched = files.kill()
        touched.set_modified_ms(FOLDER / name, 1)
        looked_for.clear()
        opened(touched).abandon()
        assert looked_for, name


def test_a_mark_that_is_torn_or_changed_is_none() -> None:
    files = committed(closed=True)
    whole = files.read_bytes(MARK)
    for end in range(len(whole)):
        files.put_durable(MARK, whole[:end])
        assert read_marker(files, FOLDER).digests == {}, end
        files.put_durable(MARK, whole[:end] + bytes([whole[end] ^ 1]) + whole[end + 1 :])
        assert read_marker(files, FOLDER).digests == {}, end
    assert synced_by_a_start(files) >= LOGS
    files.put_durable(MARK, whole)
    assert len(read_marker(files, FOLDER).digests) == 1 + len(LOGS)


def test_a_quarantined_log_is_not_in_the_mark() -> None:
    files = committed(closed=True)
    files.put_durable(log_path(P1), b"rotten" * 20)
    store = opened(files)
    assert store.quarantined.keys() == {P1}
    store.close()
    assert read_marker(files, FOLDER).digests.keys() == {
        "journal",
        P0.folder_name,
        P2.folder_name,
    }


def test_on_a_full_disk_a_close_is_in_order_without_a_mark() -> None:
    files = SimulatedFiles()
    store = opened(files)
    commit(store, P0)
    files.faults.append(Fault(errno=errno.ENOSPC, path=f"*{CLOSED_MARK_NAME}.tmp"))
    store.close()
    files = files.kill()
    assert not files.exists(MARK)
    assert opened(files).report.closed_clean


# Stamps -----------------------------------------------------------------------------------------


def write_again(path: Path) -> None:
    file = OsFiles().open(path)
    file.pwrite([b"a"], 0)
    file.close()


def rename_within(path: Path) -> None:
    (path / "a").rename(path / "b")
    (path / "b").rename(path / "a")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("file", write_again),
        ("file", lambda path: os.truncate(path, 1)),
        ("file", lambda path: os.utime(path, ns=(1, 1))),
        ("folder", rename_within),
        ("folder", lambda path: (path / "c").touch()),
    ],
)
def test_a_change_gives_another_stamp(
    tmp_path: Path, name: str, change: Callable[[Path], object]
) -> None:
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file", tmp_path / "folder" / "a"):
        path.write_bytes(b"a")
    files = OsFiles()
    before = files.stamp(tmp_path / name)
    limit = time.monotonic() + PATIENCE_SECONDS  # The clock of the file system has ticks.
    while files.stamp(tmp_path / name) == before:
        change(tmp_path / name)
        assert time.monotonic() < limit


def test_a_copy_has_another_stamp_and_reading_changes_none(tmp_path: Path) -> None:
    files, path = OsFiles(), tmp_path / "file"
    path.write_bytes(b"a")
    before = files.stamp(path)
    shutil.copy2(path, tmp_path / "copy")
    assert files.stamp(tmp_path / "copy") != before
    assert files.read_bytes(path) == b"a"
    file = files.open(path)
    file.sync()
    file.close()
    assert files.stamp(path) == before


def test_a_mark_that_cannot_be_read_costs_a_start_its_syncs_and_nothing_else() -> None:
    files = committed(closed=True)
    unreadable = Fault(errno=errno.EIO, path=str(MARK), kind=OperationKind.READ)
    files.faults.append(unreadable)
    assert read_marker(files, FOLDER).digests == {}
    opened(files).abandon()


def test_a_close_that_finds_no_descriptor_for_its_mark_is_a_close_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = committed(closed=True)
    store = opened(files)
    commit(store, P0)

    def open_file(path: Path, **how: bool) -> SimulatedFile:
        if path.name.startswith(CLOSED_MARK_NAME):
            raise OSError(errno.EMFILE, "too many open files")
        return SimulatedFiles.open(files, path, **how)

    monkeypatch.setattr(files, "open", open_file)
    store.close()
    monkeypatch.undo()
    assert opened(files.power_cut()).report.closed_clean
