"""Errors as gRPC statuses: codes, details, and a size that clients take."""

from __future__ import annotations

import base64
import inspect
import json
from typing import TYPE_CHECKING, TypeVar

import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.code_pb2 import Code
from offsetd.v1 import error_reason_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.service import statuses

if TYPE_CHECKING:
    from google.rpc.status_pb2 import Status

Detail = TypeVar("Detail", bound=Message)

PUBLIC_REASONS = {
    value.name.removeprefix("ERROR_REASON_")
    for value in error_reason_pb2.ErrorReason.DESCRIPTOR.values
} - {"UNSPECIFIED"}
ERROR_CLASSES = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.CoordinatorError)
]


def detail(status: Status, kind: type[Detail]) -> Detail:
    """The one detail of a kind."""
    found = [packed for packed in status.details if packed.Is(kind.DESCRIPTOR)]
    assert len(found) == 1, status
    unpacked = kind()
    found[0].Unpack(unpacked)
    return unpacked


def kinds(status: Status) -> list[str]:
    """The names of a status's details."""
    return [packed.TypeName().rpartition(".")[2] for packed in status.details]


def test_every_public_reason_has_a_code() -> None:
    assert set(statuses.CODE_BY_REASON) == PUBLIC_REASONS


@pytest.mark.parametrize("error", ERROR_CLASSES)
def test_every_error_has_a_public_reason(error: type[errors.CoordinatorError]) -> None:
    assert error.reason in PUBLIC_REASONS


@pytest.mark.parametrize(
    ("error", "code", "expected_kinds"),
    [
        (errors.InvalidTopic("offsets[1].topic", "empty"), Code.INVALID_ARGUMENT, ["BadRequest"]),
        (errors.GroupIdNotFound("no such group"), Code.NOT_FOUND, []),
        (errors.NonEmptyGroup("members"), Code.FAILED_PRECONDITION, ["PreconditionFailure"]),
        (errors.OffsetConflict("lost", (), 0), Code.ABORTED, ["PreconditionFailure"]),
        (errors.CoordinatorLoadInProgress("loading"), Code.UNAVAILABLE, ["RetryInfo"]),
        (errors.CoordinatorNotAvailable("stopping"), Code.UNAVAILABLE, ["RetryInfo"]),
        (errors.UnstableOffsetCommit("open"), Code.UNAVAILABLE, ["RetryInfo"]),
        (errors.StorageUnavailable("disk"), Code.UNAVAILABLE, ["RetryInfo"]),
        (errors.DiskFull("full"), Code.RESOURCE_EXHAUSTED, ["QuotaFailure", "RetryInfo"]),
        (errors.LogPartitionQuarantined("rot"), Code.DATA_LOSS, []),
        (errors.RecordUndecodable("rot"), Code.DATA_LOSS, []),
        (errors.DeadlineSpent("late"), Code.DEADLINE_EXCEEDED, []),
    ],
)
def test_an_error_becomes_its_code_with_its_details(
    error: errors.CoordinatorError, code: int, expected_kinds: list[str]
) -> None:
    status = statuses.status_of(error)
    assert status.code == code
    assert status.message == str(error)
    assert kinds(status) == ["ErrorInfo", *expected_kinds]
    info = detail(status, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == (error.reason, "offsetd")


def test_a_bad_field_is_named_for_programs_and_for_people() -> None:
    status = statuses.status_of(errors.InvalidOffset("offsets[3].offset", "-7 is below 0"))
    assert status.message == "offsets[3].offset: -7 is below 0"
    violation = detail(status, error_details_pb2.BadRequest).field_violations[0]
    assert (violation.field, violation.description) == ("offsets[3].offset", "-7 is below 0")
    info = detail(status, error_details_pb2.ErrorInfo)
    assert dict(info.metadata) == {"field": "offsets[3].offset", "description": "-7 is below 0"}


def test_a_conflict_carries_the_current_values() -> None:
    conflicts = (
        errors.Conflict(topic="früh".encode(), partition=3, offset=42, revision=0),
        errors.Conflict(topic=b"t", partition=4, offset=None, revision=None),
    )
    status = statuses.status_of(errors.OffsetConflict("lost", conflicts, 2))
    info = detail(status, error_details_pb2.ErrorInfo)
    assert json.loads(info.metadata["conflicts"]) == [
        {"topic": "früh", "partition": 3, "offset": 42, "revision": 0},
        {"topic": "t", "partition": 4},
    ]
    assert info.metadata["conflict_count"] == "2"


def test_who_is_told_of_another_owner_is_told_its_address() -> None:
    status = statuses.status_of(errors.NotCoordinator("not here", "10.0.0.2:7171"))
    assert detail(status, error_details_pb2.ErrorInfo).metadata["address"] == "10.0.0.2:7171"


LONG = "é" * 40_000
MANY_CONFLICTS = tuple(
    errors.Conflict(topic=("日" * 249).encode(), partition=n, offset=2**62, revision=2**62)
    for n in range(100)
)


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidTopic(LONG, LONG),
        errors.OffsetConflict(LONG, MANY_CONFLICTS, 5000),
        errors.GroupIdNotFound(LONG),
        errors.NonEmptyGroup("🚀" * 10_000),
    ],
    ids=["field", "conflicts", "group", "surrogates"],
)
def test_a_status_never_outgrows_what_clients_take_in_trailers(
    error: errors.CoordinatorError,
) -> None:
    status = statuses.status_of(error)
    encoded = status.SerializeToString()
    assert len(encoded) <= statuses.STATUS_BYTES_MAX
    percent_encoded = 3 * len(status.message.encode())
    assert len(base64.b64encode(encoded)) + percent_encoded < 8192 - 512
    assert status.message.encode().decode() == status.message


def test_conflicts_that_do_not_fit_are_left_out_from_the_end_and_counted() -> None:
    status = statuses.status_of(errors.OffsetConflict("lost", MANY_CONFLICTS, 5000))
    info = detail(status, error_details_pb2.ErrorInfo)
    listed = json.loads(info.metadata["conflicts"])
    assert 1 <= len(listed) < 100
    assert [conflict["partition"] for conflict in listed] == list(range(len(listed)))
    assert info.metadata["conflict_count"] == "5000"


def test_a_defect_tells_the_caller_nothing_of_the_inside() -> None:
    status = statuses.internal_status()
    assert status.code == Code.INTERNAL
    assert detail(status, error_details_pb2.ErrorInfo).reason == "INTERNAL"
