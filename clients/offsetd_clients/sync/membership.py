# Made from aio/membership.py by .ci/sync_from_aio: change that, then run `make sync`.
"""The calls of a classic group's member. `Consumer` is built on them.

A member joins; if it is the leader, it assigns partitions (`assignors`). Then it syncs, and sends
heartbeats. If one of these calls raises `RebalanceInProgress`, `IllegalGeneration` or
`UnknownMember`, the member joins again; after `UnknownMember`, without its member id.
"""

from collections.abc import Iterable, Mapping

from offsetd_clients.calling.retry import TIMEOUT_S_MAX
from offsetd_clients.errors import MemberIdRequired, OffsetdError
from offsetd_clients.membership_values import (
    JoinedGroup,
    Membership,
    MemberToRemove,
    RemovedMembers,
)
from offsetd_clients.messages import membership_messages
from offsetd_clients.sync.servers import Calls, new_id

JOIN_TIMEOUT_S_MIN = 310.0
"""This is longer than the time for which the server lets a new member wait."""


class MembershipCalls(Calls):
    """The calls of a client that members need."""

    def join_group(
        self,
        group_id: str,
        protocols: Mapping[str, bytes],
        *,
        member_id: str = "",
        instance_id: str | None = None,
        client_id: str = "offsetd",
        protocol_type: str = "consumer",
        session_timeout_s: float = 45.0,
        rebalance_timeout_s: float = 300.0,
        reason: str = "",
        takes_member_id: bool = True,
    ) -> JoinedGroup:
        """Joins, and waits until the next generation begins: at most `rebalance_timeout_s`.

        `protocols` maps each assignor that the member knows to its metadata, the preferred one
        first. The server first gives a new member an id, and the client joins again with it. With
        `takes_member_id` False, the client raises `MemberIdRequired` instead.
        """
        request = membership_messages.join_request(
            group_id,
            protocols,
            member_id=member_id,
            instance_id=instance_id,
            client_id=client_id,
            protocol_type=protocol_type,
            session_timeout_s=session_timeout_s,
            rebalance_timeout_s=rebalance_timeout_s,
            reason=reason,
        )
        wait_s = min(max(JOIN_TIMEOUT_S_MIN, rebalance_timeout_s + 10.0), TIMEOUT_S_MAX)
        try:
            response = self._call("JoinGroup", request, wait_s=wait_s)
        except MemberIdRequired as required:
            if not takes_member_id:
                raise
            request.member_id = required.member_id
            response = self._call("JoinGroup", request, wait_s=wait_s)
        return membership_messages.joined_group(group_id, instance_id, response)

    def sync_group(
        self,
        membership: Membership,
        assignments: Mapping[str, bytes] | None = None,
        *,
        wait_s: float = 300.0,
    ) -> bytes:
        """Returns the member's assignment. The leader passes all assignments, by member id.

        It waits for the leader, at most `wait_s` seconds; use the rebalance timeout.
        """
        request = membership_messages.sync_request(membership, assignments or {})
        response = self._call("SyncGroup", request, wait_s=wait_s)
        assignment: bytes = response.assignment
        return assignment

    def heartbeat(self, membership: Membership) -> None:
        """Sends a sign of life. Raises `RebalanceInProgress` if the member has to join again."""
        self._call("Heartbeat", membership_messages.heartbeat_request(membership))

    def leave_group(
        self, group_id: str, members: Iterable[MemberToRemove], *, reason: str = ""
    ) -> dict[MemberToRemove, OffsetdError]:
        """Lets members leave, or removes them. Returns the failed ones, each with its error."""
        request = membership_messages.leave_request(group_id, members, reason=reason)
        response = self._call("LeaveGroup", request)
        return membership_messages.refused_members(response.members)

    def remove_members(
        self,
        group_id: str,
        members: Iterable[MemberToRemove] | None,
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> RemovedMembers:
        """Removes `members`, or all if None, as an operator. The audit log records it.

        The remaining members rebalance. A removed consumer that still runs joins again. Raises
        `GroupNotFound`.
        """
        request = membership_messages.remove_members_request(
            group_id,
            members,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return membership_messages.removed_members(self._call("RemoveMembers", request))
