"""Errors as gRPC statuses: codes, details, and a size that clients take."""

from __future__ import annotations

import ast
import base64
import inspect
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import offsetd_coordinator
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from google.rpc.code_pb2 import Code
from offsetd.v1 import error_reason_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.calls.call_life import refusal_of
from offsetd_coordinator.history import history_errors
from offsetd_coordinator.membership import refusals
from offsetd_coordinator.messages import statuses
from offsetd_coordinator.security import security_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.rpc.status_pb2 import Status

Detail = TypeVar("Detail", bound=Message)

PUBLIC_REASONS = {
    value.name.removeprefix("ERROR_REASON_")
    for value in error_reason_pb2.ErrorReason.DESCRIPTOR.values
} - {"UNSPECIFIED"}
ERROR_CLASSES = [
    error
    for module in (errors, history_errors, refusals, security_errors)
    for _, error in inspect.getmembers(module, inspect.isclass)
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


def test_partitions_that_stand_in_the_way_are_listed_as_far_as_they_fit() -> None:
    listed = tuple({"topic": "日" * 249, "partition": n, "offset": 7} for n in range(9))
    refusal = errors.OffsetOutOfRange("{partition_count} of them", listed, partition_count=9)
    info = detail(statuses.status_of(refusal), error_details_pb2.ErrorInfo)
    assert json.loads(info.metadata["partitions"]) == list(listed[:3])
    assert info.metadata["partition_count"] == "9"


def test_who_is_told_of_another_owner_is_told_its_address() -> None:
    status = statuses.status_of(errors.NotCoordinator("ask {address}", address="10.0.0.2:7171"))
    assert detail(status, error_details_pb2.ErrorInfo).metadata["address"] == "10.0.0.2:7171"


@pytest.mark.parametrize(
    ("variables", "subject"), [({"topic": b"t"}, "topic"), ({"setting": "s"}, "server")]
)
def test_a_violated_policy_is_that_of_a_topic_or_of_the_server(
    variables: dict[str, object], subject: str
) -> None:
    status = statuses.status_of(errors.PolicyViolation("it is so", **variables))
    [violation] = detail(status, error_details_pb2.PreconditionFailure).violations
    assert (violation.type, violation.subject) == ("POLICY_VIOLATION", subject)


VARIABLES = {
    "INVALID_GROUP_ID": {"size_bytes": 32_768, "bytes_max": 32_767},
    "INVALID_TOPIC": {"units": 250, "units_max": 249},
    "INVALID_PARTITION": {"topic": b"{t}", "partition": 3},
    "INVALID_OFFSET": {"value": -1},
    "INVALID_LEADER_EPOCH": {"value": -1},
    "INVALID_METADATA": {"units": 4097, "units_max": 4096},
    "INVALID_PRECONDITION": {"value": -1},
    "INVALID_REQUEST_ID": {"size_bytes": 65, "bytes_max": 64},
    "INVALID_REQUEST": {"message_type": "CommitOffsetsRequest"},
    "INVALID_LEASE": {"ttl_ms": 1, "ttl_min_ms": 1000},
    "INVALID_RETENTION": {"value": 0},
    "EPOCH_FENCED": {"group": b"g", "epoch": 3, "holder": "w", "holder_epoch": 7},
    "LEASE_HELD": {"group": b"g", "holder": "w", "holder_epoch": 7},
    "INVALID_PAGE_TOKEN": {},
    "INVALID_COMMIT_SIZE": {"bytes_max": 1_048_588},
    "INVALID_CONFIG": {"name": "retention.ms"},
    "INVALID_SESSION_TIMEOUT": {"value_ms": 5999, "ms_min": 6000, "ms_max": 1_800_000},
    "INVALID_MEMBER_ID": {"size_bytes": 32_768, "bytes_max": 32_767},
    "INVALID_INSTANCE_ID": {"units": 250, "units_max": 249},
    "INVALID_PROTOCOL": {"name": "range"},
    "GROUP_ID_NOT_FOUND": {"group": "früh".encode()},
    "NON_EMPTY_GROUP": {"group": b"g"},
    "UNKNOWN_MEMBER_ID": {"group": b"g", "member_id": "c-1"},
    "GROUP_SUBSCRIBED_TO_TOPIC": {"group": b"g", "topic": b"t"},
    "POLICY_VIOLATION": {"topic": b"t", "policy": "compact"},
    "ILLEGAL_GENERATION": {"group": b"g", "generation": 1, "current_generation": 2},
    "FENCED_INSTANCE_ID": {"group": b"g", "instance_id": "i", "member_id": "i-1"},
    "MEMBER_ID_REQUIRED": {"group": b"g", "member_id": "c-1"},
    "INCONSISTENT_GROUP_PROTOCOL": {"group": b"g", "protocol_type": "connect"},
    "REBALANCE_IN_PROGRESS": {"group": b"g"},
    "GROUP_MAX_SIZE_REACHED": {"group": b"g", "size_max": 500},
    "GROUP_RECORD_TOO_LARGE": {"group": b"g", "bytes_max": 1_048_588},
    "OFFSET_CONFLICT": {"offset_count": 5},
    "OFFSET_NOT_MONOTONIC": {"offset_count": 5},
    "COORDINATOR_LOAD_IN_PROGRESS": {},
    "COORDINATOR_NOT_AVAILABLE": {"cause": OSError(5, "Input/output error")},
    "UNSTABLE_OFFSET_COMMIT": {"group": b"g"},
    "NOT_COORDINATOR": {"address": "10.0.0.2:7171"},
    "STORAGE_FAILED": {"cause": OSError(5, "Input/output error")},
    "REQUEST_TOO_LARGE": {"size_bytes": 5_000_000, "bytes_max": 4_194_304},
    "RESPONSE_TOO_LARGE": {"bytes_max": 67_108_864},
    "TOO_MANY_BYTES_IN_FLIGHT": {"bytes_taken": 9, "size_bytes": 2, "bytes_max": 10},
    "DISK_FULL": {},
    "PARTITION_QUARANTINED": {"log_partition": 7, "cause": "it rots"},
    "RECORD_UNDECODABLE": {"group": b"g", "topic": b"t", "partition": 0},
    "OFFSET_OUT_OF_RANGE": {"offset": 9, "log_end_offset": 8},
    "INVALID_IMPORT": {"line_count": 3, "line": 2},
    "GROUP_EXISTS": {"group": b"g"},
    "OFFSET_BOUNDS_UNKNOWN": {"partition_count": 3},
    "OFFSET_NOT_COMMITTED": {"group": b"g", "partition_count": 3},
    "KAFKA_UNAVAILABLE": {"cause": OSError(111, "Connection refused")},
    "COMMIT_RATE_EXCEEDED": {"group": b"g", "rate_max": 5, "retry_after_ms": 120},
    "QUOTA_EXCEEDED": {
        "entity": "User:früh",
        "quota": "commit_rate",
        "most": 5,
        "retry_after_ms": 120,
    },
    "WATCHER_TOO_SLOW": {"idle_ms": 30_000},
    "TOO_MANY_WATCHERS": {"watchers_max": 100},
    "COMPACTED": {"oldest_revision": 7, "group": b"g"},
    "DEADLINE_SPENT": {},
    "AUTHENTICATION_FAILED": {},
    **{
        f"{resource_type.upper()}_AUTHORIZATION_FAILED": {
            "principal": "User:früh",
            "operation": "Read",
            "resource_type": resource_type,
            "name": "n",
        }
        for resource_type in ("Group", "Topic", "Cluster")
    },
    "INTERNAL": {},
}
"""The variables of each public reason's messages; what is not said of a case is no variable."""

MADE = re.compile(
    r"(CoordinatorError|" + "|".join(error.__name__ for error in ERROR_CLASSES) + r")$"
)


def made_errors() -> Iterator[tuple[str, ast.Call]]:
    """Every place of the coordinator that makes an error."""
    for path in sorted(Path(offsetd_coordinator.__path__[0]).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and MADE.match(ast.unparse(node.func).split(".")[-1]):
                yield f"{path.name}:{node.lineno}", node


def test_no_message_is_written_with_what_differs_from_case_to_case() -> None:
    places = 0
    for place, call in made_errors():
        is_field = ast.unparse(call.func).startswith("Invalid")
        message = call.args[1] if is_field else call.args[0]
        assert isinstance(message, ast.Constant | ast.Name), f"{place}: {ast.unparse(message)}"
        places += 1
    assert places > 30


@pytest.mark.parametrize("reason", sorted(PUBLIC_REASONS))
def test_every_variable_of_a_message_is_in_the_metadata(reason: str) -> None:
    variables = VARIABLES[reason]
    error_class = next(each for each in ERROR_CLASSES if each.reason == reason)
    message = "so it is: " + ", ".join(f"{{{name}!r}}" for name in variables)
    if issubclass(error_class, errors.InvalidField):
        error: errors.CoordinatorError = error_class("offsets[3]", message, **variables)
    elif issubclass(error_class, errors.CommitConflict):
        error = error_class(message, (), 2, **variables)
    else:
        error = error_class(message, **variables)
    status = statuses.status_of(error)
    metadata = detail(status, error_details_pb2.ErrorInfo).metadata
    for name, value in variables.items():
        text = value.decode() if isinstance(value, bytes) else str(value)
        assert metadata[name] == text
        assert repr(text) in status.message


def test_who_commits_too_often_is_told_which_group_and_when_to_come_again() -> None:
    error = errors.CommitRateExceeded("{group} does", group=b"billing", retry_after_ms=1250)
    status = statuses.status_of(error)
    assert status.code == Code.RESOURCE_EXHAUSTED
    assert kinds(status) == ["ErrorInfo", "QuotaFailure", "RetryInfo"]
    quota = detail(status, error_details_pb2.QuotaFailure).violations[0]
    assert (quota.subject, quota.description) == ("group:billing", "billing does")
    assert detail(status, error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() == 1250


LONG = "é" * 40_000


def test_a_token_stands_whole_in_a_status_or_not_at_all() -> None:
    for token, found in (("t" * 2000, "t" * 2000), ("t" * 2001, None)):
        error = history_errors.WatcherTooSlow(LONG, tokens={"token": token})
        status = statuses.status_of(error)
        metadata = detail(status, error_details_pb2.ErrorInfo).metadata
        assert metadata.get("token") == found
        assert len(status.SerializeToString()) <= statuses.STATUS_BYTES_MAX


MANY_CONFLICTS = tuple(
    errors.Conflict(topic=("日" * 249).encode(), partition=n, offset=2**62, revision=2**62)
    for n in range(100)
)


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidTopic(LONG, LONG),
        errors.OffsetConflict(LONG, MANY_CONFLICTS, 5000),
        errors.InvalidPartition("offsets[3]", "{topic}: {partition}", topic=LONG, partition=LONG),
        errors.GroupIdNotFound(LONG),
        errors.GroupSubscribedToTopic("{group} {topic}", group=LONG, topic=LONG),
        errors.CommitRateExceeded("{group}", group=LONG, retry_after_ms=1),
        errors.QuotaExceeded("{entity}", entity=LONG, retry_after_ms=1),
        errors.RecordUndecodable(
            "{group} {topic} {partition}", group=LONG, topic=LONG, partition=1
        ),
        errors.NonEmptyGroup("🚀" * 10_000),
        errors.InvalidImport("content", LONG, tuple({"problem": LONG} for _ in range(9))),
    ],
    ids=[
        "field",
        "conflicts",
        "partition",
        "group",
        "topic",
        "rate",
        "quota",
        "record",
        "text",
        "lines",
    ],
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
    refusal = refusal_of(ValueError("a secret of the inside"), "Commit")
    status = statuses.status_of(refusal)
    assert "secret" not in str(status)
    assert status.code == Code.INTERNAL
    assert detail(status, error_details_pb2.ErrorInfo).reason == "INTERNAL"
