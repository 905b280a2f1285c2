"""The wizard that removes members."""

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.membership_values import MemberToRemove
from offsetd_clients.plurals import counted
from offsetd_clients.values import GroupMember
from offsetd_clients.web.changes.change import Change, Fields, Outcome, Terms, Wizard, lines
from offsetd_clients.web.names import digest_of

COLUMNS = ("Member", "Instance", "Client", "Host", "Problem")
MEMBERS_SHOWN = 100


async def _members(client: AsyncOffsetClient, group_id: str) -> tuple[GroupMember, ...]:
    return (await client.get_group_page(group_id, page_size=1)).group.members


async def choices(client: AsyncOffsetClient, group_id: str, fields: Fields) -> dict[str, object]:
    """The members that the form offers. Its fields name each by a digest of its id."""
    members = await _members(client, group_id)
    chosen = set(lines(fields, "member"))
    shown = [(digest_of(each.member_id), each) for each in members[:MEMBERS_SHOWN]]
    return {"members": shown, "member_count": len(members), "chosen_members": chosen}


async def read(client: AsyncOffsetClient, group_id: str, fields: Fields) -> Change:
    """The removal that was chosen. Raises ValueError."""
    everybody = fields.get("all") == "yes"
    digests = set(lines(fields, "member"))
    if everybody == bool(digests):
        raise ValueError("choose members, or all of them")
    members = {digest_of(each.member_id): each for each in await _members(client, group_id)}
    if digests - members.keys():
        raise ValueError("a member that was chosen is not in the group any more")
    named = [members[digest] for digest in members if digest in digests]
    removed = None if everybody else [MemberToRemove(member_id=each.member_id) for each in named]

    async def carry_out(client: AsyncOffsetClient, terms: Terms) -> Outcome:
        present = {each.member_id: each for each in await _members(client, group_id)}
        done = await client.remove_members(
            group_id,
            removed,
            validate_only=terms.validate_only,
            reason=terms.reason,
            request_id=terms.request_id,
        )
        rows = []
        for each in (*done.removed, *done.refused):
            member, error = present.get(each.member_id), done.refused.get(each)
            rows.append(
                (
                    each.member_id,
                    member.instance_id if member else None,
                    member.client_id if member else None,
                    member.client_host if member else None,
                    str(error) if error else "",
                )
            )
        return Outcome(
            columns=COLUMNS,
            rows=tuple(rows),
            summary=counted(len(done.removed), "member"),
            notes=(f"{len(done.refused):,} cannot be removed.",) if done.refused else (),
            revision=done.revision,
            is_nothing=not done.removed,
        )

    ids = ["--all"] if everybody else [w for each in named for w in ("--member", each.member_id)]
    return Change(
        group_id=group_id,
        words=("groups", "remove-members", *ids),
        about=(group_id,),
        carry_out=carry_out,
    )


WIZARD = Wizard(
    path="remove-members",
    title="Remove members",
    method="RemoveMembers",
    fields=("member", "all"),
    read=read,
    choices=choices,
)
