"""The order of a list of groups, as an address names it: a column, `-` before it for descending."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeAlias

import attrs

from offsetd_clients.values import GroupListing, LagVerdict, ListedDetails

Key: TypeAlias = Callable[[GroupListing, ListedDetails], Any]
_NO_DETAILS = ListedDetails(offset_count=0, member_count=0, lease_holder="")
_SEVERITY = {None: 0, LagVerdict.OK: 1, LagVerdict.WARN: 2, LagVerdict.ERR: 3}
_KEYS: Mapping[str, Key] = {
    "group": lambda listing, _: listing.group_id,
    "state": lambda listing, _: listing.state,
    "verdict": lambda listing, _: _SEVERITY.get(listing.lag_verdict, 0),
    "lag": lambda listing, _: -1 if listing.lag is None else listing.lag,
    "members": lambda _, details: details.member_count,
    "offsets": lambda _, details: details.offset_count,
    "owner": lambda _, details: details.lease_holder,
    "type": lambda listing, _: listing.type,
}
# The heading of each column, whether it has numbers, and whether its largest are looked for first.
COLUMNS: Mapping[str, tuple[str, bool, bool]] = {
    "group": ("Group", False, False),
    "state": ("State", False, False),
    "verdict": ("Verdict", False, True),
    "lag": ("Lag", True, True),
    "members": ("Members", True, True),
    "offsets": ("Offsets", True, True),
    "owner": ("Lease", False, True),
    "type": ("Type", False, False),
}


@attrs.frozen
class GroupOrder:
    """A column, and its direction. Groups that are equal in it are sorted by id."""

    column: str
    is_descending: bool

    @classmethod
    def of(cls, text: str) -> Self | None:
        """The order in an address; None for that of the log. Raises ValueError."""
        if not text:
            return None
        column = text.removeprefix("-")
        if column not in _KEYS:
            raise ValueError(f"there is no order by {column[:40]!r}; {', '.join(_KEYS)} are known")
        return cls(column, text.startswith("-"))

    def __str__(self) -> str:
        return f"-{self.column}" if self.is_descending else self.column

    def ordered(self, groups: Iterable[GroupListing]) -> list[GroupListing]:
        """The groups in this order."""
        key = _KEYS[self.column]
        by_id = sorted(groups, key=lambda each: each.group_id)
        return sorted(
            by_id,
            key=lambda each: key(each, each.details or _NO_DETAILS),
            reverse=self.is_descending,
        )


def toggled(order: GroupOrder | None, column: str) -> str:
    """The order that a click on a column's heading asks for."""
    largest_first = COLUMNS[column][2]
    if order is not None and order.column == column:
        return str(attrs.evolve(order, is_descending=not order.is_descending))
    return str(GroupOrder(column, largest_first))
