"""The wizard that changes one setting while the server runs."""

from offsetd_clients.admin_values import ConfigSetting
from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.web.changes.change import Change, Fields, Outcome, Terms, Wizard
from offsetd_clients.web.names import bounded
from offsetd_clients.web.pages.log import TOPICS


async def _setting(client: AsyncOffsetClient, fields: Fields) -> ConfigSetting:
    topic, name = fields.get("topic", ""), fields.get("setting", "")
    if topic and topic not in TOPICS:
        raise ValueError(f"the log has no topic {bounded(topic)}")
    if not name:
        raise ValueError("the address names no setting")
    (found,) = await client.describe_config(topic, [name])
    return found


async def choices(client: AsyncOffsetClient, _: str, fields: Fields) -> dict[str, object]:
    """The setting as it is."""
    return {"setting": await _setting(client, fields)}


async def read(client: AsyncOffsetClient, _: str, fields: Fields) -> Change:
    """The setting that was chosen, with its new value or without. Raises ValueError."""
    name = (await _setting(client, fields)).name
    topic, value = fields.get("topic", ""), fields.get("value", "")
    is_unset = fields.get("unset") == "yes"
    if is_unset and value:
        raise ValueError("give a value, or remove the one that is set")

    async def carry_out(client: AsyncOffsetClient, terms: Terms) -> Outcome:
        before = await _setting(client, fields)
        done = await client.update_config(
            {} if is_unset else {name: value},
            remove=[name] if is_unset else [],
            topic=topic,
            validate_only=terms.validate_only,
            reason=terms.reason,
            request_id=terms.request_id,
        )
        after = next(each for each in done.settings if each.name == name)
        row = (name, before.value, str(before.source), after.value, str(after.source))
        is_nothing = (before.value, before.source) == (after.value, after.source)
        return Outcome(
            columns=("Setting", "Value", "Source", "New value", "New source"),
            rows=(row,),
            summary="Nothing to change." if is_nothing else "1 setting",
            notes=(after.problem,) if after.problem else (),
            revision=done.revision,
            is_nothing=is_nothing,
        )

    chosen = ("--unset", name) if is_unset else ()
    return Change(
        group_id="",
        words=("admin", "config", *(("--topic", topic) if topic else ()), *chosen),
        about=() if is_unset else (f"{name}={value}",),
        carry_out=carry_out,
    )


WIZARD = Wizard(
    path="setting",
    title="Change a setting",
    method="UpdateConfig",
    fields=("topic", "setting", "value", "unset"),
    read=read,
    choices=choices,
    is_of_group=False,
)
