"""Reasons that suspend expiry: a long stop, a clock that jumped, a full disk.

Pure: the caller passes the time. Expired offsets cannot be recovered, so nothing expires in doubt.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from offsetd_coordinator.expiry.uptime_marker import UptimeMarker

CLOCK_JUMP_MS: Final = 60_000
"""If the wall clock moves this much more or less than the monotonic clock, it was set."""


class Hold(enum.Enum):
    """A reason that suspends expiry."""

    SETTINGS_UNREADABLE = "settings_unreadable"  # It is not known which offsets should stay.
    AUDIT_DAMAGED = "audit_damaged"  # Each expiry must be recorded.
    DISABLED = "disabled"  # offsets.expiry.enable
    FOREIGN_FOLDER = "foreign_folder"  # Another server's folder; expiry is not allowed yet.
    LONG_STOP = "long_stop"
    CLOCK_JUMP = "clock_jump"
    LOW_DISK = "low_disk"  # The disk was low until a moment ago, and commits were refused.


TIME_IN_DOUBT: Final = frozenset({Hold.LONG_STOP, Hold.CLOCK_JUMP})
"""The holds in which the time is in doubt: nothing at all is deleted because of its age."""


@attrs.frozen(kw_only=True)
class Held:
    """A reason, and the time it still holds. None means until a setting is changed."""

    hold: Hold
    remaining_ms: int | None = None

    def end_ms(self, now_ms: int) -> int | None:
        """The end by the wall clock, if it ends by itself; else None."""
        return None if self.remaining_ms is None else now_ms + self.remaining_ms


def grace_at_start_ms(
    *, now_ms: int, newest_record_ms: int | None, last_up: UptimeMarker | None, grace_ms: int
) -> int:
    """The time in milliseconds during which nothing expires after a start at this time.

    The server was last up at its last note or record. If there is neither (`None`, `None`), there
    is nothing that could expire. If a stop seems to end before it began, its length is unknown.
    """
    seen_ms = newest_record_ms if last_up is None else max(last_up.up_ms, newest_record_ms or 0)
    if seen_ms is None:
        return 0
    stopped_ms = now_ms - seen_ms
    if not -CLOCK_JUMP_MS <= stopped_ms <= grace_ms:
        return grace_ms
    if last_up is None:
        return 0
    # An unfinished grace period continues: a second restart does not end it.
    return min(max(last_up.grace_until_ms - now_ms, 0), grace_ms)


class ExpiryGuard:
    """The clocks of one run of the server, as last seen."""

    def __init__(self, *, now_ms: int, monotonic_ms: int, grace_left_ms: int) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._started_ms = monotonic_ms
        self._grace_left_ms = grace_left_ms
        self._jump_until_ms = monotonic_ms
        self._low_disk_until_ms = monotonic_ms

    def note_disk_low(self, *, monotonic_ms: int, period_ms: int) -> None:
        """Notes that commits are refused because the disk is low.

        Once there is room again, clients get one check period to commit before anything expires.
        """
        self._low_disk_until_ms = monotonic_ms + period_ms

    def observe(self, *, now_ms: int, monotonic_ms: int, period_ms: int) -> int | None:
        """Compares the clocks. Returns the wall clock's jump since the last call in ms, or None.

        A jump holds expiry for one check period.
        """
        jump_ms = (now_ms - self._now_ms) - (monotonic_ms - self._monotonic_ms)
        self._now_ms, self._monotonic_ms = now_ms, monotonic_ms
        if abs(jump_ms) <= CLOCK_JUMP_MS:
            return None
        self._jump_until_ms = monotonic_ms + period_ms
        return jump_ms

    def grace_left_ms(self, *, monotonic_ms: int, grace_ms: int) -> int:
        """The remaining grace period of the start; a shorter `expiry.grace.ms` ends it sooner."""
        until_ms = self._started_ms + min(self._grace_left_ms, grace_ms)
        return max(until_ms - monotonic_ms, 0)

    def held(self, *, monotonic_ms: int, grace_ms: int, is_disk_low: bool = False) -> Held | None:
        """The reason why nothing expires now, or None. On a low disk, deletions continue."""
        if (left_ms := self.grace_left_ms(monotonic_ms=monotonic_ms, grace_ms=grace_ms)) > 0:
            return Held(hold=Hold.LONG_STOP, remaining_ms=left_ms)
        if monotonic_ms < self._jump_until_ms:
            return Held(hold=Hold.CLOCK_JUMP, remaining_ms=self._jump_until_ms - monotonic_ms)
        if not is_disk_low and monotonic_ms < self._low_disk_until_ms:
            return Held(hold=Hold.LOW_DISK, remaining_ms=self._low_disk_until_ms - monotonic_ms)
        return None
