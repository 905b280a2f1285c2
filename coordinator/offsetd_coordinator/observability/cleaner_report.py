"""The report of one cleaning round, in the form of Kafka's log cleaner. Pure.

The lines have the layout of Kafka 4.1.1's `log-cleaner.log`, so that tools for that file can read
these. Times are UTC. If Kafka would print NaN or Infinity, for example for an empty log, these have
a plain number.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from offsetd_storage.cleaner.cleaning_round import CleanReport

_LOGGER: Final = "offsetd.LogCleaner"
_MIB: Final = 1024 * 1024
# The clock counts milliseconds. A duration of 0 counts as 1 ms, so that rates can be computed.
_SECONDS_MIN: Final = 0.001
_TIME_MS_MAX: Final = 253_402_300_799_999  # The end of the year 9999.
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)


def report_lines(thread: int, report: CleanReport) -> str:
    """A round's lines, without a line feed at the end; `thread` counts from 0."""
    ended_ms = report.started_ms + report.elapsed_ms - report.index_ms
    ident = f"[kafka-log-cleaner-thread-{thread}]: "
    lines = [
        _logged(report.started_ms, "INFO", f"Cleaner {thread}: {_cleaning_line(report)}"),
        _logged(ended_ms, "INFO", ident + _round_block(thread, report)),
    ]
    if report.invalid_messages:
        found = f"\tFound {report.invalid_messages} invalid messages during compaction."
        lines.append(_logged(ended_ms, "WARN", ident + found))
    return "\n".join(lines)


def report_fields(thread: int, report: CleanReport) -> dict[str, object]:
    """A round's figures by name, for one structured log event. Ratios are from 0 to 1."""
    return {
        "partition": str(report.topic_partition),
        "thread": thread,
        "first_dirty": report.first_dirty,
        "offset_next": report.offset_next,
        "first_uncleanable": report.first_uncleanable,
        "elapsed_ms": report.elapsed_ms,
        "index_ms": report.index_ms,
        "buffer_utilization": round(report.map_utilization, 4),
        "buffer_is_full": report.map_is_full,
        "map_bytes_read": report.map_bytes_read,
        "bytes_read": report.bytes_read,
        "bytes_written": report.bytes_written,
        "size_reduction": round(_reduction(report.bytes_read, report.bytes_written), 4),
        "messages_read": report.messages_read,
        "messages_written": report.messages_written,
        "message_reduction": round(_reduction(report.messages_read, report.messages_written), 4),
        "invalid_messages": report.invalid_messages,
        "segments_before": report.segments_before,
        "segments_after": report.segments_after,
        "segments_left_alone": report.segments_left_alone,
        "delete_horizon_ms": report.delete_horizon_ms,
    }


def _cleaning_line(report: CleanReport) -> str:
    return (
        f"Cleaning log {report.topic_partition}"
        f" (cleaning prior to {_java_date(report.last_modified_ms)},"
        " discarding tombstones prior to upper bound deletion horizon"
        f" {_java_date(report.tombstones_until_ms)})..."
    )


def _round_block(thread: int, report: CleanReport) -> str:
    """The block of a round's figures. It begins and ends with a line feed."""
    seconds, index_seconds = report.elapsed_ms / 1000, report.index_ms / 1000
    clean_seconds = seconds - index_seconds
    read_mb, map_mb = report.bytes_read / _MIB, report.map_bytes_read / _MIB
    written_mb = report.bytes_written / _MIB
    smaller = 100 * _reduction(report.bytes_read, report.bytes_written)
    fewer = 100 * _reduction(report.messages_read, report.messages_written)
    return (
        f"\n\tLog cleaner thread {thread} cleaned log {report.topic_partition}"
        f" (dirty section = [{report.first_dirty}, {report.offset_next}])\n"
        f"\t{read_mb:,.1f} MB of log processed in {seconds:,.1f} seconds"
        f" ({_rate(read_mb, seconds)} MB/sec).\n"
        f"\tIndexed {map_mb:,.1f} MB in {index_seconds:.1f} seconds"
        f" ({_rate(map_mb, index_seconds)} Mb/sec,"
        f" {_percent(index_seconds, seconds)}% of total time)\n"
        f"\tBuffer utilization: {100 * report.map_utilization:.1f}%\n"
        f"\tCleaned {read_mb:,.1f} MB in {clean_seconds:.1f} seconds"
        f" ({_rate(read_mb, clean_seconds)} Mb/sec,"
        f" {_percent(clean_seconds, seconds)}% of total time)\n"
        f"\tStart size: {read_mb:,.1f} MB ({report.messages_read:,} messages)\n"
        f"\tEnd size: {written_mb:,.1f} MB ({report.messages_written:,} messages)\n"
        f"\t{smaller:.1f}% size reduction ({fewer:.1f}% fewer messages)\n"
    )


def _rate(amount: float, seconds: float) -> str:
    return f"{amount / max(seconds, _SECONDS_MIN):,.1f}"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / max(whole, _SECONDS_MIN):.1f}"


def _reduction(before: int, after: int) -> float:
    return 1 - after / before if before else 0.0


def _logged(time_ms: int, level: str, message: str) -> str:
    """A line in Kafka's log4j pattern `[%d] %p %m (%c)`."""
    moment = datetime.fromtimestamp(time_ms // 1000, UTC)
    stamp = f"{moment:%Y-%m-%d %H:%M:%S},{time_ms % 1000:03d}"
    return f"[{stamp}] {level} {message} ({_LOGGER})"


def _java_date(time_ms: int) -> str:
    """A time in the form of Java's Date. A time before 1970 becomes 1970.

    An endless retention leads to such times.
    """
    moment = datetime.fromtimestamp(min(max(time_ms, 0), _TIME_MS_MAX) // 1000, UTC)
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day} {month} {moment:%d %H:%M:%S} UTC {moment.year}"
