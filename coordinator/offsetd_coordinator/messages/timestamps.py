"""Conversions between the log's times and protobuf's timestamps and durations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_coordinator.errors import InvalidRequest
from offsetd_coordinator.kernels.wire.fetch_fields import TIMESTAMP_MS_MAX

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

# 10,000 years: the limit of a protobuf Duration.
_DURATION_MS_MAX: Final = 315_576_000_000_000
_TIMESTAMP_MS_MIN: Final = -62_135_596_800_000
_NANOS: Final = 1_000_000_000


def set_time(message: Timestamp, timestamp_ms: int) -> None:
    """Sets `message`, unless the time is negative. A negative time means that there is no time.

    A time later than a Timestamp can hold becomes the last possible one. Clients of old brokers
    asked for endless retention with such times.
    """
    if timestamp_ms >= 0:
        message.FromMilliseconds(min(timestamp_ms, TIMESTAMP_MS_MAX))


def set_duration(message: Duration, duration_ms: int) -> None:
    """Sets `message`. A time longer than a Duration can hold becomes the longest possible one."""
    message.FromMilliseconds(min(duration_ms, _DURATION_MS_MAX))


def read_time_ms(time: Timestamp, field: str) -> int:
    """Milliseconds since 1970, which may be negative. Raises InvalidRequest.

    Protobuf parses seconds and nanoseconds that no Timestamp may have, and its own conversions
    raise errors of several kinds for them.
    """
    time_ms = time.seconds * 1000 + time.nanos // 1_000_000
    if not (0 <= time.nanos < _NANOS and _TIMESTAMP_MS_MIN <= time_ms <= TIMESTAMP_MS_MAX):
        raise InvalidRequest(field, "a time is from year 1 to 9999, its nanos from 0 to 999999999")
    return time_ms


def read_past_ms(time: Timestamp, field: str) -> int:
    """Reads a time of the log, which is not before 1970. Raises InvalidRequest."""
    time_ms = read_time_ms(time, field)
    if time_ms < 0:
        raise InvalidRequest(field, "it is before 1970")
    return time_ms


def read_duration_ms(duration: Duration, field: str) -> int:
    """Whole milliseconds, 0 or more. Raises InvalidRequest."""
    duration_ms = duration.seconds * 1000 + duration.nanos // 1_000_000
    if not (0 <= duration.nanos < _NANOS and 0 <= duration_ms <= _DURATION_MS_MAX):
        raise InvalidRequest(
            field, "a duration is from 0 to 10,000 years, its nanos from 0 to 999999999"
        )
    return duration_ms
