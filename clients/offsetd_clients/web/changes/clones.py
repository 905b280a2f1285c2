"""The wizard that copies a group's offsets to another group."""

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.cli.printing.change_summary import summary
from offsetd_clients.web.changes.change import (
    Change,
    Fields,
    Outcome,
    Terms,
    Wizard,
    lines,
    no_choices,
    offset_rows,
    topic_words,
)
from offsetd_clients.web.changes.resets import COLUMNS


async def read(_: AsyncOffsetClient, group_id: str, fields: Fields) -> Change:
    """The clone that was chosen. Raises ValueError."""
    target = fields.get("target", "")
    if not target:
        raise ValueError("name the group that gets the offsets")
    topics = lines(fields, "topics")
    overwrite = fields.get("overwrite") == "yes"

    async def carry_out(client: AsyncOffsetClient, terms: Terms) -> Outcome:
        done = await client.clone_group(
            group_id,
            target,
            topics=topics,
            overwrite=overwrite,
            validate_only=terms.validate_only,
            reason=terms.reason,
            request_id=terms.request_id,
        )
        rows = offset_rows(done.changes)
        more = done.offset_count - len(rows)
        kept = done.kept_offset_count
        return Outcome(
            columns=COLUMNS,
            rows=rows,
            summary=summary((each.before, each.after) for each in done.changes),
            notes=(
                *([f"{more:,} more offsets are not shown."] if more else []),
                *([f"{kept:,} other offsets of the target stay."] if kept else []),
            ),
            revision=done.revision,
        )

    return Change(
        group_id=group_id,
        words=(
            *("groups", "clone"),
            *topic_words(topics),
            *(["--overwrite"] if overwrite else []),
        ),
        about=(group_id, target),
        carry_out=carry_out,
    )


WIZARD = Wizard(
    path="clone",
    title="Clone to another group",
    method="CloneGroup",
    fields=("target", "topics", "overwrite"),
    read=read,
    choices=no_choices,
)
