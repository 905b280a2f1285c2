"""One try of a backup that the server makes itself: counted, logged, never raised."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, TypeVar

import structlog
from offsetd_storage.backups.backup_errors import TargetFailed, WrongTarget
from offsetd_storage.backups.repository import Repository
from offsetd_storage.backups.targets import check_target, target_of
from offsetd_storage.errors import StorageError, words_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.backups.backup_writing import WrittenBackup
    from offsetd_storage.clock import Clock

    from offsetd_coordinator.configuration.backup_settings import BackupSettings
    from offsetd_coordinator.counters import BackupCounters

_log = structlog.get_logger(__name__)

RETRY_MS_MAX: Final = 60_000
"""A backup that failed is tried again after this time, or after the interval if that is less."""

_Result = TypeVar("_Result")


def refuse_wrong_target(settings: BackupSettings) -> None:
    """Raises WrongTarget if `backup.target` is one that no later try could use."""
    if not settings.backup_target:
        return
    try:
        check_target(settings.backup_target)
    except WrongTarget as error:
        raise WrongTarget(f"backup.target: {error}") from error
    except TargetFailed as error:  # A store that does not answer may answer later.
        _log.warning("the target of backups cannot be used now", error=words_of(error))


class BackupStopped(Exception):
    """The server stops, or may not make this backup any more."""


class BackupAttempts:
    """Works on the target. Its methods block: they are for threads, one at a time."""

    def __init__(self, settings: BackupSettings, counters: BackupCounters, *, clock: Clock) -> None:
        self.stopping = threading.Event()
        """Set: what goes on ends soon, with BackupStopped, and has not failed."""
        self._settings = settings
        self._counters = counters
        self._clock = clock

    def tried(self, work: Callable[[Repository], _Result]) -> _Result | None:
        """The result of `work`; None if stopped or failed. A failure is counted and logged."""
        target = self._settings.backup_target
        try:
            result = work(Repository(target_of(target)))
        except BackupStopped:
            return None
        except (StorageError, OSError, ValueError) as error:
            if self.stopping.is_set():
                return None
            self._counters.failures += 1
            _log.error("a backup failed; it is tried again", target=target, error=words_of(error))
        except Exception:  # noqa: BLE001  Commits go on.
            self._counters.failures += 1
            _log.exception("a defect in backups; it is tried again", target=target)
        else:
            self._counters.last_failed = False
            return result
        self._counters.last_failed = True
        return None

    def made(self, write: Callable[[Repository], WrittenBackup]) -> WrittenBackup | None:
        """A backup that `write` has written; then old ones are removed. None as for `tried`."""

        def work(repository: Repository) -> WrittenBackup:
            begun_s = time.monotonic()
            written = write(repository)
            keep = self._settings.backup_keep
            pruned = repository.prune(keep, now_ms=self._clock.now_ms()) if keep else None
            seconds = time.monotonic() - begun_s
            self._note(written, seconds, 0 if pruned is None else len(pruned.backup_ids))
            return written

        return self.tried(work)

    def _note(self, written: WrittenBackup, seconds: float, pruned: int) -> None:
        counters = self._counters
        counters.made += 1
        counters.last_moment_ms = written.manifest.moment_ms
        counters.last_seconds = seconds
        counters.last_bytes = written.manifest.size_bytes
        counters.new_bytes += written.new_bytes
        _log.info(
            "backup made",
            target=self._settings.backup_target,
            backup=written.backup_id,
            new_bytes=written.new_bytes,
            all_bytes=written.manifest.size_bytes,
            seconds=round(seconds, 3),
            pruned=pruned,
        )
