"""The wizards that delete: a whole group, or offsets of it."""

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.cli.arguments.reset_targets import parse_topics
from offsetd_clients.plurals import counted
from offsetd_clients.web.changes.change import (
    Change,
    Fields,
    Outcome,
    Row,
    Terms,
    Wizard,
    lines,
    no_choices,
    topic_words,
)

COLUMNS = ("Topic", "Partition", "Offset")


async def _stored(client: AsyncOffsetClient, group_id: str) -> tuple[Row, ...]:
    offsets = await client.fetch(group_id)
    return tuple((where.topic, where.partition, offsets[where].offset) for where in sorted(offsets))


async def read_group(_: AsyncOffsetClient, group_id: str, __: Fields) -> Change:
    """The deletion of a group."""

    async def carry_out(client: AsyncOffsetClient, terms: Terms) -> Outcome:
        rows = await _stored(client, group_id)
        done = await client.delete_group(
            group_id,
            validate_only=terms.validate_only,
            reason=terms.reason,
            request_id=terms.request_id,
        )
        return Outcome(
            columns=COLUMNS,
            rows=rows,
            summary=f"The group with {counted(done.offset_count, 'offset')}",
            revision=done.revision,
        )

    return Change(
        group_id=group_id, words=("groups", "delete"), about=(group_id,), carry_out=carry_out
    )


async def read_offsets(_: AsyncOffsetClient, group_id: str, fields: Fields) -> Change:
    """The deletion of some offsets. Raises ValueError and typer.BadParameter."""
    chosen = lines(fields, "topics")
    if not chosen:
        raise ValueError("name at least one topic; the whole group has a form of its own")
    topics, partitions = parse_topics(chosen)

    async def carry_out(client: AsyncOffsetClient, terms: Terms) -> Outcome:
        before = await _stored(client, group_id)
        done = await client.delete_offsets(
            group_id,
            partitions,
            topics=topics,
            validate_only=terms.validate_only,
            reason=terms.reason,
            request_id=terms.request_id,
        )
        gone = {(where.topic, where.partition) for where in done.partitions}
        if not gone:
            await client.get_group(group_id)  # A group that does not exist has no offsets either.
        return Outcome(
            columns=COLUMNS,
            rows=tuple(row for row in before if row[:2] in gone),
            summary=f"{counted(len(gone), 'offset')}",
            revision=done.revision,
            is_nothing=not gone,
        )

    return Change(
        group_id=group_id,
        words=(
            *("groups", "offset-delete"),
            *topic_words(chosen),
        ),
        about=(group_id,),
        carry_out=carry_out,
    )


GROUP = Wizard(
    path="delete-group",
    title="Delete the group",
    method="DeleteGroup",
    fields=(),
    read=read_group,
    choices=no_choices,
)
OFFSETS = Wizard(
    path="delete-offsets",
    title="Delete offsets",
    method="DeleteOffsets",
    fields=("topics",),
    read=read_offsets,
    choices=no_choices,
)
