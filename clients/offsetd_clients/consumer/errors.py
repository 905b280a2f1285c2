"""The errors of requests for a consumer's items, without those of its calls and its source."""

from offsetd_clients.errors import Failure, OffsetdError
from offsetd_clients.values import TopicPartition


class ConsumerFenced(OffsetdError):
    """The group has continued without this consumer: other members may have its partitions.

    Nothing more was committed. The items since the last commit are handed out again, to the members
    that have `partitions` now. `reason` is the reason of the refused call, which is the
    `__cause__`. The next request for items joins the group again, unless another member has taken
    over the instance id (`FENCED_INSTANCE_ID`).
    """

    def __init__(self, failure: Failure, partitions: tuple[TopicPartition, ...] = ()) -> None:
        super().__init__(failure)
        self.partitions = partitions


class PollIntervalExceeded(ConsumerFenced):
    """No item was requested within `poll_interval_s_max`, so the consumer left its group."""


class NotAssigned(LookupError):
    """The consumer does not have this partition now."""


class StartUnknown(LookupError):
    """A partition has no committed offset, and `start` gives no offset for it."""


class SourceBroken(RuntimeError):
    """The source broke its contract."""


def fenced_by(error: OffsetdError, partitions: tuple[TopicPartition, ...]) -> ConsumerFenced:
    """The error after a call was refused because the caller is fenced."""
    message = f"fenced, without {len(partitions)} partitions that it had: {error.failure.message}"
    failure = Failure(
        code=error.failure.code,
        message=message,
        reason=error.reason,
        details=error.details,
    )
    fenced = ConsumerFenced(failure, partitions)
    fenced.__cause__ = error
    return fenced


def fenced_before() -> ConsumerFenced:
    """The error of a commit by a consumer that had already lost its place in the group."""
    message = "the group had gone on without this consumer before it committed"
    return ConsumerFenced(
        Failure(code="FAILED_PRECONDITION", message=message, reason="UNKNOWN_MEMBER_ID")
    )


def not_asked_for(seconds: float, partitions: tuple[TopicPartition, ...]) -> PollIntervalExceeded:
    """The error of a consumer that left its group because no item was requested."""
    message = f"no item was asked for in {seconds:g} s, so the consumer left its group"
    failure = Failure(code="FAILED_PRECONDITION", message=message, reason="POLL_INTERVAL_EXCEEDED")
    return PollIntervalExceeded(failure, partitions)
