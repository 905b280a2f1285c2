"""What the shell completes beside commands and options: the ids of groups."""

from itertools import islice

import typer

from offsetd_clients import OffsetdError, RetryPolicy
from offsetd_clients.cli.connection import chosen_address, client_of

# Somebody waits with a finger on the key.
TIMEOUT_S = 1.0
GROUPS_MAX = 200


def complete_group_id(ctx: typer.Context, incomplete: str) -> list[str]:
    """Groups whose id begins so; none, and not a word, where no server answers at once."""
    address = chosen_address(ctx, ctx.params.get("address") or "") or None
    # One try: who is not there now is not waited for.
    retry = RetryPolicy(timeout_s=TIMEOUT_S, wait_initial_s=TIMEOUT_S * 2, wait_max_s=TIMEOUT_S * 2)
    try:
        with client_of(address, retry) as client:
            listings = client.list_groups(group_id_prefix=incomplete, page_size=GROUPS_MAX)
            found = [listing.group_id for listing in islice(listings, GROUPS_MAX)]
    except (OffsetdError, OSError, ValueError):
        return []
    # What a line cannot hold is not offered.
    return sorted(each for each in found if each.isprintable())
