"""A machine's clock that somebody sets."""

from __future__ import annotations

from offsetd_storage.clock import ManualClock


class SetClock(ManualClock):
    """The wall clock of which may be set; the monotonic one never is."""

    def set_by(self, milliseconds: int) -> None:
        """Sets it forward, or back."""
        self._now_ms += milliseconds
