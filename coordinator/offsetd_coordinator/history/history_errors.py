"""Errors of history queries and watchers."""

from __future__ import annotations

from offsetd_coordinator.errors import CoordinatorError


class WatchRefused(CoordinatorError):
    """An error with tokens from which a watcher may continue. `tokens` has them by name, uncut."""

    def __init__(
        self, message: str, *, tokens: dict[str, str] | None = None, **variables: object
    ) -> None:
        super().__init__(message, **variables)
        self.tokens = tokens or {}


class HistoryCompacted(WatchRefused):
    """The requested part of the log may have been cleaned away."""

    reason = "COMPACTED"

    def __init__(
        self,
        message: str,
        *,
        oldest_revision: int,
        oldest_time: str | None = None,
        tokens: dict[str, str] | None = None,
        **variables: object,
    ) -> None:
        message += ": the history is complete from log offset {oldest_revision} on"
        if oldest_time is not None:
            message += ", written {oldest_time}"
            variables["oldest_time"] = oldest_time
        super().__init__(
            message,
            tokens=tokens,
            oldest_revision=oldest_revision,
            **variables,
        )
        self.oldest_revision = oldest_revision


class WatcherTooSlow(WatchRefused):
    """The watcher's client did not read in time."""

    reason = "WATCHER_TOO_SLOW"


class TooManyWatchers(CoordinatorError):
    """The number of watchers has reached its limit."""

    reason = "TOO_MANY_WATCHERS"
    retriable = True
