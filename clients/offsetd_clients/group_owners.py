"""The servers that own groups, as far as servers have named them."""

from typing import Any

from offsetd_clients.errors import NotCoordinator

HOPS_MAX = 5
"""After this many redirects the client waits."""
_OWNERS_MAX = 100_000


class SeveralOwners(Exception):
    """The groups of one request belong to several servers."""


class Owners:
    """Addresses by group. The home address gets requests about a group without a known owner."""

    def __init__(self, home: str) -> None:
        self.home = home
        self._addresses: dict[str, str] = {}

    def address_of(self, group_id: str) -> str:
        """The address for requests about a group. For an empty group id, the home address."""
        return self._addresses.get(group_id, self.home)

    def learn(self, group_id: str, error: NotCoordinator, asked: str) -> bool:
        """Notes the owner that a server named. Returns whether another server can be tried now."""
        if not group_id or error.address in ("", asked):
            self.forget(group_id)
            return False
        if error.address == self.home:
            self.forget(group_id)
        else:
            self._addresses[group_id] = error.address
            if len(self._addresses) > _OWNERS_MAX:
                self._addresses.pop(next(iter(self._addresses)), None)
        return True

    def forget(self, group_id: str) -> None:
        """Forgets the owner of a group, so that the next request is sent to the home address."""
        self._addresses.pop(group_id, None)


def is_of_several(request: Any) -> bool:
    """Whether a request is for several groups."""
    return len(getattr(request, "groups", ())) > 1


def group_of(request: Any) -> str:
    """The one group that a request is for. Empty if it is for none, or for several."""
    groups = getattr(request, "groups", None)
    if groups is not None:
        return groups[0].group_id if len(groups) == 1 else ""
    group_id: str = getattr(request, "group_id", "") or getattr(request, "target_group_id", "")
    return group_id
