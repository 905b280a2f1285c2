"""A check that the files of an open store are still those at their paths.

A process can still write to an open file after somebody removed it: commits would go to a file that
no start ever finds. So the store checks about once a second. The journal's two files must be the
open ones. The last segments of some logs must exist and be at least as long as what was written to
them. Each check takes the next logs.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from offsetd_storage.errors import FilesGone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from offsetd_storage.disk.files import Files
    from offsetd_storage.folder.folder_lock import FolderLock
    from offsetd_storage.journal.journal import Journal
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.log.segment import Segment
    from offsetd_storage.topic_partition import TopicPartition

_LOGS_AT_ONCE: Final = 200


class OpenFileCheck:
    """Checks the files of one store. One thread at a time may call it."""

    def __init__(
        self, lock: FolderLock, journal: Journal, logs: Mapping[TopicPartition, PartitionLog]
    ) -> None:
        self._lock = lock
        self._journal = journal
        self._logs = logs
        self._left: Iterator[PartitionLog] = iter(())

    def check_journal(self) -> None:
        """Raises FilesGone if a file of the journal was removed or replaced.

        The caller makes sure that no file of the journal is exchanged during the call.
        """
        for path in self._journal.lost_files(self._lock):
            raise FilesGone(f"{path} is no longer the file that was opened")

    def check_some_logs(self) -> None:
        """Checks the last segments of the next logs, at most 200. Raises FilesGone."""
        looked = 0
        for log in islice(self._left, _LOGS_AT_ONCE):
            looked += 1
            self._check(log)
        if looked < _LOGS_AT_ONCE:
            self._left = iter(tuple(self._logs.values()))

    def _check(self, log: PartitionLog) -> None:
        segment = log.segments[-1]
        written_bytes = segment.written_bytes
        if _size(self._lock.files, segment) >= written_bytes or log.segments[-1] is not segment:
            return
        raise FilesGone(f"{segment.path} was removed, replaced or cut")


def _size(files: Files, segment: Segment) -> int:
    try:
        return files.size(segment.path)
    except (FileNotFoundError, NotADirectoryError):
        return -1
