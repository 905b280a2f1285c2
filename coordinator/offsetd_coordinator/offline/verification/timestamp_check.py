"""Checks for timestamps too far in the future, which block retention."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.batch.record_batch import batch_header

from offsetd_coordinator.offline.segment_batches import whole_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import File

NAMED_MAX: Final = 10  # Of one segment: a wrong clock may have written millions.


@attrs.frozen(kw_only=True)
class FutureTimestamps:
    """Finds batches with timestamps too far in the future, and reports how long retention waits."""

    config: LogConfig
    now_ms: int

    @property
    def latest_ms(self) -> int:
        """The latest timestamp that an append accepts now."""
        return self.now_ms + self.config.timestamp_after_ms_max

    def reasons(
        self, file: File, valid_bytes: int, *, modified_ms: int
    ) -> Iterator[tuple[int, str]]:
        """Yields position and reason for the first `NAMED_MAX` batches that are too far ahead.

        The last reason has the number of further batches.
        """
        found: list[tuple[int, str]] = []
        count, largest_ms = 0, 0
        for position, batch in whole_batches(file, valid_bytes):
            header = batch_header(batch)
            if header.max_timestamp_ms <= self.latest_ms:
                continue
            count += 1
            largest_ms = max(largest_ms, header.max_timestamp_ms)
            if len(found) < NAMED_MAX:
                ahead_ms = header.max_timestamp_ms - self.now_ms
                reason = (
                    f"offset {header.base_offset}: timestamp {header.max_timestamp_ms}"
                    f" ({shown_time(header.max_timestamp_ms)}) is {ahead_ms} ms ahead of the clock,"
                    f" more than message.timestamp.after.max.ms"
                )
                found.append((position, reason))
        held = self._held(largest_ms, modified_ms)
        for place, (position, reason) in enumerate(found):
            more = count - len(found) if place == len(found) - 1 else 0
            suffix = f"; {more} more such batches follow" if more else ""
            yield position, f"{reason}; {held}{suffix}"

    def _held(self, largest_ms: int, modified_ms: int) -> str:
        config = self.config
        if config.retention_ms < 0:
            return "retention by time is off"
        since_ms = largest_ms
        if config.retention_age_from_roll:
            since_ms = min(largest_ms, modified_ms)
        until_ms = since_ms + config.retention_ms
        if until_ms < self.now_ms:
            return "its segment is due anyway, as it was last written long ago"
        return f"it holds back retention by time until {shown_time(until_ms)}"


def shown_time(timestamp_ms: int) -> str:
    """A timestamp as text in UTC; as a number if it is outside the calendar's range."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return f"{timestamp_ms} ms"
