"""The errors that calls raise. Each error says whether a retry can help."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

import attrs

from offsetd_clients.values import TopicPartition

_GROUPS_NAMED_MAX = 3


@attrs.frozen(kw_only=True)
class FieldViolation:
    """An invalid field of the request: its path (`offsets[2].partition`), and what is wrong."""

    field: str
    description: str


@attrs.frozen(kw_only=True)
class Conflict:
    """A stored offset that broke a commit's condition. Both values are None if none is stored."""

    topic_partition: TopicPartition
    offset: int | None
    revision: int | None

    def __str__(self) -> str:
        stored = "nothing" if self.offset is None else f"offset {self.offset}"
        if self.revision is not None:
            stored += f", revision {self.revision}"
        return f"{self.topic_partition}: {stored} is stored"


@attrs.frozen(kw_only=True)
class Failure:
    """A failed call as it arrived, with its details unpacked.

    `code` is the name of the gRPC code. `reason` is one of the contract's `ErrorReason`, without
    its prefix; it is empty if the answer did not come from offsetd (a lost connection, for
    example). `details` holds every variable of the message. `retry_after_s` is the server's advice.
    """

    code: str
    message: str
    reason: str = ""
    details: Mapping[str, str] = attrs.field(factory=dict)
    retry_after_s: float | None = None
    field_violations: tuple[FieldViolation, ...] = ()
    conflicts: tuple[Conflict, ...] = ()


class OffsetdError(Exception):
    """A call failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
        # The retry loop sets this if an earlier attempt of the same call may have been applied.
        self.earlier_outcome_unknown = False

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the error by its failure: its arguments differ from those of other exceptions."""
        return type(self), (self.failure,), self.__dict__

    @property
    def code(self) -> str:
        return self.failure.code

    @property
    def reason(self) -> str:
        return self.failure.reason

    @property
    def details(self) -> Mapping[str, str]:
        return self.failure.details

    @property
    def retriable(self) -> bool:
        """Whether the same call may succeed if it is retried."""
        return False

    @property
    def outcome_unknown(self) -> bool:
        """Whether this attempt, or an earlier one of the call, may have been applied."""
        return self.earlier_outcome_unknown or self._own_outcome_unknown()

    def _own_outcome_unknown(self) -> bool:
        return False


class ClientClosed(OffsetdError):
    """The client was closed before the call, or during the wait for its answer."""

    def _own_outcome_unknown(self) -> bool:
        return self.code == "CANCELLED"


def closed_before() -> ClientClosed:
    """The error of a call that was not made."""
    return ClientClosed(Failure(code="FAILED_PRECONDITION", message="the client is closed"))


def closed_while_waiting() -> ClientClosed:
    """The error of a call that was sent. The server may have answered it."""
    message = "the client was closed while an answer was awaited"
    return ClientClosed(Failure(code="CANCELLED", message=message))


def closed_before_sent() -> ClientClosed:
    """The error of a commit that was handed in and never sent."""
    message = "the client is closed: this commit was not sent"
    return ClientClosed(Failure(code="FAILED_PRECONDITION", message=message))


class CommitsUnanswered(OffsetdError):
    """The server has not answered some commits that were handed in: they may not be stored.

    `count` is their number, and `groups` names their groups. The future of each commit has its own
    error.
    """

    @property
    def count(self) -> int:
        return int(self.details["count"])

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(json.loads(self.details["groups"]))

    def _own_outcome_unknown(self) -> bool:
        return True


def commits_unanswered(group_ids: Iterable[str]) -> CommitsUnanswered:
    """The error of `flush` and `close`; `group_ids` has the group of each commit."""
    each = list(group_ids)
    groups = sorted(set(each))
    named = ", ".join(groups[:_GROUPS_NAMED_MAX])
    more = len(groups) - _GROUPS_NAMED_MAX
    commits = f"{len(each)} commit{'' if len(each) == 1 else 's'}"
    message = (
        f"{commits} had no answer and may not be stored, of group{'' if len(groups) == 1 else 's'}"
        f" {named}{f' and {more} more' if more > 0 else ''}"
    )
    details = {"count": str(len(each)), "groups": json.dumps(groups)}
    return CommitsUnanswered(Failure(code="DEADLINE_EXCEEDED", message=message, details=details))


class ForkedClient(ClientClosed):
    """This process is a fork of the process that made the client. Make a new client in it."""


def forked(made_by: int) -> ForkedClient:
    """The error of a call in a forked child."""
    message = f"this client is that of process {made_by}: a child has to make its own"
    return ForkedClient(Failure(code="FAILED_PRECONDITION", message=message))


class InsecureToken(OffsetdError):
    """The client does not send a token if others could read it."""


def insecure_token(address: str) -> InsecureToken:
    """The error of a client with a token and without TLS."""
    message = f"a token is not sent to {address} without TLS, unless token_without_tls is set"
    return InsecureToken(Failure(code="FAILED_PRECONDITION", message=message))


