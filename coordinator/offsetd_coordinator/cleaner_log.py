"""Where the reports of rounds go: a log of their own as Kafka's, and the server's log."""

from __future__ import annotations

import contextlib
import logging
import sys
from logging.handlers import RotatingFileHandler
from typing import TYPE_CHECKING, Final

import structlog

from offsetd_coordinator.cleaner_report import report_fields, report_lines

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.cleaner.clean import CleanReport

FILE_BYTES_MAX: Final = 1024 * 1024
FILES_KEPT: Final = 3  # Beside the one being written: `log-cleaner.log.1` is the newest of them.

_log = structlog.get_logger(__name__)


class CleanerLog:
    """Takes reports from any thread. Whatever the file meets, nobody fails of it."""

    def __init__(self, path: Path | None) -> None:
        """The file is made with the first report; None: there is none."""
        self._file = None if path is None else _ReportFile(path)

    def note(self, thread: int, report: CleanReport) -> None:
        """Writes down a round that has ended."""
        _log.info("log cleaned", **report_fields(thread, report))
        if self._file is not None:
            lines = report_lines(thread, report)
            self._file.handle(logging.makeLogRecord({"msg": lines}))

    def close(self) -> None:
        """Closes the file; a later report would open it again."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()


class _ReportFile(RotatingFileHandler):
    """The standard library's, which is bounded; what goes wrong is told once, until it works.

    It is not synced, and not the store's: losing it costs nothing.
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
        # What is left in its buffer would fail again, and be written twice at last.
        stream, self.stream = self.stream, None
        with contextlib.suppress(OSError):
            if stream is not None:
                stream.close()
