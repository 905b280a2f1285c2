"""The errors that members get from a group. Each is Kafka's error of the same name."""

from __future__ import annotations

from offsetd_coordinator.errors import CoordinatorError, InvalidField, UnknownMemberId


class InvalidSessionTimeout(InvalidField):
    """A session timeout outside of the server's limits."""

    reason = "INVALID_SESSION_TIMEOUT"


class InvalidMemberId(InvalidField):
    """A member id that is too long."""

    reason = "INVALID_MEMBER_ID"


class InvalidInstanceId(InvalidField):
    """An instance id that is empty, too long, or has characters that a topic may not have."""

    reason = "INVALID_INSTANCE_ID"


class InvalidProtocol(InvalidField):
    """No protocol type, no protocols, a protocol named twice, or a name that is too long."""

    reason = "INVALID_PROTOCOL"


class IllegalGeneration(CoordinatorError):
    """The generation is not the group's."""

    reason = "ILLEGAL_GENERATION"


class FencedInstanceId(CoordinatorError):
    """Another member has the instance id now."""

    reason = "FENCED_INSTANCE_ID"


class MemberIdRequired(CoordinatorError):
    """The member must join again, with the id in the variable `member_id`."""

    reason = "MEMBER_ID_REQUIRED"


class InconsistentGroupProtocol(CoordinatorError):
    """The group cannot use the protocol type, or cannot use any of the protocols."""

    reason = "INCONSISTENT_GROUP_PROTOCOL"


class GroupMaxSizeReached(CoordinatorError):
    """The group has `group.max.size` members."""

    reason = "GROUP_MAX_SIZE_REACHED"


class RebalanceInProgress(CoordinatorError):
    """The group rebalances: the member must join again."""

    reason = "REBALANCE_IN_PROGRESS"


class GroupRecordTooLarge(CoordinatorError):
    """The group's record would exceed `max.message.bytes`: nothing was written."""

    reason = "GROUP_RECORD_TOO_LARGE"


def unknown_member(group_id: bytes, member_id: str) -> UnknownMemberId:
    """The error for a member id that no member of the group has."""
    return UnknownMemberId(
        "group {group!r} has no member {member_id!r}", group=group_id, member_id=member_id
    )


def commits_from_outside(group_id: bytes) -> UnknownMemberId:
    """The error for a commit that does not name a member, to a group that has members."""
    return UnknownMemberId("group {group!r} has members: only they may commit", group=group_id)


def fenced_instance(group_id: bytes, instance_id: str | None, member_id: str) -> FencedInstanceId:
    """The error for a member id that no longer owns the instance id."""
    return FencedInstanceId(
        "instance id {instance_id!r} of group {group!r} belongs to a newer member",
        group=group_id,
        instance_id=instance_id,
        member_id=member_id,
    )
