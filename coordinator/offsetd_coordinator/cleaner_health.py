"""Whether the cleaner does its work, as health tells it under `offsetd.cleaner`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from offsetd_storage.cleaner.cleaner_status import CleanerStatus

CLEANER_SERVICE: Final = "offsetd.cleaner"


def why_not_cleaning(
    status: CleanerStatus, *, monotonic_ms: int, stall_ms: int, backoff_ms: int
) -> str | None:
    """What keeps the cleaner from its work, for people; None: nothing does.

    A log that cannot be cleaned is no such thing: the others are, and metrics tell of it. A thread
    makes progress with each chunk that it reads and each look for work; one that rests looks again
    after `backoff_ms`.
    """
    if not status.is_enabled:
        return "log.cleaner.enable is false: the log only grows"
    for number, thread in enumerate(status.threads):
        if not thread.is_alive:
            error = thread.run.last_error or "the system gave no thread"
            return f"cleaner thread {number} is dead or keeps failing: {error}"
        silent_ms = monotonic_ms - thread.last_progress_ms
        if thread.cleans is not None and silent_ms > stall_ms:
            return (
                f"cleaner thread {number} has made no progress with {thread.cleans} for"
                f" {silent_ms} ms"
            )
        if thread.cleans is None and silent_ms > stall_ms + backoff_ms:
            return f"cleaner thread {number} has not looked for work for {silent_ms} ms"
    return None
