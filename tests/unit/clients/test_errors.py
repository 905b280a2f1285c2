"""offsetd_clients.errors"""

import pickle
from datetime import UTC, datetime

import attrs
import pytest
from offsetd.v1.error_reason_pb2 import ErrorReason
from offsetd_clients import ConsumerFenced, TopicPartition, errors
from offsetd_clients.errors import Failure, error_of

# Reason, gRPC code, class, retriable, outcome unknown.
EXPECTED = [
    ("INVALID_GROUP_ID", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_TOPIC", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_PARTITION", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_OFFSET", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_LEADER_EPOCH", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_METADATA", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_PRECONDITION", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_REQUEST_ID", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_REQUEST", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_PAGE_TOKEN", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_COMMIT_SIZE", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_CONFIG", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_SESSION_TIMEOUT", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_MEMBER_ID", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_INSTANCE_ID", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_PROTOCOL", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_LEASE", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_RETENTION", "INVALID_ARGUMENT", errors.InvalidRequest, False, False),
    ("INVALID_IMPORT", "INVALID_ARGUMENT", errors.InvalidImport, False, False),
    ("GROUP_ID_NOT_FOUND", "NOT_FOUND", errors.GroupNotFound, False, False),
    ("NON_EMPTY_GROUP", "FAILED_PRECONDITION", errors.GroupNotEmpty, False, False),
    ("UNKNOWN_MEMBER_ID", "FAILED_PRECONDITION", errors.UnknownMember, False, False),
    (
        "GROUP_SUBSCRIBED_TO_TOPIC",
        "FAILED_PRECONDITION",
        errors.GroupSubscribedToTopic,
        False,
        False,
    ),
    ("POLICY_VIOLATION", "FAILED_PRECONDITION", errors.PolicyViolation, False, False),
    ("ILLEGAL_GENERATION", "FAILED_PRECONDITION", errors.IllegalGeneration, False, False),
    ("FENCED_INSTANCE_ID", "FAILED_PRECONDITION", errors.FencedInstance, False, False),
    ("MEMBER_ID_REQUIRED", "FAILED_PRECONDITION", errors.MemberIdRequired, False, False),
    (
        "INCONSISTENT_GROUP_PROTOCOL",
        "FAILED_PRECONDITION",
        errors.InconsistentProtocol,
        False,
        False,
    ),
    ("EPOCH_FENCED", "FAILED_PRECONDITION", errors.EpochFenced, False, False),
    ("LEASE_HELD", "FAILED_PRECONDITION", errors.LeaseHeld, False, False),
    ("GROUP_EXISTS", "FAILED_PRECONDITION", errors.GroupExists, False, False),
    (
        "OFFSET_BOUNDS_UNKNOWN",
        "FAILED_PRECONDITION",
        errors.OffsetBoundsUnknown,
        False,
        False,
    ),
    ("OFFSET_NOT_COMMITTED", "FAILED_PRECONDITION", errors.OffsetNotCommitted, False, False),
    ("REBALANCE_IN_PROGRESS", "ABORTED", errors.RebalanceInProgress, False, False),
    ("OFFSET_CONFLICT", "ABORTED", errors.OffsetConflict, False, False),
    ("OFFSET_NOT_MONOTONIC", "ABORTED", errors.OffsetNotMonotonic, False, False),
    ("COORDINATOR_LOAD_IN_PROGRESS", "UNAVAILABLE", errors.Unavailable, True, False),
    ("COORDINATOR_NOT_AVAILABLE", "UNAVAILABLE", errors.Unavailable, True, False),
    ("UNSTABLE_OFFSET_COMMIT", "UNAVAILABLE", errors.UnstableOffsets, True, False),
    ("NOT_COORDINATOR", "UNAVAILABLE", errors.NotCoordinator, True, False),
    ("STORAGE_FAILED", "UNAVAILABLE", errors.Unavailable, True, True),
    ("KAFKA_UNAVAILABLE", "UNAVAILABLE", errors.Unavailable, True, False),
    ("REQUEST_TOO_LARGE", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("RESPONSE_TOO_LARGE", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("TOO_MANY_BYTES_IN_FLIGHT", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("COMMIT_RATE_EXCEEDED", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("DISK_FULL", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("GROUP_MAX_SIZE_REACHED", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("GROUP_RECORD_TOO_LARGE", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("PARTITION_QUARANTINED", "DATA_LOSS", errors.OffsetsDamaged, False, False),
    ("RECORD_UNDECODABLE", "DATA_LOSS", errors.OffsetsDamaged, False, False),
    ("OFFSET_OUT_OF_RANGE", "OUT_OF_RANGE", errors.OffsetOutOfRange, False, False),
    ("WATCHER_TOO_SLOW", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("TOO_MANY_WATCHERS", "RESOURCE_EXHAUSTED", errors.OverLimit, False, False),
    ("COMPACTED", "OUT_OF_RANGE", errors.HistoryCompacted, False, False),
    ("DEADLINE_SPENT", "DEADLINE_EXCEEDED", errors.DeadlineExceeded, False, False),
    ("AUTHENTICATION_FAILED", "UNAUTHENTICATED", errors.AuthenticationFailed, False, False),
    ("GROUP_AUTHORIZATION_FAILED", "PERMISSION_DENIED", errors.AuthorizationFailed, False, False),
    ("TOPIC_AUTHORIZATION_FAILED", "PERMISSION_DENIED", errors.AuthorizationFailed, False, False),
    (
        "CLUSTER_AUTHORIZATION_FAILED",
        "PERMISSION_DENIED",
        errors.AuthorizationFailed,
        False,
        False,
    ),
    ("INTERNAL", "INTERNAL", errors.ServerDefect, False, True),
]
WITHOUT_REASON = [
    ("", "UNAVAILABLE", errors.Unavailable, True, True),  # The connection was lost.
    ("", "DEADLINE_EXCEEDED", errors.DeadlineExceeded, False, True),
    ("", "UNKNOWN", errors.ServerDefect, False, True),
    ("", "CANCELLED", errors.ServerDefect, False, True),
    ("OF_A_NEWER_SERVER", "FAILED_PRECONDITION", errors.GroupRefused, False, False),
    ("OF_A_NEWER_SERVER", "ABORTED", errors.CommitConflict, False, False),
]


@pytest.mark.parametrize(
    ("reason", "code", "error_class", "retriable", "outcome_unknown"), EXPECTED + WITHOUT_REASON
)
def test_a_failure_becomes_the_error_for_its_reason_and_code(
    reason: str,
    code: str,
    error_class: type[errors.OffsetdError],
    retriable: bool,
    outcome_unknown: bool,
) -> None:
    error = error_of(Failure(code=code, message="it went wrong", reason=reason))
    assert type(error) is error_class
    assert (error.reason, error.code, str(error)) == (reason, code, "it went wrong")
    assert error.retriable is retriable
    assert error.outcome_unknown is outcome_unknown


def test_a_conflict_says_what_is_stored_of_the_first_partitions() -> None:
    stored = [(2, 7), (None, None), (0, 1), (5, 6)]
    conflicts = tuple(
        errors.Conflict(topic_partition=TopicPartition("t", each), offset=offset, revision=revision)
        for each, (offset, revision) in enumerate(stored)
    )
    failure = Failure(code="ABORTED", message="lost", reason="OFFSET_CONFLICT", conflicts=conflicts)
    assert str(error_of(failure)) == (
        "lost; t:0: offset 2, revision 7 is stored; t:1: nothing is stored; "
        "t:2: offset 0, revision 1 is stored; …"
    )


def test_what_is_over_a_limit_may_be_tried_again_only_if_the_server_says_when() -> None:
    for retry_after_s, retriable in ((None, False), (0.1, True), (0.0, True)):
        failure = Failure(code="RESOURCE_EXHAUSTED", message="no", retry_after_s=retry_after_s)
        error = error_of(failure)
        assert error.retriable is retriable
        assert not error.outcome_unknown


def test_every_reason_of_the_contract_is_in_the_table_above() -> None:
    reasons = {name.removeprefix("ERROR_REASON_") for name in ErrorReason.keys()}  # noqa: SIM118
    assert reasons - {"UNSPECIFIED"} == {reason for reason, *_ in EXPECTED}


def test_a_refusal_for_a_lease_says_who_holds_it() -> None:
    details = {
        "holder": "writer-2",
        "holder_epoch": "12",
        "expire_time": "2026-11-20T21:06:15.341Z",
    }
    failure = Failure(code="FAILED_PRECONDITION", message="", reason="EPOCH_FENCED")
    fenced = error_of(attrs.evolve(failure, details=details))
    assert isinstance(fenced, errors.EpochFenced)
    assert (fenced.holder, fenced.holder_epoch) == ("writer-2", 12)
    assert fenced.expire_time == datetime(2026, 11, 20, 21, 6, 15, 341_000, tzinfo=UTC)
    for details in ({}, {"holder": "", "holder_epoch": "", "expire_time": ""}):
        released = error_of(attrs.evolve(failure, details=details))
        assert isinstance(released, errors.EpochFenced)
        assert (released.holder, released.holder_epoch, released.expire_time) == ("", None, None)


def test_an_error_comes_whole_out_of_another_process() -> None:
    error = errors.OffsetConflict(Failure(code="ABORTED", message="no", reason="OFFSET_CONFLICT"))
    error.earlier_outcome_unknown = True
    fenced = ConsumerFenced(
        Failure(code="ABORTED", message="another has it"), (TopicPartition("orders", 0),)
    )
    for each in (error, fenced):
        found = pickle.loads(pickle.dumps(each))
        assert type(found) is type(each)
        assert vars(found) == vars(each)
        assert str(found) == str(each)
