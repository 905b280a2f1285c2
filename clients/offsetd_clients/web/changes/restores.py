"""The wizard of a restore: the moments of a group's history, and what each would bring back."""

from datetime import datetime

import attrs

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.cli.arguments.reset_targets import parse_time
from offsetd_clients.cli.arguments.whole_numbers import INT64_MAX, parse_whole_number
from offsetd_clients.cli.printing.change_summary import summary
from offsetd_clients.history_values import OffsetEvent
from offsetd_clients.web.changes.change import Change, Fields, Outcome, Terms, Wizard
from offsetd_clients.web.changes.resets import COLUMNS
from offsetd_clients.web.pages.group import first
from offsetd_clients.web.rendering import time_text

EVENTS_READ_MAX = 10_000
MOMENTS_MAX = 200


@attrs.frozen
class Moment:
    """The state of a group right after a commit or a deletion."""

    revision: int
    time: datetime
    event_count: int

    def __str__(self) -> str:
        offsets = "1 offset" if self.event_count == 1 else f"{self.event_count:,} offsets"
        return f"{time_text(self.time)[:-1]}.{self.time:%f}"[:23] + f"Z, {offsets} changed then"


async def choices(client: AsyncOffsetClient, group_id: str, fields: Fields) -> dict[str, object]:
    """The moments that the form offers, oldest first."""
    events = client.list_offset_history(group_id, page_size=EVENTS_READ_MAX)
    found = moments(await first(events, EVENTS_READ_MAX))
    shown = _thinned(found, fields.get("revision", ""))
    return {
        "moments": shown[::-1],
        "moment_count": len(found),
        "before_last": str(found[1].revision) if len(found) > 1 else "",
    }


def moments(events: list[OffsetEvent]) -> list[Moment]:
    """The moments of events, newest first. Events of one commit share a moment."""
    found: list[Moment] = []
    for event in events:
        if found and found[-1].time == event.time:
            found[-1] = attrs.evolve(found[-1], event_count=found[-1].event_count + 1)
        else:
            found.append(Moment(event.revision.log_offset, event.time, 1))
    return found


def _thinned(found: list[Moment], chosen: str) -> list[Moment]:
    """Not more than a slider can show; the newest two, the oldest, and the chosen one stay."""
    step = -(-len(found) // MOMENTS_MAX)
    if step <= 1:
        return found
    return [
        each
        for place, each in enumerate(found)
        if place % step == 0 or place in (1, len(found) - 1) or str(each.revision) == chosen
    ]


@attrs.frozen(kw_only=True)
class Restore:
    """A restore that was chosen."""

    group_id: str
    target: datetime | int
    force: bool

    async def carry_out(self, client: AsyncOffsetClient, terms: Terms) -> Outcome:
        """Does it, or shows it."""
        done = await client.restore_group(
            self.group_id,
            self.target,
            force=self.force,
            validate_only=terms.validate_only,
            reason=terms.reason,
            request_id=terms.request_id,
        )
        rows = tuple(
            (
                each.topic_partition.topic,
                each.topic_partition.partition,
                each.offset_before,
                each.offset_after,
            )
            for each in done.changes
        )
        told = summary((each.offset_before, each.offset_after) for each in done.changes)
        return Outcome(
            columns=COLUMNS,
            rows=rows,
            summary=told if rows else "Nothing to change: the offsets are as they were then.",
            revision=done.revision,
            is_nothing=not rows,
        )


async def read(_: AsyncOffsetClient, group_id: str, fields: Fields) -> Change:
    """The restore of a form. Raises ValueError and typer.BadParameter."""
    revision, time = (fields.get(name, "").strip() for name in ("revision", "time"))
    if time:
        target: datetime | int = parse_time(time)
        words = ["--to-datetime", time]
    elif revision:
        target = parse_whole_number(revision, "revision", largest=INT64_MAX, name="revision")
        words = ["--to-revision", revision]
    else:
        raise ValueError("choose a moment, or give a time")
    force = fields.get("force") == "yes"
    restore = Restore(group_id=group_id, target=target, force=force)
    return Change(
        group_id=group_id,
        words=("groups", "restore", *words, *(["--force"] if force else [])),
        about=(group_id,),
        carry_out=restore.carry_out,
        takes_execute=True,
    )


WIZARD = Wizard(
    path="restore",
    title="Restore, as it was at …",
    method="RestoreGroup",
    fields=("revision", "time", "force"),
    read=read,
    choices=choices,
    is_live=True,
)
