"""Files of one partition come back from copies of different times: never is anything lost silently.

A start quarantines the partition, or warns, or has all that the journal's copy had.
"""

from __future__ import annotations

import attrs
import pytest
from cleaned_logs import clean_group
from log_stores import FOLDER, P0, P1, SMALL, append, contents, opened, seeded
from offsetd_coordinator.offline.verification.log_check import LogVerifier
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.segment_files import segment_base_offsets
from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.log.segment_swap import install
from offsetd_storage.views.folder_view import read_folder

CONFIG = attrs.evolve(SMALL, journal_file_bytes=1 << 16)
LOG = FOLDER / P0.folder_name
MIXTURES = 150


@attrs.frozen
class Copies:
    """A folder, twice: each time as a stop or a kill left it."""

    older: SimulatedFiles
    newer: SimulatedFiles

    def mixed(
        self, journal: SimulatedFiles, older: set[str], missing: frozenset[str] = frozenset()
    ) -> SimulatedFiles:
        """One of them, where P0's folder has the newer files, but for the `older` ones."""
        files = journal.kill()
        for name in {*self.older.list_folder(LOG), *self.newer.list_folder(LOG)}:
            path, source = LOG / name, self.older if name in older else self.newer
            if name not in missing and source.exists(path):
                files.put_durable(path, source.read_bytes(path))
            elif files.exists(path):
                files.unlink(path)
        files.sync_folder(LOG)
        return files

    @property
    def names(self) -> list[str]:
        """Of P0's files."""
        return sorted({*self.older.list_folder(LOG), *self.newer.list_folder(LOG)})


def copies(*, closed: bool, cleaned: bool = False) -> Copies:
    files = SimulatedFiles()
    written(files, closed=closed)
    older = files.kill()
    written(files, closed=closed, cleaned=cleaned)
    return Copies(older=older, newer=files.kill())


def written(files: SimulatedFiles, *, closed: bool, cleaned: bool = False) -> None:
    """Some twenty batches more in each log; before that, the first is cleaned or not."""
    store = opened(files, CONFIG)
    if cleaned:
        group = store.logs[P0].segments[:2]
        segment = clean_group(files, group, [2, 5, 9], folder=LOG, config=CONFIG.log)
        assert segment is not None
        install(files, store.logs[P0], [segment], group)
    for at in range(20):
        for topic_partition in (P0, P1):
            append(store, topic_partition, size_bytes=110)
        store.flush()
        if at % 5 == 4:
            store.advance_recovery_points()
    if closed:
        store.close()
    else:
        store.abandon()


def held(files: SimulatedFiles) -> bytes:
    store = opened(files.kill(), CONFIG)
    assert not store.quarantined
    found: bytes = contents(store)[P0]
    store.abandon()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("cleaned", [False, True])
@pytest.mark.parametrize("closed", [True, False])
def test_whatever_is_mixed_a_start_has_all_or_says_what_it_has_not(
    closed: bool, cleaned: bool
) -> None:
    random = seeded()
    both = copies(closed=closed, cleaned=cleaned)
    met = set()
    for _ in range(MIXTURES):
        journal = random.choice([both.older, both.newer])
        share_older, share_missing = random.choice([(0.5, 0), (0.1, 0), (0, 0.15), (0.8, 0.05)])
        older = {name for name in both.names if random.random() < share_older}
        missing = frozenset(name for name in both.names if random.random() < share_missing)
        store = opened(both.mixed(journal, older, missing), CONFIG)
        if P0 in store.quarantined:
            met.add("quarantined")
        elif any(SEGMENT_LIST_NAME in each for each in store.report.warnings):
            met.add("warned")
        else:
            met.add("whole")
            which = [journal] if journal is both.newer else [both.older, both.newer]
            assert contents(store)[P0] in [held(each) for each in which], (older, missing)
        store.abandon()
    assert met == {"quarantined", "warned", "whole"}


@pytest.mark.parametrize("closed", [True, False])
def test_a_journal_that_is_older_than_the_list_is_found(closed: bool) -> None:
    both = copies(closed=closed)
    files = both.mixed(both.older, set())
    (view,) = (each for each in read_folder(files, FOLDER).logs if each.topic_partition == P0)
    findings = [str(each.reason) for each in LogVerifier(files, view, partitions=None).findings()]
    assert any("the journal is from an older copy" in each for each in findings) == closed
    store = opened(files.kill(), CONFIG)
    if closed:  # All that is listed is there.
        assert any("where it was closed" in each for each in store.report.warnings)
        assert contents(store)[P0] == held(both.newer)
    else:
        assert "the journal is from an older copy" in str(store.quarantined[P0])
    store.close()
    # As the remedy says: without its list, the log is as the journal has it.
    files.unlink(LOG / SEGMENT_LIST_NAME)
    files.sync_folder(LOG)
    store = opened(files, CONFIG)
    assert not store.quarantined
    assert contents(store)[P0] == held(both.newer if closed else both.older)
    assert any(SEGMENT_LIST_NAME in each for each in store.report.warnings)


def test_an_older_journal_and_an_older_list_beside_newer_segments_are_told() -> None:
    both = copies(closed=True)
    store = opened(both.mixed(both.older, {SEGMENT_LIST_NAME}), CONFIG)
    assert not store.quarantined
    (warning,) = store.report.warnings
    assert "nothing shows that a broker wrote that" in warning
    oldest = f"{segment_base_offsets(both.older, LOG)[0]:020}.log"
    lost = both.mixed(both.older, {SEGMENT_LIST_NAME}, frozenset({oldest}))
    assert P0 in opened(lost, CONFIG).quarantined


@pytest.mark.parametrize("closed", [True, False])
def test_an_older_list_beside_newer_segments_is_told_and_made_anew(closed: bool) -> None:
    both = copies(closed=closed)
    files = both.mixed(both.newer, {SEGMENT_LIST_NAME})
    store = opened(files, CONFIG)
    assert contents(store)[P0] == held(both.newer)
    (warning,) = store.report.warnings
    assert "it is older than the journal" in warning
    store.close()
    again = opened(files, CONFIG)
    assert not again.report.warnings
    assert not again.quarantined


@pytest.mark.parametrize("closed", [True, False])
def test_older_segments_beside_a_newer_list_are_a_quarantine(closed: bool) -> None:
    """Also where each of them ends with a whole batch."""
    both = copies(closed=closed)
    logs = {name for name in both.names if name.endswith(".log")}
    assert P0 in opened(both.mixed(both.newer, logs), CONFIG).quarantined


@pytest.mark.parametrize("closed", [True, False])
def test_indexes_that_are_missing_or_older_change_nothing(closed: bool) -> None:
    both = copies(closed=closed)
    indexes = {name for name in both.names if name.endswith("index")}
    for files in (
        both.mixed(both.newer, indexes),
        both.mixed(both.newer, set(), frozenset(indexes)),
    ):
        store = opened(files, CONFIG)
        assert not store.quarantined
        assert contents(store)[P0] == held(both.newer)
        assert not store.report.warnings
