"""Reasons that suspend expiry: a long stop, a clock that jumped, a full disk.

Pure: the caller passes the time in. Expired offsets cannot be recovered, so in doubt nothing
expires.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from offsetd_coordinator.expiry.uptime_marker import LastUp

CLOCK_JUMP_MS: Final = 60_000
"""A wall clock that moves so much more, or less, than the monotonic one was set."""


class Hold(enum.Enum):
    """Why nothing expires."""

    SETTINGS_UNREADABLE = "settings_unreadable"  # So it is not known what is to stay.
    AUDIT_DAMAGED = "audit_damaged"  # What expires has to be recorded.
    DISABLED = "disabled"  # offsets.expiry.enable
    FOREIGN_FOLDER = "foreign_folder"  # Not ours from the start, and nobody has allowed it.
    LONG_STOP = "long_stop"
    CLOCK_JUMP = "clock_jump"
    LOW_DISK = "low_disk"  # It was until a moment ago, and commits were refused.


TIME_IN_DOUBT: Final = frozenset({Hold.LONG_STOP, Hold.CLOCK_JUMP})
"""Nothing is deleted because of its age then, whatever it is."""


@attrs.frozen(kw_only=True)
class Held:
    """A reason, and how long it holds on; None: until somebody changes a setting."""

    hold: Hold
    remaining_ms: int | None = None

    def end_ms(self, now_ms: int) -> int | None:
        """When it ends by the wall clock, if it ends by itself."""
        return None if self.remaining_ms is None else now_ms + self.remaining_ms


def grace_at_start_ms(
    *, now_ms: int, newest_record_ms: int | None, last_up: LastUp | None, grace_ms: int
) -> int:
    """How long nothing expires after a start, if it is now.

    The server was up when it last said so, or wrote a record, or (`None`, `None`) never: then
    there is nothing that could expire. A stop that seems to end before it began is one of unknown
    length.
    """
    seen_ms = newest_record_ms if last_up is None else max(last_up.up_ms, newest_record_ms or 0)
    if seen_ms is None:
        return 0
    stopped_ms = now_ms - seen_ms
    if not -CLOCK_JUMP_MS <= stopped_ms <= grace_ms:
        return grace_ms
    if last_up is None:
        return 0
    # A grace that was not over goes on: a second restart does not end it.
    return min(max(last_up.grace_until_ms - now_ms, 0), grace_ms)


class ExpiryGuard:
    """The clocks of one run of the server, as they were seen last."""

    def __init__(self, *, now_ms: int, monotonic_ms: int, grace_left_ms: int) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = monotonic_ms
        self._started_ms = monotonic_ms
        self._grace_left_ms = grace_left_ms
        self._jump_until_ms = monotonic_ms
        self._low_disk_until_ms = monotonic_ms

    def note_disk_low(self, *, monotonic_ms: int, period_ms: int) -> None:
        """Commits are refused for want of room.

        What was not committed for that has a check period to be, once there is room again.
        """
        self._low_disk_until_ms = monotonic_ms + period_ms

    def observe(self, *, now_ms: int, monotonic_ms: int, period_ms: int) -> int | None:
        """Looks at the clocks; a jump of the wall clock since the last look, in ms, if one was.

        It holds expiry for one check period.
        """
        jump_ms = (now_ms - self._now_ms) - (monotonic_ms - self._monotonic_ms)
        self._now_ms, self._monotonic_ms = now_ms, monotonic_ms
        if abs(jump_ms) <= CLOCK_JUMP_MS:
            return None
        self._jump_until_ms = monotonic_ms + period_ms
        return jump_ms

    def grace_left_ms(self, *, monotonic_ms: int, grace_ms: int) -> int:
        """What is left of the grace after the start; a shorter `expiry.grace.ms` ends it sooner."""
        until_ms = self._started_ms + min(self._grace_left_ms, grace_ms)
        return max(until_ms - monotonic_ms, 0)

    def held(self, *, monotonic_ms: int, grace_ms: int, is_disk_low: bool = False) -> Held | None:
        """What holds back now, if anything. While the disk is low deletions go on."""
        if (left_ms := self.grace_left_ms(monotonic_ms=monotonic_ms, grace_ms=grace_ms)) > 0:
            return Held(hold=Hold.LONG_STOP, remaining_ms=left_ms)
        if monotonic_ms < self._jump_until_ms:
            return Held(hold=Hold.CLOCK_JUMP, remaining_ms=self._jump_until_ms - monotonic_ms)
        if not is_disk_low and monotonic_ms < self._low_disk_until_ms:
            return Held(hold=Hold.LOW_DISK, remaining_ms=self._low_disk_until_ms - monotonic_ms)
        return None
