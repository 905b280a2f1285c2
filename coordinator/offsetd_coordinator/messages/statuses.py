"""Conversion of errors to gRPC statuses. Only this module knows an error's form on the wire.

Every status carries `google.rpc.ErrorInfo` with the public reason, the domain `offsetd` and every
variable of its message. If they apply, it also carries `BadRequest`, `RetryInfo`, `QuotaFailure`
and `PreconditionFailure`. A status is sent in HTTP/2 trailers, and clients accept only 8 KiB of
these. So long names are cut, and the last conflicts are dropped until it fits.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2
from google.rpc.status_pb2 import Status

from offsetd_coordinator.errors import (
    CommitConflict,
    CommitRateExceeded,
    Conflict,
    CoordinatorError,
    InvalidField,
    Listing,
    QuotaExceeded,
)
from offsetd_coordinator.history.history_errors import WatchRefused
from offsetd_coordinator.status_codes import CODE_BY_REASON, StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.message import Message

DOMAIN: Final = "offsetd"
STATUS_KEY: Final = "grpc-status-details-bin"
# In base64, and together with the plain message, a status of this size stays below 8 KiB.
STATUS_BYTES_MAX: Final = 4096
_TOKEN_BYTES_MAX: Final = 2000
_TEXT_BYTES_MAX: Final = 400  # A status repeats a text up to five times.
_LIST_BYTES_MAX: Final = 2400

_RETRY_AFTER_MS: Final = {
    "COORDINATOR_LOAD_IN_PROGRESS": 500,
    "COORDINATOR_NOT_AVAILABLE": 500,
    "UNSTABLE_OFFSET_COMMIT": 100,
    "NOT_COORDINATOR": 0,
    "STORAGE_FAILED": 1000,
    "KAFKA_UNAVAILABLE": 1000,
    "TOO_MANY_BYTES_IN_FLIGHT": 100,
    "DISK_FULL": 1000,
    "WATCHER_TOO_SLOW": 0,
    "TOO_MANY_WATCHERS": 1000,
}


def status_of(error: CoordinatorError) -> Status:
    """The status of a refused call, at most `STATUS_BYTES_MAX` long."""
    reason = error.reason
    message = _cut(str(error) or reason)
    variables = {name: _cut(text) for name, text in error.variables.items()}
    details: list[Message] = []
    if isinstance(error, InvalidField):
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=_cut(error.field), description=_cut(error.description)
        )
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    elif isinstance(error, CommitConflict):
        variables["conflicts"] = _json_that_fits(map(_conflict, error.conflicts))
    if isinstance(error, Listing):
        variables[error.list_name] = _json_that_fits(error.listed)
    if isinstance(error, WatchRefused):
        # A detail is added whole or not at all.
        tokens = error.tokens.items()
        variables |= {name: each for name, each in tokens if len(each) <= _TOKEN_BYTES_MAX}
    details += _further_details(error, message)
    details.insert(0, error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=variables))
    return Status(code=CODE_BY_REASON[reason], message=message, details=map(_packed, details))


def _further_details(error: CoordinatorError, message: str) -> list[Message]:
    """The details that follow from the code and the reason, and the retry delay."""
    code, reason = CODE_BY_REASON[error.reason], error.reason
    details: list[Message] = []
    if code in (StatusCode.FAILED_PRECONDITION, StatusCode.ABORTED):
        subject = "group"
        if reason == "POLICY_VIOLATION":
            subject = "topic" if "topic" in error.variables else "server"
        violation = error_details_pb2.PreconditionFailure.Violation(
            type=reason, subject=subject, description=message
        )
        details.append(error_details_pb2.PreconditionFailure(violations=[violation]))
    retry_after_ms = error.retry_after_ms
    if retry_after_ms is None:
        retry_after_ms = _RETRY_AFTER_MS.get(reason)
    subject = "server"
    if isinstance(error, CommitRateExceeded):
        subject = f"group:{_cut(error.variables['group'])}"
    elif isinstance(error, QuotaExceeded):
        subject = _cut(error.variables["entity"])
    if code == StatusCode.RESOURCE_EXHAUSTED:
        quota = error_details_pb2.QuotaFailure.Violation(subject=subject, description=message)
        details.append(error_details_pb2.QuotaFailure(violations=[quota]))
    if retry_after_ms is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromMilliseconds(retry_after_ms)
        details.append(retry)
    return details


def _conflict(conflict: Conflict) -> dict[str, object]:
    """A conflict as a JSON value; without a stored offset it has no offset and no revision."""
    entry: dict[str, object] = {"topic": conflict.topic.decode(), "partition": conflict.partition}
    if conflict.offset is not None:
        entry |= {"offset": conflict.offset, "revision": conflict.revision}
    return entry


def _json_that_fits(entries: Iterable[Mapping[str, object]]) -> str:
    """The first entries that fit, as a JSON array."""
    texts: list[str] = []
    size = 2
    for entry in entries:
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
        size += len(text.encode()) + 1
        if size > _LIST_BYTES_MAX:
            break
        texts.append(text)
    return f"[{','.join(texts)}]"


def _cut(text: str) -> str:
    """Cuts a long text, which would make the status too large for clients."""
    encoded = text.encode()
    if len(encoded) <= _TEXT_BYTES_MAX:
        return text
    return encoded[:_TEXT_BYTES_MAX].decode(errors="ignore") + "…"


def _packed(detail: Message) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(detail)
    return packed
