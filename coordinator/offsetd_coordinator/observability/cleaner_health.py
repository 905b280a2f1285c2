"""The cleaner's health, for the health service and the server's log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import structlog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from offsetd_storage.cleaner.cleaner_status import CleanerStatus
    from offsetd_storage.clock import Clock
    from offsetd_storage.configuration.server_config import CleanerConfig

CLEANER_SERVICE: Final = "offsetd.cleaner"

_LOOK_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


def why_not_cleaning(
    status: CleanerStatus, *, monotonic_ms: int, stall_ms: int, backoff_ms: int
) -> str | None:
    """The reason why the cleaner does not work, for operators; None if it works. Pure.

    A single log that cannot be cleaned is not a reason: the other logs are cleaned, and metrics
    show it. A thread makes progress with each chunk that it reads, and each time that it searches
    for work. An idle thread searches every `backoff_ms`.
    """
    if status.held is not None:
        return status.held
    if not status.is_enabled:
        return "log.cleaner.enable is false: the log only grows"
    for number, thread in enumerate(status.threads):
        if not thread.is_alive:
            error = thread.run.last_error or "the system could not start a thread"
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


class WatchedCleaner(Protocol):
    """The part of `offsetd_storage.cleaner.log_cleaner.LogCleaner` that the watch needs."""

    @property
    def status(self) -> CleanerStatus:
        """The cleaner's present status."""

    config: CleanerConfig


class CleanerWatch:
    """Checks the cleaner once a second, and reports when it stops working or works again.

    The check runs on another thread, because a cleaner that hangs with a lock must not block the
    event loop.
    """

    def __init__(
        self,
        cleaner: WatchedCleaner,
        tell: Callable[[bool], Awaitable[None]],
        *,
        clock: Clock,
        stall_ms: int,
    ) -> None:
        """`tell` is called with whether the cleaner works, first once and then on each change."""
        self._cleaner = cleaner
        self._tell = tell
        self._clock = clock
        self._stall_ms = stall_ms
        self._works: bool | None = None  # The argument of the last call of `tell`.
        self._replaced = 0

    async def run(self) -> None:
        """Checks the cleaner until this task is cancelled."""
        while True:
            asked = asyncio.ensure_future(asyncio.to_thread(self.look))
            done, _ = await asyncio.wait({asked}, timeout=self._stall_ms / 1000)
            if not done:
                await self._note("the cleaner's status cannot be read")
            await self._note(await asked)
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> str | None:
        """The reason why the cleaner does not work now, or None. Logs threads that died."""
        status = self._cleaner.status
        if status.replaced_threads > self._replaced:
            errors = [each.run.last_error for each in status.threads if each.replaced]
            _log.error("a thread of the cleaner died and was replaced", errors=errors)
        self._replaced = status.replaced_threads  # Changed settings may reset it.
        return why_not_cleaning(
            status,
            monotonic_ms=self._clock.monotonic_ms(),
            stall_ms=self._stall_ms,
            backoff_ms=self._cleaner.config.backoff_ms,
        )

    async def _note(self, why_not: str | None) -> None:
        works = why_not is None
        if works is self._works:
            return
        if not works:
            _log.error("the cleaner does not work", reason=why_not)
        elif self._works is not None:
            _log.info("the cleaner works again")
        self._works = works
        await self._tell(works)
