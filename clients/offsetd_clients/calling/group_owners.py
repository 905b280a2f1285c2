"""The servers that own groups and log partitions, as far as servers have named them."""

from typing import Any

from offsetd_clients.errors import NotCoordinator

HOPS_MAX = 5
"""After this many redirects the client waits."""
_OWNERS_MAX = 100_000
_SEVERAL = ("groups", "group_ids", "log_partitions")  # The fields of requests that name them.

Subject = str | int
"""The subject of a request, by which its server is found: a group, or a log partition. An empty
group means neither."""


class SeveralOwners(Exception):
    """The groups, or the log partitions, of one request belong to several servers."""


class Owners:
    """Addresses by group and by log partition.

    The home address gets requests about a group without a known owner. If there are several home
    addresses, it is the first one until that cannot be reached, then the next one.
    """

    def __init__(self, home: str, *others: str) -> None:
        self.homes: tuple[str, ...] = (home, *others)
        self.home = home
        self._addresses: dict[Subject, str] = {}

    def address_of(self, subject: Subject) -> str:
        """The address for requests about a group. For an empty group id, the home address."""
        return self._addresses.get(subject, self.home)

    def known(self, subject: Subject) -> str:
        """The owner that a server has named; empty if it is the home address, or not known."""
        return self._addresses.get(subject, "")

    def learn(self, subject: Subject, error: NotCoordinator, asked: str) -> bool:
        """Notes the owner that a server named. Returns whether another server can be tried now."""
        if subject == "" or error.address in ("", asked):
            self.forget(subject)
            return False
        self.note(subject, error.address)
        return True

    def note(self, subject: Subject, address: str) -> None:
        """Notes an owner."""
        if address == self.home:
            self.forget(subject)
            return
        self._addresses[subject] = address
        if len(self._addresses) > _OWNERS_MAX:
            self._addresses.pop(next(iter(self._addresses)), None)

    def forget(self, subject: Subject) -> None:
        """Forgets the owner of a group, so that the next request is sent to the home address."""
        self._addresses.pop(subject, None)

    def leave(self, subject: Subject, asked: str) -> None:
        """Notes that a server did not answer: the next request goes to a home address."""
        self.forget(subject)
        if asked == self.home:
            place = self.homes.index(asked) + 1
            self.home = self.homes[place % len(self.homes)]


class Seats:
    """The address of the queue that takes the next commit of each group.

    It changes only when no commit of the group is left in the queue: so the group's commits stay in
    order. Other calls of the group may know its owner earlier.
    """

    def __init__(self, home: str) -> None:
        self._home = home
        self._seats: dict[str, str] = {}
        self._leaving: dict[str, str] = {}

    def address_of(self, group_id: str) -> str:
        """The address of the queue. While a group leaves a server, it is that server's queue."""
        return self._leaving.get(group_id) or self._seats.get(group_id, self._home)

    def leave(self, group_id: str, address: str) -> None:
        """Notes that the group's commits gather in this queue, to leave it."""
        self._leaving[group_id] = address

    def settle(self, group_id: str, address: str) -> None:
        """Notes that the group's commits have left for this queue."""
        self._seats.pop(group_id, None)
        if address != self._home:
            self._seats[group_id] = address
            if len(self._seats) > _OWNERS_MAX:
                self._seats.pop(next(iter(self._seats)), None)
        self._leaving.pop(group_id, None)

    def move_home(self, left: str, home: str) -> None:
        """Lets another queue take the commits of groups that have no other seat.

        It does so only if their queue was that of `left`: otherwise it may still have commits.
        """
        if self._home == left:
            self._home = home


def is_of_several(request: Any) -> bool:
    """Whether a request is for several groups, or for several log partitions."""
    return any(len(getattr(request, field, ())) > 1 for field in _SEVERAL)


def subject_of(request: Any) -> Subject:
    """The subject by which the server of a request is found; the first if there are several."""
    log_partitions = getattr(request, "log_partitions", ())
    return log_partitions[0] if log_partitions else group_of(request)


def group_of(request: Any) -> str:
    """The group of a request. Empty if the request has none, or several."""
    groups = getattr(request, "groups", None)
    if groups is not None:
        return groups[0].group_id if len(groups) == 1 else ""
    named: Any = getattr(request, "group_ids", ())
    if len(named) == 1:
        only: str = named[0]
        return only
    group_id: str = getattr(request, "group_id", "") or getattr(request, "target_group_id", "")
    return group_id
