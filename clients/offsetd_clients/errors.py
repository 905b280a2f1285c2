"""What a call can fail with. Errors know whether trying again can help."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

import attrs

from offsetd_clients.values import TopicPartition

_GROUPS_NAMED_MAX = 3


@attrs.frozen(kw_only=True)
class FieldViolation:
    """A field of the request, by its path (`offsets[2].partition`), and what is wrong with it."""

    field: str
    description: str


@attrs.frozen(kw_only=True)
class Conflict:
    """A stored offset that stood in a commit's way; both None: nothing is stored."""

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

    `code` is the gRPC code's name; `reason` one of the contract's `ErrorReason`, without its
    prefix, and empty if the answer did not come from offsetd (a lost connection, say).
    `details` holds every variable of the message; `retry_after_s` is the server's advice.
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
        # Set by who tries again: whether a try before this one may have been applied.
        self.earlier_outcome_unknown = False

    def __reduce__(self) -> tuple[object, ...]:
        """For processes that hand it on: its arguments are not those of other exceptions."""
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
        """Whether the same call may succeed if it is made again."""
        return False

    @property
    def outcome_unknown(self) -> bool:
        """Whether a write may have happened all the same, by this try or one before it."""
        return self.earlier_outcome_unknown or self._own_outcome_unknown()

    def _own_outcome_unknown(self) -> bool:
        return False


class ClientClosed(OffsetdError):
    """The client was closed: before the call, or while an answer was awaited."""

    def _own_outcome_unknown(self) -> bool:
        return self.code == "CANCELLED"


def closed_before() -> ClientClosed:
    """The error of a call that was not made."""
    return ClientClosed(Failure(code="FAILED_PRECONDITION", message="the client is closed"))


def closed_while_waiting() -> ClientClosed:
    """The error of a call that may have been answered."""
    message = "the client was closed while an answer was awaited"
    return ClientClosed(Failure(code="CANCELLED", message=message))


def closed_before_sent() -> ClientClosed:
    """The error of a commit that was handed in and never sent."""
    message = "the client is closed: this commit was not sent"
    return ClientClosed(Failure(code="FAILED_PRECONDITION", message=message))


class CommitsUnanswered(OffsetdError):
    """Commits that were handed in have no answer of the server: they may not be stored.

    `count` says how many, and `groups` of which groups. The future of each says more.
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
    """The client was made by another process, of which this one is a child: make one here."""


def forked(made_by: int) -> ForkedClient:
    """The error of a call in a child."""
    message = f"this client is that of process {made_by}: a child has to make its own"
    return ForkedClient(Failure(code="FAILED_PRECONDITION", message=message))


class InsecureToken(OffsetdError):
    """A token is not sent where others could read it."""


def insecure_token(address: str) -> InsecureToken:
    """The error of a client with a token and without TLS."""
    message = f"a token is not sent to {address} without TLS, unless token_without_tls is set"
    return InsecureToken(Failure(code="FAILED_PRECONDITION", message=message))


class TokenUnavailable(OffsetdError):
    """The function for tokens raised, as `__cause__` says; the call was not made."""

    @property
    def retriable(self) -> bool:
        return True


def no_token(cause: Exception) -> TokenUnavailable:
    """The error of a call without the token that it was to have."""
    message = f"the function for tokens raised {cause!r}"
    return TokenUnavailable(Failure(code="UNAVAILABLE", message=message))


class InvalidRequest(OffsetdError):
    """The request breaks a rule; nothing happened, and `field_violations` says which rule."""

    @property
    def field_violations(self) -> tuple[FieldViolation, ...]:
        return self.failure.field_violations


class GroupNotFound(OffsetdError):
    """There is no such group, where there has to be one."""


class GroupRefused(OffsetdError):
    """The group's state forbids it; nothing happened."""


class GroupNotEmpty(GroupRefused):
    """The group has members."""


class LeaseRefusal(GroupRefused):
    """The group's lease stands in the way; who holds it, as of the answer."""

    @property
    def holder(self) -> str:
        """Empty if nobody does."""
        return self.details.get("holder", "")

    @property
    def holder_epoch(self) -> int | None:
        """The newest epoch."""
        text = self.details.get("holder_epoch", "")
        return int(text) if text.isdecimal() else None

    @property
    def expire_time(self) -> datetime | None:
        """When the lease ends, or ended, by the server's wall clock."""
        try:
            return datetime.fromisoformat(self.details.get("expire_time", ""))
        except ValueError:
            return None


class EpochFenced(LeaseRefusal):
    """Somebody else has acquired the lease since, or it was released: nothing was changed."""


class LeaseHeld(LeaseRefusal):
    """Somebody holds the lease, and only they may do this."""


class UnknownMember(GroupRefused):
    """The group does not have this member, or only members may commit to it: join again."""


class FencedInstance(GroupRefused):
    """Another member has taken the instance id over: this one is not to come back."""


class IllegalGeneration(GroupRefused):
    """The group has gone on to another generation: join again."""


class MemberIdRequired(GroupRefused):
    """Join again, with `member_id`."""

    @property
    def member_id(self) -> str:
        return self.failure.details["member_id"]


class InconsistentProtocol(GroupRefused):
    """The members of the group have another protocol type, or none of the protocols."""


