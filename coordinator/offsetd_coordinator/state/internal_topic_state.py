"""The state of a small log that is read record by record; a bad record never stops the reading."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from offsetd_storage.batch.record_batch import batch_header, decode_batch
from offsetd_storage.errors import CorruptBatch

if TYPE_CHECKING:
    from offsetd_storage.batch.record_batch import BatchHeader, RecordBatch


class InternalTopicState(ABC):
    """The end of a log, and the state from its records. Used by one thread at a time.

    `offset_next` is the log offset of the next record, `leader_epoch` that of new batches.
    """

    def __init__(self) -> None:
        self.offset_next = 0
        self.leader_epoch = 0
        self.undecodable_records = 0

    def replay(self, batches: bytes) -> None:
        """Replays whole, checked batches. Records that cannot be understood are only counted.

        Raises CorruptBatch if the bytes are not whole batches.
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
        """Notes that the log is replayed, and sets its end. Compaction may have removed its last
        batches.
        """
        self.offset_next = offset_next
        self.leader_epoch = leader_epoch

    def _note_end(self, last: BatchHeader) -> None:
        self.offset_next = last.last_offset + 1
        self.leader_epoch = last.partition_leader_epoch

    @abstractmethod
    def _replay_batch(self, batch: RecordBatch) -> None:
        """Replays the records of one batch."""
