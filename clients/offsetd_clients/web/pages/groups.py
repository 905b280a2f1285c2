"""The list of groups: search by prefix, one state, one verdict, pages by the API's tokens."""

import asyncio
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlencode

import attrs

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.values import Group, GroupListPage, GroupState, LagVerdict
from offsetd_clients.web.pages.parameters import whole
from offsetd_clients.web.served_parts import Part, part

PAGE_SIZE = 50
_PAGE_SIZE_MAX = 100
VERDICTS = (LagVerdict.OK, LagVerdict.WARN, LagVerdict.ERR)
STATES = tuple(state for state in GroupState if state is not GroupState.UNKNOWN)


@attrs.frozen
class Choice:
    """Which groups a list is about."""

    prefix: str
    state: GroupState | None
    verdict: LagVerdict | None = None

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
        )

    async def page(self, client: AsyncOffsetClient, size: int, token: str) -> GroupListPage:
        """A page with at least one group, unless it is the last one."""
        while True:
            page = await client.list_groups_page(
                group_id_prefix=self.prefix,
                states=[self.state] if self.state else [],
                lag_verdicts=[self.verdict] if self.verdict else [],
                page_size=size,
                page_token=token,
            )
            token = page.next_page_token
            if page.groups or not token:
                return page

    def query(self, **further: object) -> str:
        """The choice as part of an address."""
        own = {"q": self.prefix, "state": self.state or "", "verdict": self.verdict or ""}
        return urlencode({name: value for name, value in {**own, **further}.items() if value})


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows."""
    choice = Choice.of(parameters)
    size = whole(parameters, "size", PAGE_SIZE, 1, _PAGE_SIZE_MAX)
    number = whole(parameters, "page", 1, 1, 10**9)
    shown_size = size if "size" in parameters else ""
    page = await choice.page(client, size, parameters.get("token", ""))
    details = await described(client, [each.group_id for each in page.groups])
    further = ""
    if page.next_page_token:
        further = choice.query(token=page.next_page_token, page=number + 1, size=shown_size)
    return {
        "choice": choice,
        "states": STATES,
        "verdicts": VERDICTS,
        "page": page,
        "number": number,
        "rows": list(zip(page.groups, details, strict=True)),
        "next": further,
        "first": choice.query(size=shown_size),
    }


async def described(client: AsyncOffsetClient, group_ids: list[str]) -> list[Part[Group]]:
    """Details of groups. A group that is gone, or that may not be seen, has a reason instead."""
    return await asyncio.gather(*(part(client.get_group(each)) for each in group_ids))
