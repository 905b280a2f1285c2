"""The wizard that sets how long a group's offsets are kept."""

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.cli.arguments.time_spans import parse_retention
from offsetd_clients.values import Retention
from offsetd_clients.web.changes.change import Change, Fields, Outcome, Terms, Wizard
from offsetd_clients.web.rendering import span_text


async def _present(client: AsyncOffsetClient, group_id: str) -> Retention:
    return (await client.get_group_page(group_id, page_size=1)).group.retention


async def choices(client: AsyncOffsetClient, group_id: str, _: Fields) -> dict[str, object]:
    """The present retention."""
    return {"present": await _present(client, group_id)}


async def read(_: AsyncOffsetClient, group_id: str, fields: Fields) -> Change:
    """The retention that was chosen. Raises ValueError."""
    text = fields.get("retention", "").strip()
    retention = parse_retention(text)

    async def carry_out(client: AsyncOffsetClient, terms: Terms) -> Outcome:
        before = await _present(client, group_id)
        revision = await client.update_group(
            group_id,
            retention=retention,
            validate_only=terms.validate_only,
            reason=terms.reason,
            request_id=terms.request_id,
        )
        is_nothing = before == retention
        return Outcome(
            columns=("Retention", "New retention"),
            rows=((span_text(before), span_text(retention)),),
            summary="Nothing to change." if is_nothing else "The retention of the group",
            revision=revision,
            is_nothing=is_nothing,
        )

    return Change(
        group_id=group_id,
        words=("groups", "update", "--retention", text),
        about=(group_id,),
        carry_out=carry_out,
    )


WIZARD = Wizard(
    path="retention",
    title="Set the retention",
    method="UpdateGroup",
    fields=("retention",),
    read=read,
    choices=choices,
)
