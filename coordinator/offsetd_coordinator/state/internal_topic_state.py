"""The state of a small log that is read record by record; a bad record never stops the reading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from offsetd_storage.batch.record_batch import batch_header, decode_batch
from offsetd_storage.errors import CorruptBatch

if TYPE_CHECKING:
    from offsetd_storage.batch.record_batch import BatchHeader, RecordBatch


class InternalTopicState(ABC):
    """Where a log ends, and what its records say. Used by one thread at a time.

    `offset_next` is the log offset of the next record, `leader_epoch` what new batches carry.
    """

    def __init__(self) -> None:
        self.offset_next = 0
        self.leader_epoch = 0
        self.undecodable_records = 0

    def replay(self, batches: bytes) -> None:
        """Replays whole, checked batches. What cannot be understood is counted, and never fails.

        Raises CorruptBatch if there is something else than whole batches.
        """
        position = 0
        while position < len(batches):
            header = batch_header(batches, position)
            self._note_end(header)
            try:
                batch = decode_batch(batches, position, check_crc=False)
            except CorruptBatch:
                self.undecodable_records += header.count
            else:
                if not batch.is_control:
                    self._replay_batch(batch)
            position += header.size_bytes

    def end_load(self, *, offset_next: int, leader_epoch: int) -> None:
        """Notes that what is to be known of the log is replayed; it may end behind its last batch,
        which compaction took.
        """
        self.offset_next = offset_next
        self.leader_epoch = leader_epoch

    def _note_end(self, last: BatchHeader) -> None:
        self.offset_next = last.last_offset + 1
        self.leader_epoch = last.partition_leader_epoch

    @abstractmethod
    def _replay_batch(self, batch: RecordBatch) -> None:
        """The records of one batch."""
