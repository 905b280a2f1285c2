"""One group: members, partitions, lease, history, audit events."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from itertools import count
from typing import Any, TypeVar

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.change_values import AuditEvent
from offsetd_clients.history_values import OffsetEvent
from offsetd_clients.values import TopicPartition
from offsetd_clients.web.names import GroupName, digest_of, group_link, is_short
from offsetd_clients.web.pages.parameters import time, whole
from offsetd_clients.web.pages.visibility import that_you_may_see
from offsetd_clients.web.served_parts import part

PARTITIONS_SHOWN = 50
MEMBERS_SHOWN = 25
EVENTS_SHOWN = 10
POINTS_MAX = 2000
_EVENTS_READ_MAX = 10_000
Item = TypeVar("Item")


async def view(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """What the page shows."""
    group_id = await GroupName(parameters).found(client)
    number = whole(parameters, "page", 1, 1, 10**9)
    page, events = await asyncio.gather(
        client.get_group_page(
            group_id, page_size=PARTITIONS_SHOWN, page_token=parameters.get("token", "")
        ),
        part(audited(client, group_id)),
    )
    chosen = _chosen(parameters, page.offsets)
    return {
        "group": page.group,
        "members": page.group.members[:MEMBERS_SHOWN],
        "partitions": [
            (where, page.offsets[where], page.lags.get(where)) for where in page.offsets
        ],
        "total_lag": sum(each.lag for each in page.lags.values()) if page.lags else None,
        "lags_known": len(page.lags),
        "seen": await that_you_may_see(client, is_empty=not page.offsets),
        "next_token": page.next_page_token,
        "number": number,
        "chosen": chosen,
        "links": _links(group_id, parameters, page.offsets),
        "events": events,
    }


def _chosen(
    parameters: Mapping[str, str], offsets: Mapping[TopicPartition, object]
) -> TopicPartition | None:
    """The partition whose history is plotted: that of the address, or the first."""
    partition = whole(parameters, "partition", 0, 0, 2**31 - 1)
    if "topic" in parameters:
        return TopicPartition(parameters["topic"], partition)
    if "topic_sha256" in parameters:
        named = (each for each in offsets if digest_of(each.topic) == parameters["topic_sha256"])
        return next((each for each in named if each.partition == partition), None)
    return next(iter(offsets), None)


def _links(
    group_id: str, parameters: Mapping[str, str], offsets: Iterable[TopicPartition]
) -> dict[TopicPartition, str]:
    """The address of this page with the history of each partition."""
    place = {name: parameters[name] for name in ("token", "page") if parameters.get(name)}
    return {
        each: group_link(
            group_id,
            **(
                {"topic": each.topic}
                if is_short(each.topic)
                else {"topic_sha256": digest_of(each.topic)}
            ),
            partition=each.partition,
            **place,
        )
        for each in offsets
    }


async def audited(client: AsyncOffsetClient, group_id: str) -> list[AuditEvent]:
    """The newest changes of the group by administrators."""
    events = client.list_audit_events(group_id=group_id, page_size=EVENTS_SHOWN)
    return await first(events, EVENTS_SHOWN)


async def first(items: AsyncIterator[Item], at_most: int) -> list[Item]:
    """The first items."""
    found: list[Item] = []
    async for item in items:
        found.append(item)
        if len(found) >= at_most:
            break
    return found


async def history(client: AsyncOffsetClient, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Times (ms), offsets (null: deleted) and log offsets, oldest first, for the plot."""
    group_id = await GroupName(parameters).found(client)
    if not parameters.get("topic"):
        raise ValueError("the address names no topic")
    where = TopicPartition(parameters["topic"], whole(parameters, "partition", 0, 0, 2**31 - 1))
    since = time(parameters, "since")
    events = client.list_offset_history(group_id, [where], since=since, page_size=_EVENTS_READ_MAX)
    found = [each for each in await first(events, _EVENTS_READ_MAX) if each.is_readable]
    shown = _thinned(found)[::-1]
    return {
        "times_ms": [_ms(each) for each in shown],
        "offsets": [each.offset for each in shown],
        "revisions": [each.revision.log_offset for each in shown],
        "events": len(found),
        "is_cut": len(found) == _EVENTS_READ_MAX,
    }


def _thinned(events: list[OffsetEvent]) -> list[OffsetEvent]:
    """At most so many that a plot can show; the newest and each deletion stay."""
    step = -(-len(events) // POINTS_MAX)
    if step <= 1:
        return events
    return [
        each
        for place, each in zip(count(), events, strict=False)
        if place % step == 0 or each.offset is None or place == len(events) - 1
    ]


def _ms(event: OffsetEvent) -> int:
    return int(event.time.timestamp() * 1000)
