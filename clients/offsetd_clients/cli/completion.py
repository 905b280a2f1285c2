"""Shell completion of group ids. Commands and options complete by themselves."""

from itertools import islice

import typer

from offsetd_clients import OffsetdError, RetryPolicy
from offsetd_clients.cli.connection import chosen_address, client_of

# A user is waiting for the completion.
TIMEOUT_S = 1.0
GROUPS_MAX = 200


def complete_group_id(ctx: typer.Context, incomplete: str) -> list[str]:
    """Group ids with this prefix.

    Empty, without a message, if the server does not answer at once.
    """
    address = chosen_address(ctx, ctx.params.get("address") or "") or None
    # There is only one attempt: the completion does not wait for a missing server.
    retry = RetryPolicy(timeout_s=TIMEOUT_S, wait_initial_s=TIMEOUT_S * 2, wait_max_s=TIMEOUT_S * 2)
    try:
        with client_of(address, retry) as client:
            listings = client.list_groups(group_id_prefix=incomplete, page_size=GROUPS_MAX)
            found = [listing.group_id for listing in islice(listings, GROUPS_MAX)]
    except (OffsetdError, OSError, ValueError):
        return []
    # The completion leaves out ids that a command line cannot contain.
    return sorted(each for each in found if each.isprintable())
