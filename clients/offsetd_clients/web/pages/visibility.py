"""Whether rules can hide anything from a viewer: what an empty list says depends on it."""

from offsetd_clients.acl_values import AclOperation, ResourceType
from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.web.served_parts import part

_ANYONE = "User:ANONYMOUS"


async def that_you_may_see(client: AsyncOffsetClient, is_empty: bool) -> str:
    """The end of "no group", if a list is empty and the server has rules.

    A viewer who may not ask has rules against them.
    """
    if not is_empty:
        return ""
    asked = client.test_acl(_ANYONE, AclOperation.DESCRIBE, ResourceType.CLUSTER)
    verdict = (await part(asked)).value
    return "" if verdict is not None and not verdict.in_force else " that you may see"
