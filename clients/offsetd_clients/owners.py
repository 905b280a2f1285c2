"""Which server owns which group, as far as servers have said so."""

from typing import Any

from offsetd_clients.errors import NotCoordinator

HOPS_MAX = 5
"""So many servers may name another one before it is better to wait."""
_OWNERS_MAX = 100_000


class SeveralOwners(Exception):
    """The groups of a request are not all one server's."""


class Owners:
    """Addresses by group. Groups of which nothing is known are asked for at the home address."""

    def __init__(self, home: str) -> None:
        self.home = home
        self._addresses: dict[str, str] = {}

    def address_of(self, group_id: str) -> str:
        """Where to ask for a group; an empty one is no group's."""
        return self._addresses.get(group_id, self.home)

    def learn(self, group_id: str, error: NotCoordinator, asked: str) -> bool:
        """Takes in what a server said; whether there is another one to ask now."""
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
        """The home address is to be asked again."""
        self._addresses.pop(group_id, None)


def is_of_several(request: Any) -> bool:
    """Whether a request is for several groups at once."""
    return len(getattr(request, "groups", ())) > 1


def group_of(request: Any) -> str:
    """The one group that a request is for; empty: none, or several."""
    groups = getattr(request, "groups", None)
    if groups is not None:
        return groups[0].group_id if len(groups) == 1 else ""
    group_id: str = getattr(request, "group_id", "") or getattr(request, "target_group_id", "")
    return group_id