class TokenUnavailable(OffsetdError):
    """The function for tokens raised the exception in `__cause__`. The call was not made."""

    @property
    def retriable(self) -> bool:
        return True


def no_token(cause: Exception) -> TokenUnavailable:
    """The error of a call whose token function failed."""
    message = f"the function for tokens raised {cause!r}"
    return TokenUnavailable(Failure(code="UNAVAILABLE", message=message))


class AuthenticationFailed(OffsetdError):
    """The call has no identity that the server accepts; nothing happened."""


class AuthorizationFailed(OffsetdError):
    """The caller lacks a right, which `details` names; nothing happened."""


class InvalidRequest(OffsetdError):
    """The request breaks a rule; nothing happened. `field_violations` has the details."""

    @property
    def field_violations(self) -> tuple[FieldViolation, ...]:
        return self.failure.field_violations


class GroupNotFound(OffsetdError):
    """The call needs an existing group, and this group does not exist."""


class GroupRefused(OffsetdError):
    """The state of the group forbids the call; nothing happened."""


class GroupNotEmpty(GroupRefused):
    """The group has members."""


class LeaseRefusal(GroupRefused):
    """The group's lease forbids the call. The properties describe the lease when it was refused."""

    @property
    def holder(self) -> str:
        """The holder of the lease; empty if the lease has no holder."""
        return self.details.get("holder", "")

    @property
    def holder_epoch(self) -> int | None:
        """The newest epoch of the lease."""
        text = self.details.get("holder_epoch", "")
        return int(text) if text.isdecimal() else None

    @property
    def expire_time(self) -> datetime | None:
        """The time at which the lease ends or ended, by the server's wall clock."""
        try:
            return datetime.fromisoformat(self.details.get("expire_time", ""))
        except ValueError:
            return None


class EpochFenced(LeaseRefusal):
    """The lease was acquired again since, or it was released; nothing was changed."""


class LeaseHeld(LeaseRefusal):
    """The group has a lease, and only its holder may make this call."""


class UnknownMember(GroupRefused):
    """The group does not have this member, or only members may commit to it: join again."""


class FencedInstance(GroupRefused):
    """Another member has taken over the instance id: this member must not rejoin."""


class IllegalGeneration(GroupRefused):
    """The group has moved on to another generation: join again."""


class MemberIdRequired(GroupRefused):
    """The group requires a member id: join again with `member_id`."""

    @property
    def member_id(self) -> str:
        return self.failure.details["member_id"]


class InconsistentProtocol(GroupRefused):
    """The group uses another protocol type, or its members share none of the offered protocols."""


class RebalanceInProgress(OffsetdError):
    """The group is rebalancing: join again. A heartbeat that raises this still counts."""


class GroupSubscribedToTopic(GroupRefused):
    """Members of the group still consume the topic."""


class PolicyViolation(OffsetdError):
    """The topic's `cleanup.policy`, or a setting, does not allow the call; nothing happened."""


class GroupExists(GroupRefused):
    """The group that the call would create already exists."""


class PartitionsRefused(OffsetdError):
    """The call cannot be applied to some of the partitions; nothing happened.

    `partitions` describes the partitions that were refused, as many as fit into an answer. Each
    entry has `topic` and `partition`; `offset`, `earliest` and `latest` if the server sent them.
    """

    @property
    def partitions(self) -> tuple[Mapping[str, object], ...]:
        return listed(self.details, "partitions")


class OffsetBoundsUnknown(PartitionsRefused):
    """The server does not know the earliest or the latest offset of a partition."""


class OffsetNotCommitted(PartitionsRefused):
    """A partition has no committed offset to start from."""


class OffsetOutOfRange(PartitionsRefused):
    """The offset does not exist in the partition, or in the log."""


class InvalidImport(InvalidRequest):
    """Some lines of the file are not valid offsets; nothing happened.

    `lines` describes the invalid lines, as many as fit into an answer. Each entry has `line`, the
    number of the line, and `problem`.
    """

    @property
    def lines(self) -> tuple[Mapping[str, object], ...]:
        return listed(self.details, "lines")


class HistoryCompacted(OffsetdError):
    """The log cleaner may have removed a part of the requested history.

    The properties say where the complete history starts.
    """

    @property
    def oldest_revision(self) -> int | None:
        """The log offset at which the complete history of the log partition starts."""
        text = self.details.get("oldest_revision", "")
        return int(text) if text.isdecimal() else None

    @property
    def oldest_token(self) -> str | None:
        """The oldest token at which a watcher can begin without missing changes."""
        return self.details.get("oldest_token") or None


_CONFLICTS_TOLD_MAX = 3


class CommitConflict(OffsetdError):
    """The condition of a commit does not hold; nothing was stored.

    `conflicts` says which offsets are stored, for as many partitions as fit into an answer.
    `details["conflict_count"]` counts all conflicts. The text names the first of them.
    """

    def __str__(self) -> str:
        told = [*map(str, self.conflicts[:_CONFLICTS_TOLD_MAX])]
        if len(self.conflicts) > len(told):
            told.append("…")
        return "; ".join([self.failure.message, *told])

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        return self.failure.conflicts


