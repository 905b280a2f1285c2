"""The audit log: who changed what, and why."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.cli.audit import AUDITED_METHODS
from offsetd_clients.web.pages.group import first
from offsetd_clients.web.pages.parameters import time
from offsetd_clients.web.pages.visibility import that_you_may_see

SHOWN = 50
_MILLISECOND = timedelta(milliseconds=1)
_FIELDS = ("method", "group", "principal", "since", "until")


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows."""
    asked = {name: parameters.get(name, "").strip() for name in _FIELDS}
    asked["group"] = parameters.get("group", "")  # Its name may begin with a space.
    events = client.list_audit_events(
        methods=[asked["method"]] if asked["method"] else [],
        group_id=asked["group"],
        principal=asked["principal"],
        start_time=time(parameters, "since"),
        end_time=time(parameters, "until"),
        page_size=SHOWN + 1,
    )
    found = await first(events, SHOWN + 1)
    older = ""
    if len(found) > SHOWN:
        # So that no change of the same millisecond is left out, the last one is shown again.
        until = (found[SHOWN - 1].time + _MILLISECOND).isoformat(timespec="milliseconds")
        given = {name: value for name, value in asked.items() if value}
        older = "" if until == asked["until"] else urlencode({**given, "until": until})
    return {
        "asked": asked,
        "methods": AUDITED_METHODS,
        "seen": await that_you_may_see(client, is_empty=not found),
        "events": [(each, what_text(each.what)) for each in found[:SHOWN]],
        "is_cut": len(found) > SHOWN,
        "older": older,
    }


def what_text(what: Mapping[str, Any]) -> str:
    """The details of a change in one line, without its group."""
    return ", ".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, default=str)}"
        for name, value in what.items()
        if name != "group"
    )
