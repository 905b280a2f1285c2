"""What asking a consumer for items can end with, beside the errors of its calls and its source."""

from offsetd_clients.errors import Failure, OffsetdError
from offsetd_clients.values import TopicPartition


class ConsumerFenced(OffsetdError):
    """The group has gone on without this consumer: what it had is others' now.

    Nothing more was committed; items since the last commit are given out again, to whoever has
    `partitions` now. `reason` says how it was fenced, as the refused call did, which is the
    `__cause__`. Asked again for items, the consumer joins anew, unless an instance id of its own is
    another's now (`FENCED_INSTANCE_ID`).
    """

    def __init__(self, failure: Failure, partitions: tuple[TopicPartition, ...] = ()) -> None:
        super().__init__(failure)
        self.partitions = partitions


class PollIntervalExceeded(ConsumerFenced):
    """It was not asked for items for `poll_interval_s_max`, and so left the group."""


class NotAssigned(LookupError):
    """The consumer does not have this partition, now."""


class StartUnknown(LookupError):
    """Nothing is committed for a partition, and `start` does not say where to begin it."""


class SourceBroken(RuntimeError):
    """The source gave what no source may give."""


def fenced_by(error: OffsetdError, partitions: tuple[TopicPartition, ...]) -> ConsumerFenced:
    """For a call that was refused as one fenced."""
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
    """For what was to be committed when the consumer was nobody in its group any more."""
    message = "the group had gone on without this consumer before it committed"
    return ConsumerFenced(
        Failure(code="FAILED_PRECONDITION", message=message, reason="UNKNOWN_MEMBER_ID")
    )


def not_asked_for(seconds: float, partitions: tuple[TopicPartition, ...]) -> PollIntervalExceeded:
    """For a consumer that left, as it was not asked for items."""
    message = f"no item was asked for in {seconds:g} s, so the consumer left its group"
    failure = Failure(code="FAILED_PRECONDITION", message=message, reason="POLL_INTERVAL_EXCEEDED")
    return PollIntervalExceeded(failure, partitions)
