"""One thread of the log cleaner: its offset map, its current work, and its failures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.cleaner.cleaner_status import CleanerThreadStatus, FinishedRound
from offsetd_storage.cleaner.offset_map import OffsetMap
from offsetd_storage.tasks.scheduler import SupervisedWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.clock import Clock
    from offsetd_storage.configuration.server_config import CleanerConfig
    from offsetd_storage.topic_partition import TopicPartition

_MAP_BYTES_MAX: Final = 2**31 - 1  # Kafka's limit for one thread's share of the buffer.
_BITMAP_BYTES_MAX: Final = 16 << 20  # One bit for each of 134 M dirty offsets.
_CHUNK_BYTES_MIN: Final = 4096


def new_map(config: CleanerConfig, *, hash_key: bytes) -> OffsetMap:
    """The offset map for one thread's share of the dedupe buffer. Raises MemoryError."""
    return OffsetMap(
        min(config.dedupe_buffer_bytes // config.threads, _MAP_BYTES_MAX),
        load_factor=config.dedupe_load_factor,
        hash_key=hash_key,
        bitmap_bytes_max=_BITMAP_BYTES_MAX,
    )


class CleanerThread:
    """A thread that calls `step(thread)`, which does some work and returns the rest after it."""

    def __init__(
        self,
        number: int,
        step: Callable[[CleanerThread], int],
        config: CleanerConfig,
        *,
        hash_key: bytes,
        clock: Clock,
        initial_delay_ms: int = 0,
    ) -> None:
        self.number = number
        self.is_told_to_stop = False
        self.cleans: TopicPartition | None = None
        self.last: FinishedRound | None = None
        # One buffer; Kafka has one for reading and one for writing.
        self.chunk_bytes = max(config.io_buffer_bytes // config.threads, _CHUNK_BYTES_MIN)
        self._config = config
        self._hash_key = hash_key
        self._clock = clock
        self._map: OffsetMap | None = None
        self._progress_ms = clock.monotonic_ms()
        self._worker = SupervisedWorker(
            f"kafka-log-cleaner-thread-{number}",
            lambda: step(self),
            clock=clock,
            initial_delay_ms=initial_delay_ms,
        )

    def offset_map(self) -> OffsetMap:
        """The thread's offset map, made at the first call. Raises MemoryError."""
        if self._map is None:
            self._map = new_map(self._config, hash_key=self._hash_key)
        return self._map

    def note_progress(self) -> None:
        """Notes that the thread makes progress."""
        self._progress_ms = self._clock.monotonic_ms()

    def start(self) -> None:
        """Starts the thread. Raises RuntimeError if the system gives none."""
        self._worker.start()

    def tell_to_stop(self) -> None:
        """Asks the thread to stop; its round ends at the next chunk."""
        self.is_told_to_stop = True

    def stop(self) -> None:
        """Ends the thread and waits for its end."""
        self.tell_to_stop()
        self._worker.stop()

    def wake(self) -> None:
        """Ends the thread's present wait for work."""
        self._worker.wake()

    @property
    def status(self) -> CleanerThreadStatus:
        """The thread's present state."""
        life = self._worker.life
        return CleanerThreadStatus(
            run=life.run,
            is_alive=life.is_alive,
            replaced=self._worker.threads_replaced,
            cleans=self.cleans,
            last_progress_ms=self._progress_ms,
            last=self.last,
        )
