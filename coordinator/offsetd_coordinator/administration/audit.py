"""The audit log: one JSON record in the topic `__offsetd_audit` for each administrative change.

A record is durable before its change is made, and holds the whole request. So a retry with the same
request id can do the same again and return the same answer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
from offsetd_storage.batch.record_batch import Record, batch_header, encode_batch
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

from offsetd_coordinator.request_dedup import OWN_TOPIC_REQUESTS_MAX, RememberedRequests
from offsetd_coordinator.rfc3339 import rfc3339
from offsetd_coordinator.state.internal_topic_state import InternalTopicState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_storage.batch.record_batch import RecordBatch

AUDIT_VERSION: Final = 1


@attrs.frozen(kw_only=True)
class AuditEvent:
    """One change. `method` is its name in the contract; `what` is the request as JSON values.

    `principal` is empty if the server did not ask for the caller's identity.
    """

    time_ms: int
    method: str
    topic: str | None  # None if the event concerns the server, not a topic.
    what: Mapping[str, Any]
    reason: str = ""
    request_id: str = ""
    peer: str = ""
    principal: str = ""

    def encode(self) -> bytes:
        """The event as JSON on one line."""
        document = {
            "version": AUDIT_VERSION,
            "time": rfc3339(self.time_ms),
            "method": self.method,
            "topic": self.topic,
            "what": self.what,
            "reason": self.reason,
            "request_id": self.request_id,
            "peer": self.peer,
            "principal": self.principal,
        }
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes, *, time_ms: int) -> AuditEvent:
        """An event from a record's value and timestamp.

        Raises UndecodableRecord, for a record of a newer version too.
        """
        try:
            document = json.loads(value)
            if document["version"] != AUDIT_VERSION:
                raise UndecodableRecord(f"an audit record of version {document['version']!r}")
            return cls(
                time_ms=time_ms,
                method=_checked(document["method"], str),
                topic=_checked(document["topic"], str | None),
                what=_checked(document["what"], dict),
                reason=_checked(document["reason"], str),
                request_id=_checked(document["request_id"], str),
                peer=_checked(document["peer"], str),
                principal=_checked(document.get("principal", ""), str),
            )
        except KeyError as error:
            raise UndecodableRecord(f"no audit record: it has no {error}") from error
        except (ValueError, TypeError, RecursionError) as error:
            raise UndecodableRecord(f"no audit record: {error}") from error


class RecordedEvent(NamedTuple):
    """An event, and the log offset of its record."""

    offset: int
    event: AuditEvent


class AuditLog(InternalTopicState):
    """The end of the audit log, and its recent events, which identify retries."""

    def __init__(self, *, request_id_window_ms: int) -> None:
        super().__init__()
        self._known = RememberedRequests[tuple[str, str], RecordedEvent](
            window_ms=request_id_window_ms, count_max=OWN_TOPIC_REQUESTS_MAX
        )

    def find(self, method: str, request_id: str, now_ms: int) -> RecordedEvent | None:
        """The event that was recorded for this request within the window before `now_ms`."""
        return self._known.find((method, request_id), now_ms) if request_id else None

    def batch(self, event: AuditEvent) -> bytes:
        """The batch to append for an event. Its only record is at `offset_next`."""
        return self.batch_of([event])

    def batch_of(self, events: Sequence[AuditEvent]) -> bytes:
        """The batch to append for several events. There must be at least one."""
        records = [
            Record(
                key=None,
                value=event.encode(),
                offset=self.offset_next + place,
                timestamp_ms=event.time_ms,
            )
            for place, event in enumerate(events)
        ]
        return encode_batch(records, base_offset=self.offset_next, leader_epoch=self.leader_epoch)

    def pass_over(self, batch: bytes) -> None:
        """Replays a batch of events without a request id. They are not kept for retries."""
        self._note_end(batch_header(batch))

    def _replay_batch(self, batch: RecordBatch) -> None:
        for record in batch.records:
            self._replay_record(record)

    def _replay_record(self, record: Record) -> None:
        try:
            event = AuditEvent.decode(record.value or b"", time_ms=record.timestamp_ms)
        except UndecodableRecord:
            self.undecodable_records += 1
            return
        if not event.request_id:
            return
        self._known.remember(
            (event.method, event.request_id),
            RecordedEvent(record.offset, event),
            timestamp_ms=event.time_ms,
        )


def _checked(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{value!r} is no {kind}")
    return value
