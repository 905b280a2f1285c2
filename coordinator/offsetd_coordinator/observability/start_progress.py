"""Progress lines that the server prints while it starts."""

from __future__ import annotations

import time
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

_PROGRESS_SECONDS: Final = 1.0


class StartProgress:
    """Logs the progress of a long task, at most once a second. A shorter task has no line."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._next_seconds = time.monotonic() + _PROGRESS_SECONDS

    def note(self, partitions_done: int, partitions: int, bytes_done: int) -> None:
        """Logs the progress if a second has passed since the last line."""
        now_seconds = time.monotonic()
        if now_seconds >= self._next_seconds:
            self._next_seconds = now_seconds + _PROGRESS_SECONDS
            _log.info(
                self._event, partitions_done=partitions_done, of=partitions, bytes_done=bytes_done
            )
