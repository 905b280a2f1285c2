"""A start that is refused names what to do, and that works; what it drops, it counts."""

from __future__ import annotations

import attrs
import pytest
from log_stores import FOLDER, P0, P1, P2, SMALL, append, contents, opened
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderMismatch, JournalDamaged
from offsetd_storage.folder.folder_format import PROPERTIES_NAME
from offsetd_storage.journal.journal import JOURNAL_NAMES

CONFIG = attrs.evolve(SMALL, journal_file_bytes=1 << 14)


def stopped(*, closed: bool, flushes: int = 4) -> SimulatedFiles:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    for _ in range(flushes):
        for topic_partition in (P0, P1, P2):
            append(store, topic_partition, size_bytes=110)
        store.flush()
    if closed:
        store.close()
    else:
        store.abandon()
    return files.kill()


def flip(files: SimulatedFiles, name: str, bit: int) -> None:
    content = bytearray(files.read_bytes(FOLDER / name))
    content[bit // 8] ^= 1 << bit % 8
    files.put_durable(FOLDER / name, bytes(content))


def moved_out(files: SimulatedFiles) -> None:
    for name in (PROPERTIES_NAME, *JOURNAL_NAMES):
        files.unlink(FOLDER / name)


def test_damaged_properties_name_a_remedy_that_works() -> None:
    files = stopped(closed=True)
    held = contents(opened(files.kill(), CONFIG))
    before = files.read_bytes(FOLDER / PROPERTIES_NAME)
    flip(files, PROPERTIES_NAME, 300)
    with pytest.raises(FolderMismatch, match=r"put it back from a backup .* move offsetd.prop"):
        opened(files, CONFIG)
    backed_up = files.kill()
    backed_up.put_durable(FOLDER / PROPERTIES_NAME, before)
    assert contents(opened(backed_up, CONFIG)) == held
    moved_out(files)
    assert contents(opened(files, CONFIG)) == held


def test_a_damaged_journal_that_is_needed_names_a_remedy_that_works() -> None:
    files = stopped(closed=False)
    start = files.read_bytes(FOLDER / JOURNAL_NAMES[0]).rindex(b"k" * 20)
    second = files.read_bytes(FOLDER / JOURNAL_NAMES[0]).index(b"k" * 20)
    assert second < start
    flip(files, JOURNAL_NAMES[0], second * 8)
    with pytest.raises(JournalDamaged, match=r"from a backup, or move offsetd\.properties"):
        opened(files, CONFIG)
    moved_out(files)
    assert not opened(files, CONFIG).quarantined


@pytest.mark.slow
def test_every_bit_of_the_last_frame_that_rots_is_told_and_counted() -> None:
    whole = stopped(closed=False, flushes=2)
    journal = whole.read_bytes(FOLDER / JOURNAL_NAMES[0])
    store = opened(whole.kill(), CONFIG)
    assert (store.report.bytes_cut, store.report.warnings) == (0, ())
    mark = journal.rindex(store._journal._identity.frame_mark)
    end = journal.rindex(b"k") + 1
    assert end - mark > 300
    silent = []
    for bit in range(mark * 8, end * 8, 7):
        files = whole.kill()
        flip(files, JOURNAL_NAMES[0], bit)
        again = opened(files, CONFIG)
        warned = any("the last frame" in each for each in again.report.warnings)
        if not (warned and again.report.journal_bytes_cut):
            silent.append(bit - mark * 8)
        again.abandon()
    assert not [each for each in silent if not 33 * 8 <= each < 40 * 8], silent