class RebalanceInProgress(OffsetdError):
    """The group rebalances: join again. A heartbeat that is answered so has counted."""


class GroupSubscribedToTopic(GroupRefused):
    """Members of the group still consume the topic."""


class PolicyViolation(OffsetdError):
    """The topic's `cleanup.policy` does not allow it; nothing happened."""


class GroupExists(GroupRefused):
    """The group to be made exists."""


class PartitionsRefused(OffsetdError):
    """Some of the partitions do not allow what is asked for all; nothing happened.

    `partitions` has, as far as they fit into an answer, what is known of each, by name: `topic`
    and `partition`, and `offset`, `earliest` and `latest` where they matter.
    """

    @property
    def partitions(self) -> tuple[Mapping[str, object], ...]:
        return listed(self.details, "partitions")


class OffsetBoundsUnknown(PartitionsRefused):
    """Nobody has said what the earliest or the latest offset is."""


class OffsetNotCommitted(PartitionsRefused):
    """There is no offset to start from."""


class OffsetOutOfRange(PartitionsRefused):
    """The partition, or the log, has not that offset."""


class InvalidImport(InvalidRequest):
    """Lines of the file are no offsets; nothing happened.

    `lines` has `line`, its number, and `problem`, as far as they fit into an answer.
    """

    @property
    def lines(self) -> tuple[Mapping[str, object], ...]:
        return listed(self.details, "lines")


class HistoryCompacted(OffsetdError):
    """What is asked for may have been cleaned away; what is not: see the properties."""

    @property
    def oldest_revision(self) -> int | None:
        """From this log offset on all is there, of the log partition that is in question."""
        text = self.details.get("oldest_revision", "")
        return int(text) if text.isdecimal() else None

    @property
    def oldest_token(self) -> str | None:
        """Where a watcher may begin, and miss nothing from there on."""
        return self.details.get("oldest_token") or None


_CONFLICTS_TOLD_MAX = 3


class CommitConflict(OffsetdError):
    """A commit's condition does not hold; nothing was stored.

    `conflicts` has what is stored, for as many partitions as fit into an answer, of all
    `details["conflict_count"]`. The text names the first of them.
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
    """The stored offset is not what the commit expected."""


class OffsetNotMonotonic(CommitConflict):
    """The stored offset is larger, and the commit was to be monotonic."""


class Unavailable(OffsetdError):
    """The server cannot answer now, or cannot be reached."""

    @property
    def retriable(self) -> bool:
        return True

    def _own_outcome_unknown(self) -> bool:
        return self.reason in {"", "STORAGE_FAILED"}


class NotCoordinator(Unavailable):
    """Another server owns the group."""

    @property
    def address(self) -> str:
        """Where that is; empty if nobody knows."""
        return self.details.get("address", "")


class UnstableOffsets(Unavailable):
    """A transaction has offsets pending for what was asked."""


class OverLimit(OffsetdError):
    """A limit of the server's, or its disk, is full; nothing happened.

    What may pass, the server says when to try again; a request that is too large stays so.
    """

    @property
    def retriable(self) -> bool:
        return self.failure.retry_after_s is not None


class OffsetsDamaged(OffsetdError):
    """What was asked for is damaged on the server's disk: an operator has to look."""


class DeadlineExceeded(OffsetdError):
    """No answer in time."""

    def _own_outcome_unknown(self) -> bool:
        return self.reason != "DEADLINE_SPENT"


class ServerDefect(OffsetdError):
    """The server failed in a way the contract does not know."""

    def _own_outcome_unknown(self) -> bool:
        return True


class ClientDefect(OffsetdError):
    """This client failed in a way that it does not know: `__cause__` says how."""

    def _own_outcome_unknown(self) -> bool:
        return True


def unforeseen(cause: Exception) -> ClientDefect:
    """The error of a call that something else than an OffsetdError has ended."""
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
# For reasons that need no class of their own, those newer than this client among them.
BY_CODE: Mapping[str, type[OffsetdError]] = {
    "INVALID_ARGUMENT": InvalidRequest,
    "NOT_FOUND": GroupNotFound,
    "FAILED_PRECONDITION": GroupRefused,
    "ABORTED": CommitConflict,
    "UNAVAILABLE": Unavailable,
    "RESOURCE_EXHAUSTED": OverLimit,
    "DATA_LOSS": OffsetsDamaged,
    "OUT_OF_RANGE": OffsetOutOfRange,
    "DEADLINE_EXCEEDED": DeadlineExceeded,
}


def error_of(failure: Failure) -> OffsetdError:
    """The typed error for a failed call."""
    error_class = BY_REASON.get(failure.reason) or BY_CODE.get(failure.code, ServerDefect)
    return error_class(failure)


def another(error: OffsetdError) -> OffsetdError:
    """The same error for another call: what tries before may have done is each call's own."""
    made = type(error)(error.failure)
    made.__cause__ = error.__cause__
    return made


def listed(details: Mapping[str, str], name: str) -> tuple[Mapping[str, object], ...]:
    """What a refusal lists, as JSON, under a name; nothing if that is no list of objects."""
    try:
        entries = json.loads(details.get(name, "[]"))
    except ValueError:
        return ()
    if not isinstance(entries, list):
        return ()
    return tuple(entry for entry in entries if isinstance(entry, dict))
