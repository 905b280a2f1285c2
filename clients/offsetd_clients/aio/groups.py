"""Groups: listed, looked at, deleted."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from offsetd_clients import messages
from offsetd_clients.aio.calls import Calls, new_id
from offsetd_clients.values import (
    Coordinator,
    DeletedGroup,
    Group,
    GroupListing,
    GroupState,
    GroupType,
)


class GroupCalls(Calls):
    """The part of a client that looks at groups."""

    async def delete_group(
        self,
        group_id: str,
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> DeletedGroup:
        """Deletes an empty group with its offsets; raises `GroupNotFound`, `GroupNotEmpty`."""
        request = messages.delete_group_request(
            group_id,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return messages.deleted_group(await self._call("DeleteGroup", request))

    async def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        group_id_prefix: str = "",
        page_size: int = 0,
        on_unreachable: Callable[[Sequence[int]], object] | None = None,
    ) -> AsyncIterator[GroupListing]:
        """Yields groups in the log's order, page after page; no states, no types: any.

        The groups of damaged log partitions are left out; `on_unreachable` is called with the
        numbers of these, if there are any, once all others have been listed.

        Not a snapshot: groups that come and go meanwhile may be in it or not.
        """
        states, types = messages.several("states", states), messages.several("types", types)
        page_token = ""
        while True:
            request = messages.list_groups_request(
                states=states,
                types=types,
                group_id_prefix=group_id_prefix,
                page_size=page_size,
                page_token=page_token,
            )
            response = await self._call("ListGroups", request)
            for listing in messages.listed_groups(response):
                yield listing
            page_token = response.next_page_token
            if not page_token:
                if on_unreachable is not None and response.unreachable_log_partitions:
                    on_unreachable(tuple(response.unreachable_log_partitions))
                return

    async def get_group(self, group_id: str) -> Group:
        """One group in full; raises `GroupNotFound`."""
        request = messages.get_group_request(group_id)
        return messages.group_of((await self._call("GetGroup", request)).group)

    async def find_coordinator(self, group_id: str) -> Coordinator:
        """Which server owns a group. Calls find that out by themselves."""
        request = messages.find_coordinator_request(group_id)
        return messages.coordinator_of(await self._call("FindCoordinator", request))
