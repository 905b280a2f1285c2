"""Times of the log as the contract's timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_coordinator.kernels.fetch_answer import TIMESTAMP_MS_MAX

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

# 10,000 years: a protobuf Duration ends there.
_DURATION_MS_MAX: Final = 315_576_000_000_000


def set_time(message: Timestamp, timestamp_ms: int) -> None:
    """Sets `message`, unless the time is negative, which means none.

    A time that no Timestamp can hold (clients of old brokers asked for endless retention so)
    becomes the last one that it can.
    """
    if timestamp_ms >= 0:
        message.FromMilliseconds(min(timestamp_ms, TIMESTAMP_MS_MAX))


def set_duration(message: Duration, duration_ms: int) -> None:
    """Sets `message`; what is longer than a Duration can be becomes the longest."""
    message.FromMilliseconds(min(duration_ms, _DURATION_MS_MAX))
