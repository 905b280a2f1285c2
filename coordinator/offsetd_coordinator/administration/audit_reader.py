"""Pages of audit events for queries, read backwards from the end of the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

from offsetd_coordinator.administration.audit import AuditEvent, RecordedEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.kernels.columns import Bytes

RECORDS_MAX: Final = 5000
"""The most records that are read for one page. This takes a fraction of a second."""
_STRETCH: Final = 500  # The number of offsets that one step of the search covers.
_CHUNK_BYTES: Final = 1 << 16


class AuditReader(Protocol):
    """An audit log, to read. For any thread."""

    @property
    def log_start_offset(self) -> int:
        """The offset of the first record."""

    def read_chunks(
        self, chunk_bytes: int, *, offset: int = 0, offset_limit: int | None = None
    ) -> Iterator[tuple[Bytes, int]]:
        """As `PartitionReader.read_chunks`."""


class AuditFilter(NamedTuple):
    """A filter of events. Empty or None matches any. Times are record times in milliseconds."""

    methods: frozenset[str] = frozenset()
    group_id: str = ""
    start_ms: int | None = None
    end_ms: int | None = None
    principal: str = ""

    def takes(self, event: AuditEvent) -> bool:
        """Whether the filter accepts this event."""
        return (
            (not self.methods or event.method in self.methods)
            and (not self.principal or event.principal == self.principal)
            and (not self.group_id or event.what.get("group") == self.group_id)
            and (self.start_ms is None or event.time_ms >= self.start_ms)
            and (self.end_ms is None or event.time_ms < self.end_ms)
        )


class AuditPage(NamedTuple):
    """Events, the newest first, and the end of the next page (an exclusive offset), or None."""

    events: list[RecordedEvent]
    offset_limit: int | None


def read_page(
    log: AuditReader, wanted: AuditFilter, *, offset_limit: int, events_max: int
) -> AuditPage:
    """The newest events below `offset_limit`, at most `events_max`; blocks. For any thread.

    A page may have fewer, because the number of read records is bounded. Undecodable records are
    skipped. Raises CorruptBatch.
    """
    events: list[RecordedEvent] = []
    end, read = offset_limit, 0
    while end > log.log_start_offset:
        start = max(end - _STRETCH, log.log_start_offset)
        for recorded in reversed(list(_stretch(log, start, end))):
            if wanted.takes(recorded.event):
                events.append(recorded)
                if len(events) == events_max:
                    return AuditPage(events, _further(log, recorded.offset))
        read += end - start
        end = start
        if read >= RECORDS_MAX:
            break
    return AuditPage(events, _further(log, end))


def _further(log: AuditReader, offset: int) -> int | None:
    return offset if offset > log.log_start_offset else None


def _stretch(log: AuditReader, start: int, end: int) -> Iterator[RecordedEvent]:
    for buffer, size in log.read_chunks(_CHUNK_BYTES, offset=start, offset_limit=end):
        for batch in decode_batches(buffer[:size].tobytes()):
            for record in batch.records:
                if start <= record.offset < end:
                    try:
                        event = AuditEvent.decode(record.value or b"", time_ms=record.timestamp_ms)
                    except UndecodableRecord:
                        continue
                    yield RecordedEvent(record.offset, event)
