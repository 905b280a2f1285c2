"""Claims on logs: a log is free, taken by a round of cleaning or deletion, or paused.

The states are Kafka's (`LogCleanerManager`). A round takes a log that is free. A caller that wants
to change something on which a round relies ends the round first, and keeps other rounds away until
it is done. Pauses are counted.
"""

from __future__ import annotations

import enum
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.topic_partition import TopicPartition


class CleaningState(enum.Enum):
    """The state of one log."""

    IDLE = "idle"
    IN_PROGRESS = "in progress"  # One thread cleans it, or deletes segments of it.
    ABORTED = "aborted"  # The thread must stop, and has not stopped yet.
    PAUSED = "paused"


class LogClaims:
    """The states of all logs. Any thread may use them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._taken: set[TopicPartition] = set()
        self._pauses: dict[TopicPartition, int] = {}

    def state(self, topic_partition: TopicPartition) -> CleaningState:
        """The present state of a log."""
        with self._changed:
            is_paused = topic_partition in self._pauses
            if topic_partition in self._taken:
                return CleaningState.ABORTED if is_paused else CleaningState.IN_PROGRESS
            return CleaningState.PAUSED if is_paused else CleaningState.IDLE

    def begin(self, topic_partition: TopicPartition, *, patience_seconds: float = 0.0) -> bool:
        """Takes a log, for cleaning or deleting. Returns False if it is not free."""
        with self._changed:
            is_free = self._changed.wait_for(
                lambda: topic_partition not in self._taken and topic_partition not in self._pauses,
                patience_seconds,
            )
            if is_free:
                self._taken.add(topic_partition)
            return is_free

    def end(self, topic_partition: TopicPartition) -> None:
        """Releases a log."""
        with self._changed:
            self._taken.remove(topic_partition)
            self._changed.notify_all()

    def should_abort(self, topic_partition: TopicPartition) -> bool:
        """Returns whether the round that has the log must end as soon as it can."""
        return topic_partition in self._pauses

    def abort_and_pause(self, topic_partition: TopicPartition) -> None:
        """Ends the round on a log, waits for its end, and prevents new rounds until `resume`."""
        with self._changed:
            self._pauses[topic_partition] = self._pauses.get(topic_partition, 0) + 1
            while topic_partition in self._taken:
                self._changed.wait()

    def resume(self, topic_partition: TopicPartition) -> None:
        """Ends one pause."""
        with self._changed:
            self._pauses[topic_partition] -= 1
            if self._pauses[topic_partition] == 0:
                del self._pauses[topic_partition]
            self._changed.notify_all()

    @contextmanager
    def paused(self, topic_partition: TopicPartition) -> Iterator[None]:
        """In the block, no other thread cleans the log or deletes segments of it."""
        self.abort_and_pause(topic_partition)
        try:
            yield
        finally:
            self.resume(topic_partition)
