# Made from aio/groups.py by .ci/sync_from_aio: change that, then run `make sync`.
"""The calls that list, describe and delete groups."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from offsetd_clients.calling.group_owners import SeveralOwners
from offsetd_clients.cluster_parts import Part, further_parts, parts_of, token_of
from offsetd_clients.messages import conversions
from offsetd_clients.messages.conversions import building
from offsetd_clients.messages.lag_messages import lags_of
from offsetd_clients.messages.offset_messages import stored_offsets
from offsetd_clients.sync.servers import Calls, new_id
from offsetd_clients.values import (
    Coordinator,
    DeletedGroup,
    Group,
    GroupListing,
    GroupListPage,
    GroupOffsetsPage,
    GroupState,
    GroupType,
    LagVerdict,
    PartitionLag,
    TopicPartition,
)

LAGS_PER_PAGE = 10_000


class GroupCalls(Calls):
    """The calls of a client for groups as a whole."""

    def delete_group(
        self,
        group_id: str,
        *,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> DeletedGroup:
        """Deletes an empty group with its offsets. Raises `GroupNotFound` and `GroupNotEmpty`."""
        request = conversions.delete_group_request(
            group_id,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return conversions.deleted_group(self._call("DeleteGroup", request))

    def list_groups(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        lag_verdicts: Iterable[LagVerdict] = (),
        group_id_prefix: str = "",
        topics: Iterable[str] = (),
        lease_holder: str = "",
        include_details: bool = False,
        page_size: int = 0,
        include_lag_verdicts: bool = False,
        on_unreachable: Callable[[Sequence[int]], object] | None = None,
    ) -> Iterator[GroupListing]:
        """Yields groups in the order of the log. An empty filter leaves out nothing.

        `lag_verdicts` are those of groups: OK, WARN and ERR; raises PolicyViolation if the server
        gives none (`lag.window.ms=0`). With `include_lag_verdicts`, and with `lag_verdicts`, each
        group comes with its verdict.

        `topics`: only groups with an offset of one of these. `lease_holder`: only groups whose
        lease this holder has. With `include_details`, each listing has its `details`.

        In a cluster, it yields the groups of one node after the other. Log partitions that move
        meanwhile are listed once.

        Groups in damaged log partitions are left out. If there are such partitions,
        `on_unreachable` is called with their numbers after all other groups were listed.

        The list is not a snapshot: a group that is created or deleted during the call may be in it
        or not.
        """
        request = conversions.list_groups_request(
            states=states,
            types=types,
            lag_verdicts=lag_verdicts,
            group_id_prefix=group_id_prefix,
            topics=conversions.several("topics", topics),
            lease_holder=lease_holder,
            include_details=include_details,
            page_size=page_size,
            include_lag_verdicts=include_lag_verdicts,
        )
        parts, unreachable = [Part()], set[int]()
        while parts:
            response = self._listed_part(request, parts)
            for listing in conversions.listed_groups(response):
                yield listing
            unreachable.update(response.unreachable_log_partitions)
        if on_unreachable is not None and unreachable:
            on_unreachable(tuple(sorted(unreachable)))

    def list_groups_page(
        self,
        *,
        states: Iterable[GroupState] = (),
        types: Iterable[GroupType] = (),
        lag_verdicts: Iterable[LagVerdict] = (),
        group_id_prefix: str = "",
        topics: Iterable[str] = (),
        lease_holder: str = "",
        include_details: bool = False,
        page_size: int = 0,
        page_token: str = "",
        include_lag_verdicts: bool = False,
    ) -> GroupListPage:
        """One page of `list_groups`, for callers that show pages.

        `page_token` is from the page before; the other arguments must be the same as then. Raises
        ValueError for a token that is not of this client.
        """
        parts = parts_of(page_token)
        request = conversions.list_groups_request(
            states=states,
            types=types,
            lag_verdicts=lag_verdicts,
            group_id_prefix=group_id_prefix,
            topics=conversions.several("topics", topics),
            lease_holder=lease_holder,
            include_details=include_details,
            page_size=page_size,
            include_lag_verdicts=include_lag_verdicts,
        )
        response = self._listed_part(request, parts)
        return GroupListPage(
            groups=tuple(conversions.listed_groups(response)),
            next_page_token=token_of(parts),
            unreachable_log_partitions=tuple(response.unreachable_log_partitions),
        )

    def _listed_part(self, request: Any, parts: list[Part]) -> Any:
        """The answer about the first of `parts`, which is replaced by what remains of it."""
        while True:
            part = parts.pop(0)
            request.page_token = part.page_token
            request.log_partitions[:] = part.log_partitions
            try:
                response = self._call("ListGroups", request)
            except SeveralOwners:
                parts[:0] = part.split()
                continue
            self._servers.note_owners(response.cluster)
            parts[:0] = further_parts(response)
            return response

    def get_group_page(
        self, group_id: str, *, page_size: int = 0, page_token: str = ""
    ) -> GroupOffsetsPage:
        """A group with a page of its offsets and their lags, in one call. Raises `GroupNotFound`.

        `page_token` is from the page before.
        """
        request = conversions.get_group_request(group_id)
        request.include_offsets = request.include_lags = True
        with building("get a group"):
            request.page_size, request.page_token = page_size, page_token
        response = self._call("GetGroup", request)
        return GroupOffsetsPage(
            group=conversions.group_of(response.group),
            offsets=stored_offsets(response),
            lags=lags_of(response),
            next_page_token=response.next_page_token,
        )

    def get_group(self, group_id: str) -> Group:
        """One group with all details. Raises `GroupNotFound`."""
        request = conversions.get_group_request(group_id)
        return conversions.group_of((self._call("GetGroup", request)).group)

    def get_group_lags(self, group_id: str) -> dict[TopicPartition, PartitionLag]:
        """The lag of a group in each partition whose end its commits have reported.

        The ends are as of these commits, and are forgotten when the server stops. Raises
        `GroupNotFound`.
        """
        request = conversions.get_group_request(group_id)
        request.include_lags, request.page_size = True, LAGS_PER_PAGE
        lags: dict[TopicPartition, PartitionLag] = {}
        while True:
            response = self._call("GetGroup", request)
            lags |= lags_of(response)
            if not response.next_page_token:
                return lags
            request.page_token = response.next_page_token

    def find_coordinator(self, group_id: str) -> Coordinator:
        """The server that owns a group. Other calls find the owner themselves."""
        request = conversions.find_coordinator_request(group_id)
        return conversions.coordinator_of(self._call("FindCoordinator", request))
