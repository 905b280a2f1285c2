"""Lists groups of one shard, as their records and their members describe them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.offsets_topic.group_listing import simple_group

from offsetd_coordinator.cooperative_scheduling import parts
from offsetd_coordinator.state.group_search import found_groups

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from offsetd_storage.offsets_topic.group_listing import GroupListing

    from offsetd_coordinator.membership.group_membership import Membership
    from offsetd_coordinator.membership.member_requests import Moment
    from offsetd_coordinator.state.group_search import GroupSearch
    from offsetd_coordinator.state.leases import Leases
    from offsetd_coordinator.state.replayed_state import ReplayedState


class GroupLists:
    """Lists the groups of a shard. Groups that are `misplaced` are in no list."""

    def __init__(
        self,
        state: ReplayedState,
        membership: Membership,
        leases: Leases,
        misplaced: Collection[bytes],
    ) -> None:
        self._state = state
        self._membership = membership
        self._leases = leases
        self._misplaced = misplaced

    def parts(self, search: GroupSearch, now: Moment) -> Iterator[list[GroupListing]]:
        """The groups that are looked for, unsorted, in lists that one turn may handle.

        A list is also yielded for each part of the search that finds nothing. The shard may change
        between two lists: groups that are added or removed may be listed or not.
        """
        for found in found_groups(self._state, self._leases, search, now):
            if not found:
                yield []
            for some in parts(found):
                yield [
                    self._listing(each)
                    for each in some
                    if each not in self._misplaced and search.wants(each)
                ]
        if search.topics or search.lease_holder:
            return
        for live in tuple(self._membership.live_groups()):
            if search.wants(live.group_id) and not self._state.has_group(live.group_id):
                yield [live.listing()]

    def _listing(self, group_id: bytes) -> GroupListing:
        live = self._membership.live(group_id)
        records = self._state.known_group_records(group_id)
        if records is None:
            return simple_group(group_id) if live is None else live.listing()
        listing = records.listing() if live is None else live.listing()
        return listing._replace(settings=records.settings)
