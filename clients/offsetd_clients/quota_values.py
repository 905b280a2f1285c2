"""Quotas of a server, as plain values."""

from datetime import timedelta

import attrs


@attrs.frozen(kw_only=True)
class QuotaUse:
    """A limit of `security.quotas.file`, and what is used of it now.

    `principal` and `client_id`: those who share the limit. An empty one is not asked for; if both
    are empty, they are the callers without a client id.
    `in_use`: of a rate, what has been taken and has not come back.
    `refusals` and `delay`: of the principal, since the server's start. `delay` is the same in all
    of its quotas.
    """

    principal: str
    client_id: str
    quota: str
    limit: int
    in_use: int
    refusals: int
    delay: timedelta


@attrs.frozen(kw_only=True)
class QuotaListing:
    """Quotas, sorted by principal, client id and name.

    `in_force`: False if the server has no file of quotas.
    """

    quotas: tuple[QuotaUse, ...]
    in_force: bool
