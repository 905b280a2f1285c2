"""Short ways to write a journal on a simulated disk, and to follow it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from offsetd_storage.folder.folder_format import FolderIdentity
from offsetd_storage.journal.batches_frame import BatchesFrame
from offsetd_storage.journal.journal import JOURNAL_NAMES, Journal, JournalSizes
from offsetd_storage.journal.journal_format import (
    COUNT,
    LogEnd,
    RecoveryPoint,
    batch_entry_bytes,
)
from offsetd_storage.journal.journal_recovery import RecoveredJournal, recover_journal
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import batch_of

if TYPE_CHECKING:
    from offsetd_storage.disk.files import Files
    from offsetd_storage.disk.simulated_files import SimulatedFiles

FOLDER = Path("/journal")
PATHS = tuple(FOLDER / name for name in JOURNAL_NAMES)
IDENTITY = FolderIdentity(folder_id=b"f" * 16, frame_mark=b"a secret")
SIZES = JournalSizes(file_bytes=4096, header_bytes=512, frame_bytes_max=4096)
A, B = TopicPartition("__consumer_offsets", 0), TopicPartition("__consumer_offsets", 1)


def point_at(topic_partition: TopicPartition, offset: int) -> RecoveryPoint:
    return RecoveryPoint(
        topic_partition=topic_partition,
        offset=offset,
        journal_offset_next=offset,
        segment_base_offset=0,
        segment_bytes=100 * offset,
        leader_epoch=0,
    )


class Writer:
    """A journal of two partitions, and where they end."""

    def __init__(
        self, files: SimulatedFiles, sizes: JournalSizes = SIZES, *, life: int = 77
    ) -> None:
        if not files.exists(FOLDER):
            files.make_folder(FOLDER)
            files.sync_folder(FOLDER.parent)
        self.files = files
        self.last_frame_start = 0
        self.ends = {A: 0, B: 0}
        self.batches: dict[TopicPartition, list[bytes]] = {A: [], B: []}
        self.journal = Journal(files, FOLDER, IDENTITY, sizes)
        self.journal.begin_life(life, [point_at(A, 0), point_at(B, 0)])

    def add_batch(
        self, frame: BatchesFrame, topic_partition: TopicPartition, size_bytes: int = 200
    ) -> bytes:
        """Puts the next batch of a partition into a frame."""
        offset = self.ends[topic_partition]
        self.ends[topic_partition] += 1
        batch = batch_of(offset, size_bytes=size_bytes)
        self.batches[topic_partition].append(batch)
        frame.add(topic_partition, batch)
        frame.ends[topic_partition] = LogEnd(offset + 1, 0, 100 * (offset + 1))
        return batch

    def has_room(self, size_bytes: int = 200) -> bool:
        return self.journal.make_room(COUNT.size + batch_entry_bytes(A, size_bytes))

    def append(self, topic_partition: TopicPartition = A, size_bytes: int = 200) -> bytes:
        """One batch in a frame of its own."""
        assert self.has_room(size_bytes)
        frame = BatchesFrame()
        batch = self.add_batch(frame, topic_partition, size_bytes)
        self.last_frame_start = self.journal._position
        self.journal.append_batches(frame)
        return batch

    def points(self) -> dict[TopicPartition, RecoveryPoint]:
        return {each: point_at(each, end) for each, end in self.ends.items()}

    def fill(self) -> int:
        """Appends until there is no room; returns how many frames that took."""
        frames = 0
        while self.has_room():
            self.append((A, B)[frames % 2])
            frames += 1
            assert frames < 1000, "a journal that overwrites what is needed"
        return frames


def followed(files: Files, *, begun: bool = True) -> RecoveredJournal:
    recovered = recover_journal(files, FOLDER, IDENTITY, begun=begun)
    assert recovered is not None
    return recovered
