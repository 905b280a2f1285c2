"""Files that are no longer needed, and are removed after `file.delete.delay.ms`.

They were renamed to `.deleted`, and their folder was synced, before they come here. So they can be
removed at any time, or never: the next start removes what is left.
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

_END_OF_TIME_MS: Final = 2**64  # Behind any delay from now.


@attrs.frozen(kw_only=True)
class WaitingFile:
    """A file to be removed when the monotonic clock says `due_ms`."""

    path: Path
    size_bytes: int
    due_ms: int


class DeletionQueue:
    """Which files are to be removed, and when. Pure; for one thread at a time."""

    def __init__(self) -> None:
        self._waiting: dict[Path, WaitingFile] = {}

    def add(self, waiting: WaitingFile) -> None:
        """Puts a file in; of two with one name, which is one file by now, the later time counts."""
        earlier = self._waiting.get(waiting.path)
        if earlier is None or earlier.due_ms <= waiting.due_ms:
            self._waiting[waiting.path] = waiting

    def due(self, now_ms: int) -> list[WaitingFile]:
        """What may be removed by now, in the order of time."""
        found = [each for each in self._waiting.values() if each.due_ms <= now_ms]
        return sorted(found, key=lambda each: each.due_ms)

    def remove(self, waiting: WaitingFile) -> None:
        """Takes a file out, unless it was put in again in the meantime."""
        if self._waiting.get(waiting.path) is waiting:
            del self._waiting[waiting.path]

    @property
    def next_due_ms(self) -> int | None:
        """When the next one may be removed, if there is any."""
        return min((each.due_ms for each in self._waiting.values()), default=None)

    @property
    def waiting_files(self) -> int:
        """How many there are."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """What they hold on the disk."""
        return sum(each.size_bytes for each in self._waiting.values())


class FileDeleter:
    """Removes files when they are due. From any thread; none waits while another removes some."""

    def __init__(self, files: Files, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._queue = DeletionQueue()
        self._lock = threading.Lock()  # Of the queue.

    def discard(self, paths: Iterable[Path], *, delay_ms: int) -> None:
        """Files in state `.deleted`: removed now where there is no delay, else by `run`.

        Names that are not there are passed by. What cannot be removed now waits for `run`, too.
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
        """Removes what is due: the task `kafka-delete-logs`.

        Raises the first OSError once it has tried them all; the files stay in the queue.
        """
        self._unlink_due(self._clock.monotonic_ms())

    def run_now(self) -> None:
        """Removes everything, due or not, as where the disk is full. Raises like `run`."""
        self._unlink_due(_END_OF_TIME_MS)

    def _unlink_due(self, now_ms: int) -> None:
        with self._lock:
            due = self._queue.due(now_ms)
        failures = self._unlink(due)
        if failures:
            raise failures[0]

    def _unlink(self, due: Iterable[WaitingFile]) -> list[OSError]:
        """One name may be given to another file meanwhile: that is to go, too."""
        failures = []
        for waiting in due:
            try:
                self._files.unlink(waiting.path)
            except FileNotFoundError:
                pass  # With its folder, as when a topic is deleted; or another removed it.
            except OSError as error:
                failures.append(error)
                continue
            with self._lock:
                self._queue.remove(waiting)
        return failures

    @property
    def waiting_files(self) -> int:
        """How many files are not removed yet."""
        return self._queue.waiting_files

    @property
    def waiting_bytes(self) -> int:
        """What they hold on the disk."""
        with self._lock:
            return self._queue.waiting_bytes

    @property
    def next_due_in_ms(self) -> int | None:
        """When `run` has something to do, from now; None while nothing waits."""
        with self._lock:
            due_ms = self._queue.next_due_ms
        return None if due_ms is None else max(0, due_ms - self._clock.monotonic_ms())
