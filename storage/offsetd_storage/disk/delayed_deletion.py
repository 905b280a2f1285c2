"""Files that are no longer needed, and are removed after `file.delete.delay.ms`.

Before they come here, they were renamed to `.deleted`, and their folder was synced. So they can be
removed at any time, or never: the next start removes those that are left.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from offsetd_storage.clock import Clock
    from offsetd_storage.disk.files import Files

_END_OF_TIME_MS: Final = 2**64  # Later than any delay from now.


@attrs.frozen(kw_only=True)
class WaitingFile:
    """A file that is removed once the monotonic clock reaches `due_ms`."""

    path: Path
    size_bytes: int
    due_ms: int


class DeletionQueue:
    """The files to remove, and their times. Touches no file; one thread at a time may use it."""

    def __init__(self) -> None:
        self._waiting: dict[Path, WaitingFile] = {}

    def add(self, waiting: WaitingFile) -> None:
        """Adds a file. If its name is in the queue already, the later time counts."""
        earlier = self._waiting.get(waiting.path)
        if earlier is None or earlier.due_ms <= waiting.due_ms:
            self._waiting[waiting.path] = waiting

    def due(self, now_ms: int) -> list[WaitingFile]:
        """The files that may be removed now, in the order of their times."""
        found = [each for each in self._waiting.values() if each.due_ms <= now_ms]
        return sorted(found, key=lambda each: each.due_ms)

    def remove(self, waiting: WaitingFile) -> None:
        """Takes a file out, unless it was added again since then."""
        if self._waiting.get(waiting.path) is waiting:
            del self._waiting[waiting.path]

    @property
    def next_due_ms(self) -> int | None:
        """The time at which the next file may be removed; None if there is none."""
        return min((each.due_ms for each in self._waiting.values()), default=None)

    @property
    def waiting_files(self) -> int:
        """The number of files in the queue."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """The size of these files on the disk."""
        return sum(each.size_bytes for each in self._waiting.values())


class FileDeleter:
    """Removes files when they are due.

    Any thread may call it; no caller waits while another one removes files.
    """

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._queue = DeletionQueue()
        self._lock = threading.Lock()  # Guards the queue.

    def discard(self, paths: Iterable[Path], *, delay_ms: int) -> None:
        """Removes files in state `.deleted`: now if there is no delay, else later in `run`.

        Missing files are ignored. Files that cannot be removed now are removed in `run`.
        """
        due_ms = self._clock.monotonic_ms() + delay_ms
        found = []
        for path in paths:
            with suppress(FileNotFoundError):
                size_bytes = self._files.size(path)
                found.append(WaitingFile(path=path, size_bytes=size_bytes, due_ms=due_ms))
        with self._lock:
            for each in found:
                self._queue.add(each)
        if delay_ms == 0:
            self._unlink(found)

    def run(self) -> None:
        """Removes the files that are due: the task `kafka-delete-logs`.

        Tries all of them, then raises the first OSError; files that failed stay in the queue.
        """
        self._unlink_due(self._clock.monotonic_ms())

    def run_now(self) -> None:
        """Removes all files, due or not, for example on a full disk. Raises like `run`."""
        self._unlink_due(_END_OF_TIME_MS)

    def _unlink_due(self, now_ms: int) -> None:
        with self._lock:
            due = self._queue.due(now_ms)
        failures = self._unlink(due)
        if failures:
            raise failures[0]

    def _unlink(self, due: Iterable[WaitingFile]) -> list[OSError]:
        """Removes files. If another file has a name by now, that file must be removed, too."""
        failures = []
        for waiting in due:
            try:
                self._files.unlink(waiting.path)
            except FileNotFoundError:
                # Removed already: with its folder when a topic was deleted, or by another thread.
                pass
            except OSError as error:
                failures.append(error)
                continue
            with self._lock:
                self._queue.remove(waiting)
        return failures

    @property
    def waiting_files(self) -> int:
        """The number of files that are not removed yet."""
        return self._queue.waiting_files

    @property
    def waiting_bytes(self) -> int:
        """The size of these files on the disk."""
        with self._lock:
            return self._queue.waiting_bytes
