"""The access rules, where they are in force."""

from collections.abc import Mapping
from typing import Any

from offsetd_clients.acl_values import Acl, AclFilter
from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.web.pages.parameters import whole

SHOWN = 100


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows."""
    principal = parameters.get("principal", "").strip()
    number = whole(parameters, "page", 1, 1, 10**6)
    listing = await client.list_acls(AclFilter(principal=principal))
    begin = (number - 1) * SHOWN
    shown: tuple[Acl, ...] = listing.acls[begin : begin + SHOWN]
    return {
        "listing": listing,
        "shown": shown,
        "begin": begin,
        "number": number,
        "has_more": begin + SHOWN < len(listing.acls),
        "principal": principal,
    }
