"""The list of groups: search by prefix, filters, order, pages by the API's tokens."""

from collections.abc import Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlencode

import attrs

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.values import GroupListing, GroupListPage, GroupState, LagVerdict
from offsetd_clients.web.pages.group_order import COLUMNS, GroupOrder
from offsetd_clients.web.pages.parameters import whole
from offsetd_clients.web.pages.visibility import that_you_may_see

PAGE_SIZE = 50
_PAGE_SIZE_MAX = 100
# The server lists in the order of its log. Other orders need all groups of the choice at once.
SORTED_MAX = 1000
VERDICTS = (LagVerdict.OK, LagVerdict.WARN, LagVerdict.ERR)
STATES = tuple(state for state in GroupState if state is not GroupState.UNKNOWN)


@attrs.frozen
class Choice:
    """Which groups a list is about."""

    prefix: str = ""
    state: GroupState | None = None
    verdict: LagVerdict | None = None
    topic: str = ""
    owner: str = ""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        """The choice in an address. Raises ValueError for an unknown state or verdict."""
        state = parameters.get("state", "")
        if state and state not in STATES:
            raise ValueError(f"there is no state {state[:40]!r}")
        verdict = parameters.get("verdict", "")
        if verdict and verdict not in VERDICTS:
            raise ValueError(f"there is no verdict {verdict[:40]!r} on a group")
        return cls(
            parameters.get("q", ""),
            GroupState(state) if state else None,
            LagVerdict(verdict) if verdict else None,
            parameters.get("topic", ""),
            parameters.get("owner", ""),
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether it leaves out any group."""
        return self != Choice()

    async def page(self, client: AsyncOffsetClient, size: int, token: str) -> GroupListPage:
        """A page with at least one group, unless it is the last one; with details."""
        while True:
            page = await client.list_groups_page(
                group_id_prefix=self.prefix,
                states=[self.state] if self.state else [],
                lag_verdicts=[self.verdict] if self.verdict else [],
                topics=[self.topic] if self.topic else [],
                lease_holder=self.owner,
                include_details=True,
                include_lag_verdicts=True,
                page_size=size,
                page_token=token,
            )
            token = page.next_page_token
            if page.groups or not token:
                return page

    def query(self, **further: object) -> str:
        """The choice as part of an address."""
        own = {
            "q": self.prefix,
            "state": self.state or "",
            "verdict": self.verdict or "",
            "topic": self.topic,
            "owner": self.owner,
        }
        return urlencode({name: value for name, value in {**own, **further}.items() if value})


@attrs.frozen
class Rows:
    """The groups of one page of a list. `token` is that of the next page, if the API has it."""

    groups: Sequence[GroupListing]
    has_next: bool
    token: str
    unreachable: Sequence[int]
    is_cut: bool = False


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows."""
    choice = Choice.of(parameters)
    order = GroupOrder.of(parameters.get("sort", ""))
    size = whole(parameters, "size", PAGE_SIZE, 1, _PAGE_SIZE_MAX)
    number = whole(parameters, "page", 1, 1, 10**9)
    shown_size = size if "size" in parameters else ""
    if order is None:
        rows = await _in_order_of_log(choice, client, size, parameters.get("token", ""))
    else:
        rows = await _sorted(choice, client, order, size, number)
    further = ""
    if rows.has_next:
        further = choice.query(sort=order or "", token=rows.token, page=number + 1, size=shown_size)
    return {
        "choice": choice,
        "order": order,
        "columns": COLUMNS,
        "states": STATES,
        "verdicts": VERDICTS,
        "rows": rows,
        "seen": await that_you_may_see(client, is_empty=not rows.groups),
        "sorted_max": SORTED_MAX,
        "number": number,
        "next": further,
        "first": choice.query(size=shown_size, sort=order or ""),
        "size": shown_size,
    }


async def _in_order_of_log(
    choice: Choice, client: AsyncOffsetClient, size: int, token: str
) -> Rows:
    page = await choice.page(client, size, token)
    following = page.next_page_token
    return Rows(page.groups, bool(following), following, page.unreachable_log_partitions)


async def _sorted(
    choice: Choice, client: AsyncOffsetClient, order: GroupOrder, size: int, number: int
) -> Rows:
    """A page of the first `SORTED_MAX` groups of the log, in another order."""
    found: list[GroupListing] = []
    unreachable, token = set[int](), ""
    while True:
        page = await choice.page(client, SORTED_MAX - len(found), token)
        found += page.groups
        unreachable.update(page.unreachable_log_partitions)
        token = page.next_page_token
        if not token or len(found) >= SORTED_MAX:
            break
    begin = (number - 1) * size
    shown = order.ordered(found)[begin : begin + size]
    has_next = begin + size < len(found)
    return Rows(shown, has_next, "", sorted(unreachable), is_cut=bool(token))
