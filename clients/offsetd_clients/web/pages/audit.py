"""The audit log: who changed what, and why."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.cli.audit import AUDITED_METHODS
from offsetd_clients.web.pages.group import first
from offsetd_clients.web.pages.parameters import time, whole

SHOWN = 50
_SHOWN_MAX = 200
_FIELDS = ("method", "group", "principal", "since", "until")


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows."""
    limit = whole(parameters, "limit", SHOWN, 1, _SHOWN_MAX)
    asked = {name: parameters.get(name, "").strip() for name in _FIELDS}
    asked["group"] = parameters.get("group", "")  # Its name may begin with a space.
    events = client.list_audit_events(
        methods=[asked["method"]] if asked["method"] else [],
        group_id=asked["group"],
        principal=asked["principal"],
        start_time=time(parameters, "since"),
        end_time=time(parameters, "until"),
        page_size=limit + 1,
    )
    found = await first(events, limit + 1)
    more = ""
    if len(found) > limit and limit < _SHOWN_MAX:
        given = {name: value for name, value in asked.items() if value}
        more = urlencode({**given, "limit": _SHOWN_MAX})
    return {
        "asked": asked,
        "methods": AUDITED_METHODS,
        "events": [(each, what_text(each.what)) for each in found[:limit]],
        "is_cut": len(found) > limit,
        "more": more,
    }


def what_text(what: Mapping[str, Any]) -> str:
    """The details of a change in one line, without its group."""
    return ", ".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, default=str)}"
        for name, value in what.items()
        if name != "group"
    )
