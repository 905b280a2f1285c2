"""The access rules in `__offsetd_config`: a pure state that decides and replays.

`ConfigState` owns the log and hands over the batches that have rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

from offsetd_coordinator.configuration.acl_filter import acl_order
from offsetd_coordinator.configuration.acl_record import (
    check_acl_value,
    decode_acl_key,
    encode_acl_key,
    encode_acl_value,
    is_acl_key,
)
from offsetd_coordinator.errors import InvalidRequest
from offsetd_coordinator.kernels.table.request_ids import HEADER_NAME
from offsetd_coordinator.request_dedup import OWN_TOPIC_REQUESTS_MAX, RememberedRequests
from offsetd_coordinator.security.acl import Acl

if TYPE_CHECKING:
    from collections.abc import Collection

    from offsetd_storage.batch.record_batch import RecordBatch

    from offsetd_coordinator.errors import CoordinatorError

ACLS_MAX: Final = 10_000
"""The most rules that a server keeps."""
CHANGED_ACLS_MAX: Final = 1000
CHANGE_BYTES_MAX: Final = 128 * 1024
"""The keys of one change: it is one record batch, and one record of the audit log."""

_REQUEST_ID_HEADER: Final = HEADER_NAME.decode()


@attrs.frozen(kw_only=True)
class ChangeAcls:
    """Adds rules, or removes them: all or none. Those that are there, or are not, stay so."""

    acls: Collection[Acl]
    is_removal: bool = False
    request_id: bytes = b""
    validate_only: bool = False


class AclsReply(NamedTuple):
    """The rules that the change added or removed, sorted; the log offset of its last record.

    The offset is None if nothing was written.
    """

    changed: tuple[Acl, ...]
    last_offset: int | None


class AclsDecision(NamedTuple):
    """The decision on a change; nothing changes until `replay`.

    Exactly one of `reply` and `refusal` is set. `batch` must be appended and replayed before the
    reply may leave; None if there is nothing to write.
    """

    reply: AclsReply | None
    refusal: CoordinatorError | None
    batch: bytes | None = None


class AclState:
    """The rules that are stored. `unreadable_records` counts those of newer or damaged records."""

    def __init__(self, *, request_id_window_ms: int) -> None:
        self.unreadable_records = 0
        self._acls: set[Acl] = set()
        self._snapshot: frozenset[Acl] | None = None
        # By whether the request removes rules, and its id.
        self._known = RememberedRequests[tuple[bool, bytes], AclsReply](
            window_ms=request_id_window_ms, count_max=OWN_TOPIC_REQUESTS_MAX
        )

    @property
    def acls(self) -> frozenset[Acl]:
        """All rules, as of now."""
        if self._snapshot is None:
            self._snapshot = frozenset(self._acls)
        return self._snapshot

    def decide(
        self, request: ChangeAcls, now_ms: int, *, offset_next: int, leader_epoch: int
    ) -> AclsDecision:
        """The batch to write at `offset_next`, and the answer. Changes nothing."""
        if request.request_id and not request.validate_only:
            known = self._known.find((request.is_removal, request.request_id), now_ms)
            if known is not None:
                return AclsDecision(known, None)
        asked = frozenset(request.acls)
        changed = asked & self._acls if request.is_removal else asked - self._acls
        keys = {acl: encode_acl_key(acl) for acl in sorted(changed, key=acl_order)}
        refusal = self._refusal(request, keys.values())
        if refusal is not None:
            return AclsDecision(None, refusal)
        if request.validate_only or not keys:
            return AclsDecision(AclsReply(tuple(keys), None), None)
        value = None if request.is_removal else encode_acl_value()
        headers = ((_REQUEST_ID_HEADER, request.request_id),) if request.request_id else ()
        records = [
            Record(
                key=key,
                value=value,
                offset=offset_next + place,
                timestamp_ms=now_ms,
                headers=() if place else headers,
            )
            for place, key in enumerate(keys.values())
        ]
        batch = encode_batch(records, base_offset=offset_next, leader_epoch=leader_epoch)
        return AclsDecision(AclsReply(tuple(keys), records[-1].offset), None, batch)

    def _refusal(self, request: ChangeAcls, keys: Collection[bytes]) -> InvalidRequest | None:
        """The error if a change, or what it leaves, would be too large; else None."""
        field = "filters" if request.is_removal else "acls"
        if len(keys) > CHANGED_ACLS_MAX:
            return InvalidRequest(
                field,
                "{count} rules in one change, more than {count_max}: split the request",
                count=len(keys),
                count_max=CHANGED_ACLS_MAX,
            )
        size_bytes = sum(map(len, keys))
        if size_bytes > CHANGE_BYTES_MAX:
            return InvalidRequest(
                field,
                "rules of {size_bytes} bytes in one change, more than {bytes_max}: split the"
                " request",
                size_bytes=size_bytes,
                bytes_max=CHANGE_BYTES_MAX,
            )
        count = len(self._acls) + len(keys)
        if not request.is_removal and count > ACLS_MAX:
            return InvalidRequest(
                field,
                "the server would have {count} rules, more than {count_max}",
                count=count,
                count_max=ACLS_MAX,
            )
        return None

    def replay(self, batch: RecordBatch) -> None:
        """Replays a batch of rules. Records that cannot be understood are only counted."""
        added, removed = list[Acl](), list[Acl]()
        for record in batch.records:
            try:
                acl = decode_acl_key(record.key or b"")
                if record.value is None:
                    removed.append(acl)
                else:
                    check_acl_value(record.value)
                    added.append(acl)
            except UndecodableRecord:
                self.unreadable_records += 1
        self._acls.update(added)
        self._acls.difference_update(removed)
        self._snapshot = None
        for record in batch.records:
            for name, request_id in record.headers:
                if name == _REQUEST_ID_HEADER and request_id:
                    is_removal = record.value is None
                    changed = removed if is_removal else added
                    self._known.remember(
                        (is_removal, request_id),
                        AclsReply(tuple(changed), batch.last_offset),
                        timestamp_ms=record.timestamp_ms,
                    )


def has_acls(batch: RecordBatch) -> bool:
    """Whether a batch has rules. A change writes either rules or settings."""
    return any(is_acl_key(record.key or b"") for record in batch.records)
