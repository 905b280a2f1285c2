"""Measures how long each log of a store has had no appends, by repeated checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offsetd_storage.clock import Clock
    from offsetd_storage.log.partition_log import PartitionLog
    from offsetd_storage.topic_partition import TopicPartition


class IdleLogs:
    """Compares the ends of logs at each check, so that appends have no cost.

    A log may have been idle for somewhat longer than the answer. After a start, the time counts
    from the first check.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The end of each log, and the time of the first check that found it there.
        self._ends: dict[TopicPartition, tuple[int, int]] = {}

    def look(self, logs: Iterable[PartitionLog]) -> dict[TopicPartition, int]:
        """The milliseconds for which each log has been idle, by the monotonic clock."""
        now_ms = self._clock.monotonic_ms()
        before, self._ends = self._ends, {}
        for log in logs:
            topic_partition, end = log.topic_partition, log.offset_next
            known = before.get(topic_partition)
            is_idle = known is not None and known[0] == end
            self._ends[topic_partition] = known if known and is_idle else (end, now_ms)
        return {each: now_ms - since_ms for each, (_, since_ms) in self._ends.items()}
