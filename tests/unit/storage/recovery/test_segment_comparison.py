"""A partition's folder of another server in the place of ours."""

from __future__ import annotations

import attrs
import pytest
from log_stores import FOLDER, P0, SMALL, append, opened
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log.segment_list import SegmentList
from offsetd_storage.recovery.segment_comparison import KnownSegments, may_be_a_brokers

CONFIG = attrs.evolve(SMALL, journal_file_bytes=8192)


def closed(batches: int, *, size_bytes: int) -> SimulatedFiles:
    files = SimulatedFiles()
    store = opened(files, CONFIG)
    for _ in range(batches):
        append(store, P0, size_bytes=size_bytes)
        store.flush()
    store.close()
    return files.kill()


@pytest.mark.parametrize("batches", [12, 13, 18, 40])
@pytest.mark.parametrize("ours", [3, 12])
def test_the_partition_of_another_server_is_not_served_as_ours(ours: int, batches: int) -> None:
    files, theirs = closed(ours, size_bytes=140), closed(batches, size_bytes=150)
    folder = FOLDER / P0.folder_name
    for name in files.list_folder(folder):
        files.unlink(folder / name)
    for name in theirs.list_folder(folder):
        files.put_durable(folder / name, theirs.read_bytes(folder / name))
    store = opened(files, CONFIG)
    assert P0 in store.quarantined
    assert all("list" not in note for note in store.report.notes)


def test_a_snapshot_that_was_not_there_before_tells_of_a_broker() -> None:
    files, folder = closed(3, size_bytes=140), FOLDER / P0.folder_name
    point = opened(files, CONFIG).recovery_point(P0)
    files.put_durable(folder / f"{3:020d}.snapshot", b"")
    for snapshots, is_a_brokers in (((), True), ((3,), False)):
        known = KnownSegments(listed=SegmentList(below=3, segments=(), snapshots=snapshots))
        assert may_be_a_brokers(files, folder, known, point) is is_a_brokers
