"""Refusals of callers: their identity is not known, or they lack a right."""

from __future__ import annotations

from typing import Final

from offsetd_coordinator.errors import CoordinatorError, CoordinatorNotAvailable
from offsetd_coordinator.security.acl import Operation, ResourceType


class AuthenticationFailed(CoordinatorError):
    """The call has no valid identity. The message does not tell what a guess got right."""

    reason = "AUTHENTICATION_FAILED"


class IdentityEnded(CoordinatorNotAvailable):
    """A stream's token has expired or was revoked. Clients open the stream again, with a new one.

    Without a new token, that is refused with AuthenticationFailed.
    """


class AuthorizationFailed(CoordinatorError):
    """The caller lacks a right. Base class; the subclasses have Kafka's names."""


class GroupAuthorizationFailed(AuthorizationFailed):
    """The caller may not do this with the group, whether it exists or not."""

    reason = "GROUP_AUTHORIZATION_FAILED"


class TopicAuthorizationFailed(AuthorizationFailed):
    """The caller may not do this with the topic."""

    reason = "TOPIC_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailed(AuthorizationFailed):
    """The caller may not do this with the server."""

    reason = "CLUSTER_AUTHORIZATION_FAILED"


_ERRORS: Final = {
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
}


def lacks_right(
    principal: str, operation: Operation, resource_type: ResourceType, name: str
) -> AuthorizationFailed:
    """The refusal for a caller without a right. It says the same for names that do not exist."""
    return _ERRORS[resource_type](
        "{principal} has no right to {operation} {resource_type} {name}",
        principal=principal,
        operation=operation.value,
        resource_type=resource_type.value,
        name=name,
    )
