"""The size of the journal: large under load, small while nothing is written.

All blocks of a journal file are written when the file is made, and appends are limited to what both
files hold. So no append or flush needs disk space for the journal. On a full disk the files stay
small, and the recovery points must move more often. Files are made large enough for the largest
batch that topics allow. If topics allow larger batches later, these are refused until the files
have grown (`is_short`).

Files do not change size in place. A new file is made next to them and exchanged for the file that
is not needed. The exchange is a rename, so a crash leaves one or the other.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.errors import JournalTooSmall, RecordTooLarge, may_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offsetd_storage.disk.failure_latch import FailureLatch
    from offsetd_storage.journal.journal import Journal
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.pending_frames import PendingFrames
    from offsetd_storage.topic_partition import TopicPartition

_FILES: Final = 2


@attrs.frozen
class StoreLocks:
    """The locks of a store. A thread that takes several takes them in this order."""

    flush: threading.Lock = attrs.field(factory=threading.Lock)
    advance: threading.Lock = attrs.field(factory=threading.Lock)
    journal: threading.Lock = attrs.field(factory=threading.Lock)
    pending: threading.Lock = attrs.field(factory=threading.Lock)


class JournalSize:
    """The size of a store's journal.

    Any thread may call `rest` and `grow`, while others append and flush. Both raise StorageFailed.
    `batch_bytes_max` is the size of the largest batch that any partition may append now.
    """

    def __init__(
        self,
        journal: Journal,
        unflushed: PendingFrames,
        logs: Mapping[TopicPartition, PartitionLog],
        locks: StoreLocks,
        latch: FailureLatch,
        *,
        advance_points: Callable[[], object],
    ) -> None:
        """`advance_points` moves the recovery points to the end of the journal."""
        self.batch_bytes_max = journal.batch_bytes_max
        self._journal = journal
        self._unflushed = unflushed
        self._logs = logs
        self._locks = locks
        self._latch = latch
        self._advance_points = advance_points
        self._changing = threading.Lock()  # Taken before the locks of the store.

    @property
    def growth_bytes(self) -> int:
        """The bytes that both files together need to reach their full size."""
        return self.growth_bytes_to(self._journal.full_file_bytes)

    def growth_bytes_to(self, file_bytes: int) -> int:
        """The bytes that both files together need to reach `file_bytes` each."""
        return sum(max(0, file_bytes - size) for size in self._journal.sizes_bytes)

    @property
    def sizes_to_grow_to(self) -> tuple[int, int]:
        """The full size of a file, and the least size that takes the largest batch of any log."""
        full_bytes = self._journal.full_file_bytes
        return full_bytes, min(self._rest_file_bytes(), full_bytes)

    @property
    def rest_gain_bytes(self) -> int:
        """The number of bytes that `rest` would free; 0 if that is not worth it."""
        rest_bytes = self._rest_file_bytes()
        if 2 * rest_bytes > self._journal.full_file_bytes:
            return 0
        return sum(max(0, size - rest_bytes) for size in self._journal.sizes_bytes)

    @property
    def is_short(self) -> bool:
        """Whether some log allows batches that the journal takes only once its files have grown."""
        return self._largest_batch_bytes() > self.batch_bytes_max and self.growth_bytes > 0

    @property
    def size_bytes(self) -> int:
        """The size of both files together."""
        return sum(self._journal.sizes_bytes)

    def refuse_large(self, log: PartitionLog, batch_bytes: int) -> None:
        """Raises RecordTooLarge or JournalTooSmall if log or journal cannot take the batch."""
        bytes_max = min(log.batch_bytes_max, self.batch_bytes_max)
        if batch_bytes <= bytes_max:
            return
        told = (
            f"{log.topic_partition}: a batch of {batch_bytes} bytes is larger than what"
            f" max.message.bytes and journal.file.bytes allow ({bytes_max})"
        )
        if batch_bytes <= log.batch_bytes_max and self.is_short:
            raise JournalTooSmall(f"{told}, until the journal has grown")
        raise RecordTooLarge(told)

    def _largest_batch_bytes(self) -> int:
        return max((log.batch_bytes_max for log in self._logs.values()), default=0)

    def _rest_file_bytes(self) -> int:
        return self._journal.rest_file_bytes(self._largest_batch_bytes())

    def rest(self) -> bool:
        """Makes both files as small as they may be, if nothing in them is needed any more.

        Flushes wait during the call. Returns whether both files are small now. They stay large if a
        batch waits for a flush, if the recovery points have not reached the journal's end, if a log
        allows batches for which the files must be larger, or if there is no disk space for the new
        files.
        """
        locks, journal = self._locks, self._journal
        with self._changing, locks.flush, locks.advance, locks.journal, self._latch.fail_stop():
            size = self._rest_file_bytes()
            if self.is_short or not (self.rest_gain_bytes and journal.is_settled):
                return False
            with locks.pending:
                if self._unflushed:
                    return False
                # During the exchange one file has the old size, and the other one the new size.
                # Each frame must fit into the smaller of them.
                least_bytes = min(size, *journal.sizes_bytes)
                self._bound(journal.frame_payload_bytes_of(least_bytes))
            try:
                return self._exchange_both(size)
            finally:
                self._follow_journal()

    def _exchange_both(self, size: int) -> bool:
        """Exchanges the other file, turns, and exchanges what was the current file."""
        journal = self._journal
        for is_turned in (False, True):
            current_bytes, other_bytes = journal.sizes_bytes
            if other_bytes > size:
                if not self._made_spare(size):
                    return False
                journal.exchange_other(size)
            if not is_turned and current_bytes > size:
                journal.turn()
        return True

    def grow(self, file_bytes: int | None = None) -> bool:
        """Makes both files at least `file_bytes` large, by default their full size.

        Flushes continue during the call. Returns whether both files are that large now. They are
        not if there is no disk space, or if the recovery points do not keep up.
        """
        wanted_bytes = file_bytes or self._journal.full_file_bytes
        with self._changing:
            for _ in range(_FILES):
                if not (self.growth_bytes_to(wanted_bytes) and self._grow_once(wanted_bytes)):
                    break
            with self._locks.journal:
                self._follow_journal()
            return not self.growth_bytes_to(wanted_bytes)

    def _grow_once(self, wanted_bytes: int) -> bool:
        """Exchanges the other file if it is small, and turns if the current file is small.

        Returns whether the other file was free, so that it could be exchanged.
        """
        journal, is_spare_made = self._journal, False
        with self._latch.fail_stop():
            if journal.sizes_bytes[1] < wanted_bytes:
                is_spare_made = self._made_spare(wanted_bytes)
                if not is_spare_made:
                    return False
        self._advance_points()
        with self._locks.journal, self._latch.fail_stop():
            # A flush may have changed to the other file before this thread got the lock.
            current_bytes, other_bytes = journal.sizes_bytes
            is_free = journal.other_file_is_free
            if is_free and is_spare_made and other_bytes < wanted_bytes:
                journal.exchange_other(wanted_bytes)
            elif is_spare_made:
                journal.drop_spare()
            if is_free and current_bytes < wanted_bytes:
                # After the turn, the present file is the other file, which can be exchanged.
                journal.turn()
        return is_free

    def _made_spare(self, size: int) -> bool:
        """Makes the spare file. Returns False if there is no disk space or no free descriptor."""
        try:
            self._journal.make_spare(size)
        except OSError as error:
            if not may_pass(error):
                raise
            self._journal.drop_spare()
            return False
        return True

    def _follow_journal(self) -> None:
        """Limits appends to what the files take now. The caller holds the journal's lock."""
        with self._locks.pending:
            self._bound(self._journal.frame_payload_bytes_max)

    def _bound(self, payload_bytes: int) -> None:
        self._unflushed.payload_bytes_max = payload_bytes
        self.batch_bytes_max = self._journal.batch_bytes_of(payload_bytes)
