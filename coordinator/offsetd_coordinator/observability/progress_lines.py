"""Progress lines that the server prints while it starts."""

from __future__ import annotations

import time
from typing import Final

import structlog

_log = structlog.get_logger(__name__)

_PROGRESS_SECONDS: Final = 1.0


class ProgressLines:
    """Lines about a long task, at most one a second; none for a task that takes less."""

    def __init__(self, event: str) -> None:
        self._event = event
        self._next_seconds = time.monotonic() + _PROGRESS_SECONDS

    def note(self, partitions_done: int, partitions: int, bytes_done: int) -> None:
        """Notes the progress."""
        now_seconds = time.monotonic()
        if now_seconds >= self._next_seconds:
            self._next_seconds = now_seconds + _PROGRESS_SECONDS
            _log.info(
                self._event, partitions_done=partitions_done, of=partitions, bytes_done=bytes_done
            )
