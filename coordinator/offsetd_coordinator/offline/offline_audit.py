"""Audit events of commands that change a folder at rest."""

from __future__ import annotations

import getpass
import socket
from typing import TYPE_CHECKING, Any

from offsetd_storage.clock import SystemClock

from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.administration.repair_journal import append_event
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_storage.log_store import LogStore


def note_offline_change(
    store: LogStore, method: str, topic: str | None, what: Mapping[str, Any]
) -> str | None:
    """Appends an event to the audit log, and flushes it.

    Returns the reason why there is no event: the audit log itself is damaged. Raises StorageFailed.
    """
    if AUDIT_PARTITION not in store.logs:
        return f"the audit log has no entry of this: {store.quarantined.get(AUDIT_PARTITION)}"
    append_event(store, event_of_user(method, topic, what))
    return None


def event_of_user(method: str, topic: str | None, what: Mapping[str, Any]) -> AuditEvent:
    """The event of a change that this user makes now. `peer` is the user and the machine."""
    now_ms = SystemClock().now_ms()
    return AuditEvent(time_ms=now_ms, method=method, topic=topic, what=what, peer=_user())


def _user() -> str:
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # A user id without a name.
        return socket.gethostname()