class OffsetConflict(CommitConflict):
    """The stored offset is not the one that the commit expected."""


class OffsetNotMonotonic(CommitConflict):
    """The stored offset is larger than that of a monotonic commit."""


class Unavailable(OffsetdError):
    """The server cannot answer now, or is not reachable."""

    @property
    def retriable(self) -> bool:
        return True

    def _own_outcome_unknown(self) -> bool:
        return self.reason in {"", "STORAGE_FAILED"}


class NotCoordinator(Unavailable):
    """Another server owns the group."""

    @property
    def address(self) -> str:
        """The address of the owner; empty if it is not known."""
        return self.details.get("address", "")


class UnstableOffsets(Unavailable):
    """A transaction has pending offsets for the requested partitions."""


class OverLimit(OffsetdError):
    """The call exceeds a limit of the server, or its disk is full; nothing happened.

    The server says when to retry if the condition may pass. A request that is too large has no such
    time, and the error is not retriable.
    """

    @property
    def retriable(self) -> bool:
        return self.failure.retry_after_s is not None


class OffsetsDamaged(OffsetdError):
    """The requested data is damaged on the server's disk: an operator must act."""


class DeadlineExceeded(OffsetdError):
    """No answer arrived in time."""

    def _own_outcome_unknown(self) -> bool:
        return self.reason != "DEADLINE_SPENT"


class ServerDefect(OffsetdError):
    """The server failed in a way that the contract does not define."""

    def _own_outcome_unknown(self) -> bool:
        return True


class ClientDefect(OffsetdError):
    """The client itself failed unexpectedly: `__cause__` is the exception."""

    def _own_outcome_unknown(self) -> bool:
        return True


def unforeseen(cause: Exception) -> ClientDefect:
    """The error of a call that ended with an exception other than OffsetdError."""
    error = ClientDefect(Failure(code="INTERNAL", message=f"the client failed: {cause!r}"))
    error.__cause__ = cause
    return error


BY_REASON: Mapping[str, type[OffsetdError]] = {
    "GROUP_ID_NOT_FOUND": GroupNotFound,
    "NON_EMPTY_GROUP": GroupNotEmpty,
    "UNKNOWN_MEMBER_ID": UnknownMember,
    "EPOCH_FENCED": EpochFenced,
    "LEASE_HELD": LeaseHeld,
    "GROUP_SUBSCRIBED_TO_TOPIC": GroupSubscribedToTopic,
    "FENCED_INSTANCE_ID": FencedInstance,
    "ILLEGAL_GENERATION": IllegalGeneration,
    "MEMBER_ID_REQUIRED": MemberIdRequired,
    "INCONSISTENT_GROUP_PROTOCOL": InconsistentProtocol,
    "REBALANCE_IN_PROGRESS": RebalanceInProgress,
    "GROUP_EXISTS": GroupExists,
    "OFFSET_BOUNDS_UNKNOWN": OffsetBoundsUnknown,
    "OFFSET_NOT_COMMITTED": OffsetNotCommitted,
    "INVALID_IMPORT": InvalidImport,
    "COMPACTED": HistoryCompacted,
    "POLICY_VIOLATION": PolicyViolation,
    "OFFSET_CONFLICT": OffsetConflict,
    "OFFSET_NOT_MONOTONIC": OffsetNotMonotonic,
    "UNSTABLE_OFFSET_COMMIT": UnstableOffsets,
    "NOT_COORDINATOR": NotCoordinator,
}
# The classes for reasons without their own class, and for reasons newer than this client.
BY_CODE: Mapping[str, type[OffsetdError]] = {
    "INVALID_ARGUMENT": InvalidRequest,
    "NOT_FOUND": GroupNotFound,
    "FAILED_PRECONDITION": GroupRefused,
    "ABORTED": CommitConflict,
    "UNAVAILABLE": Unavailable,
    "RESOURCE_EXHAUSTED": OverLimit,
    "DATA_LOSS": OffsetsDamaged,
    "UNAUTHENTICATED": AuthenticationFailed,
    "PERMISSION_DENIED": AuthorizationFailed,
    "OUT_OF_RANGE": OffsetOutOfRange,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
}


def error_of(failure: Failure) -> OffsetdError:
    """The typed error for a failed call."""
    error_class = BY_REASON.get(failure.reason) or BY_CODE.get(failure.code, ServerDefect)
    return error_class(failure)


def another(error: OffsetdError) -> OffsetdError:
    """A copy of the error for another call, without the notes about earlier attempts."""
    made = type(error)(error.failure)
    made.__cause__ = error.__cause__
    return made


def listed(details: Mapping[str, str], name: str) -> tuple[Mapping[str, object], ...]:
    """The JSON list of objects under `name` in the details; empty if it is not such a list."""
    try:
        entries = json.loads(details.get(name, "[]"))
    except ValueError:
        return ()
    if not isinstance(entries, list):
        return ()
    return tuple(entry for entry in entries if isinstance(entry, dict))
