"""The log of cleaning and retention: a file, as in Kafka, and lines in the server's log."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Final

import structlog

from offsetd_coordinator.observability.cleaner_report import report_fields, report_lines

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.cleaner.cleaner_status import FinishedRound
    from offsetd_storage.cleaner.uncleanable_logs import UncleanablePartition
    from offsetd_storage.retention.retention_rules import FutureTimestamp
    from offsetd_storage.topic_partition import TopicPartition

FILE_BYTES_MAX: Final = 1024 * 1024
FILES_KEPT: Final = 3  # Plus the file being written. `log-cleaner.log.1` is the newest of the 3.

_log = structlog.get_logger(__name__)


class RoundTotals:
    """Totals of all rounds since the start. Any thread may read them, one by one."""

    def __init__(self) -> None:
        self.rounds = self.full_map_rounds = 0
        self.bytes_read = self.bytes_written = 0
        self.messages_read = self.messages_written = 0


class CleanerLog:
    """Logs reports of the cleaner and of retention. Any thread may call it.

    An error of the file never fails the caller.
    """

    def __init__(self, path: Path | None) -> None:
        """The first report creates the file. If `path` is None, there is no file."""
        self.totals = RoundTotals()
        self._file = None if path is None else _ReportFile(path)
        self._lock = threading.Lock()
        self._uncleanable: set[TopicPartition] = set()

    def note_round(self, finished: FinishedRound) -> None:
        """Logs a round that succeeded."""
        report, totals = finished.report, self.totals
        with self._lock:
            totals.rounds += 1
            totals.full_map_rounds += report.map_is_full
            totals.bytes_read += report.bytes_read
            totals.bytes_written += report.bytes_written
            totals.messages_read += report.messages_read
            totals.messages_written += report.messages_written
            recovered = report.topic_partition in self._uncleanable
            self._uncleanable.discard(report.topic_partition)
        _log.info("log cleaned", **report_fields(finished.thread, report))
        if recovered:
            _log.info("partition cleanable again", partition=str(report.topic_partition))
        if self._file is not None:
            lines = report_lines(finished.thread, report)
            self._file.handle(logging.makeLogRecord({"msg": lines}))

    def note_uncleanable(self, failure: UncleanablePartition) -> None:
        """Logs a round that failed. The cleaner will retry it."""
        with self._lock:
            self._uncleanable.add(failure.topic_partition)
        _log.warning(
            "partition uncleanable",
            partition=str(failure.topic_partition),
            reason=failure.reason,
            damaged=failure.is_damaged,
            failures_in_row=failure.failures_in_row,
            retry_in_ms=failure.retry_in_ms,
        )

    def note_blocked(
        self, topic_partition: TopicPartition, blocked: FutureTimestamp | None
    ) -> None:
        """Logs that another timestamp blocks a log's retention; with None, that none does."""
        if blocked is None:
            _log.info("retention is no longer blocked", partition=str(topic_partition))
            return
        _log.warning(
            "retention blocked by a timestamp in the future",
            partition=str(topic_partition),
            timestamp_ms=blocked.timestamp_ms,
            segment=blocked.base_offset,
            held_segments=blocked.held_segments,
            held_bytes=blocked.held_bytes,
            blocked_until_ms=blocked.blocked_until_ms,
        )

    def close(self) -> None:
        """Closes the file. A later report opens it again."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()


class _ReportFile(RotatingFileHandler):
    """The standard library's rotating file, which has a bounded size.

    An error is logged once, and again only after a successful write. The file is not synced and is
    not part of the store, so its loss does no harm.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, maxBytes=FILE_BYTES_MAX, backupCount=FILES_KEPT, encoding="utf-8", delay=True
        )
        self._is_failing = False
        self._has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        self._has_failed = False
        super().emit(record)
        self._is_failing = self._has_failed

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802
        self._has_failed = True
        if not self._is_failing:
            _log.warning(
                "reports of the cleaner cannot be written",
                file=self.baseFilename,
                error=str(sys.exception()),
            )
        # The rest in its buffer would fail again, and would be written twice at the end.
        stream, self.stream = self.stream, None
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()
