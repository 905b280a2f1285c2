"""Audit events of commands that change a folder at rest."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING, Any

from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import SystemClock

from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_storage.log_store import LogStore


def note_offline_change(
    store: LogStore, method: str, topic: str | None, what: Mapping[str, Any]
) -> str | None:
    """Appends an event to the audit log, and flushes it. `peer` is the user and the machine.

    Returns the reason why there is no event: the audit log itself is damaged. Raises StorageFailed.
    """
    if AUDIT_PARTITION not in store.logs:
        return f"the audit log has no entry of this: {store.quarantined.get(AUDIT_PARTITION)}"
    now_ms = SystemClock().now_ms()
    append_event(
        store, AuditEvent(time_ms=now_ms, method=method, topic=topic, what=what, peer=_user())
    )
    return None


def append_event(store: LogStore, event: AuditEvent) -> None:
    """Appends an event to the audit log, and flushes it.

    Raises PartitionQuarantined, StorageFailed.
    """
    record = Record(key=None, value=event.encode(), offset=0, timestamp_ms=event.time_ms)
    store.produce(AUDIT_PARTITION, encode_batch([record], base_offset=0))
    store.flush()


def _user() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # A user id without a name.
        return socket.gethostname()
