"""`offsetd groups describe`: how far groups are, how far behind, and who is in them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import typer

from offsetd_clients import (
    Bounds,
    CommittedOffset,
    Group,
    GroupMember,
    OffsetClient,
    OffsetdError,
    RetryPolicy,
    TopicPartition,
)
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.durations import retention_text
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.options import (
    AllGroupsOption,
    AnyGroupsArgument,
    NamedGroupsOption,
    check_groups_chosen,
    chosen_groups,
)
from offsetd_clients.cli.terminal import EXIT_PARTLY, Row, Terminal

# Those of kafka-consumer-groups --describe.
OFFSET_COLUMNS = (
    "group",
    "topic",
    "partition",
    "current_offset",
    "log_end_offset",
    "lag",
    "consumer_id",
    "host",
    "client_id",
)
MEMBER_COLUMNS = (
    "group",
    "consumer_id",
    "group_instance_id",
    "host",
    "client_id",
    "partitions",
    "topics",
    "assignment",
)
STATE_COLUMNS = (
    "group",
    "type",
    "state",
    "protocol_type",
    "protocol",
    "generation",
    "leader_id",
    "members",
    "offsets",
    "log_partition",
    "state_time",
    "retention",
    "lease_holder",
    "lease_epoch",
    "lease_expire_time",
)
STRANGE_MAX = 10
# Lag is not worth a longer wait.
KAFKA_RETRY = RetryPolicy(timeout_s=5.0, try_timeout_s=5.0)

Offsets = Mapping[TopicPartition, CommittedOffset]
Ends = Mapping[TopicPartition, Bounds]

OffsetsOption = Annotated[
    bool, typer.Option("--offsets", help="A line for each offset, as without it.")
]
MembersOption = Annotated[bool, typer.Option("--members", help="A line for each member instead.")]
StateOption = Annotated[bool, typer.Option("--state", help="A line for each group instead.")]
OnlyWithLagOption = Annotated[
    bool, typer.Option("--only-with-lag", help="Only what is known to be behind.")
]


def register(groups: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `groups`."""

    @groups.command("describe")
    def describe(
        group_ids: AnyGroupsArgument = None,
        *,
        offsets: OffsetsOption = False,
        members: MembersOption = False,
        state: StateOption = False,
        only_with_lag: OnlyWithLagOption = False,
        named: NamedGroupsOption = None,
        all_groups: AllGroupsOption = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print how far groups are, how far behind, and who reads what.

        A partition's end is what the Kafka cluster tells that the server names in
        kafka.bootstrap.servers; else what a consumer reported with its last commit.

        Examples:
            offsetd groups describe billing
            offsetd groups describe --all-groups --only-with-lag
            offsetd groups describe billing --members             # who is in it, and reads what
            offsetd groups describe billing --state -o json       # its state, retention and lease
        """
        if offsets + members + state > 1:
            raise typer.BadParameter("--offsets, --members and --state exclude each other")
        if only_with_lag and (members or state):
            raise typer.BadParameter("--only-with-lag is of offsets, not of members or states")
        group_ids = [*(group_ids or ()), *(named or ())]
        check_groups_chosen(group_ids, all_groups=all_groups)
        problem = ""
        with connected(address, timeout, terminal) as client:
            chosen = chosen_groups(client, group_ids, all_groups=all_groups)
            found, failures = each_group(chosen, client.get_group)
            described = [group for _, group in found]
            if members:
                _print(terminal, MEMBER_COLUMNS, described, _member_rows(described))
            elif state:
                _print(terminal, STATE_COLUMNS, described, map(_state_row, described))
            else:
                stored, ends, problem = _fetched(client, described)
                rows = _offset_rows(described, stored, ends, only_with_lag=only_with_lag)
                _print(terminal, OFFSET_COLUMNS, described, rows)
                _tell_of_offsets(terminal, described, stored, ends)
        report_failures(failures, found, address, terminal)
        if problem:
            terminal.fail(
                f"ends of partitions are as last reported, if at all: {problem}", EXIT_PARTLY
            )


def _print(
    terminal: Terminal, columns: Sequence[str], described: Sequence[Group], rows: Iterable[Row]
) -> None:
    """Where no group was found, only that is said."""
    if described:
        terminal.rows(columns, rows)


def _fetched(
    client: OffsetClient, groups: Sequence[Group]
) -> tuple[Mapping[str, Offsets], Ends, str]:
    """What groups have stored, what the partitions have, and why that is not known."""
    stored = client.fetch_many(group.group_id for group in groups)
    partitions = {each for offsets in stored.values() for each in offsets}
    partitions.update(_readers(groups))
    try:
        return stored, client.with_retry(KAFKA_RETRY).fetch_bounds(sorted(partitions)), ""
    except OffsetdError as error:
        return stored, {}, f"{error.reason}: {error}" if error.reason else "no answer in time"


def _readers(groups: Iterable[Group]) -> dict[TopicPartition, GroupMember]:
    return {
        each: member for group in groups for member in group.members for each in member.assignment
    }


def _offset_rows(
    groups: Iterable[Group], stored: Mapping[str, Offsets], ends: Ends, *, only_with_lag: bool
) -> Iterator[Row]:
    for group in groups:
        offsets = stored.get(group.group_id, {})
        for row in _rows_of_group(group, offsets, ends):
            if row["lag"] or not only_with_lag:
                yield row


def _rows_of_group(group: Group, offsets: Offsets, ends: Ends) -> Iterator[Row]:
    """A line for each partition that is read or committed, and for each member without any."""
    readers = _readers([group])
    for where in sorted({*offsets, *readers}):
        committed = offsets.get(where)
        current = committed.offset if committed else None
        end = _end(committed, ends.get(where))
        yield {
            "group": group.group_id,
            "topic": where.topic,
            "partition": where.partition,
            "current_offset": current,
            "log_end_offset": end,
            "lag": None if current is None or end is None else max(0, end - current),
            **_reader_cells(readers.get(where)),
        }
    for member in group.members:
        if not member.assignment:
            yield {"group": group.group_id, "lag": None, **_reader_cells(member)}


def _end(committed: CommittedOffset | None, bounds: Bounds | None) -> int | None:
    if bounds is not None and bounds.latest is not None:
        return bounds.latest
    return committed.end_offset if committed else None


def _reader_cells(member: GroupMember | None) -> Row:
    return {
        "consumer_id": member.member_id if member else None,
        "host": member.client_host if member else None,
        "client_id": member.client_id if member else None,
    }


def _tell_of_offsets(
    terminal: Terminal, groups: Iterable[Group], stored: Mapping[str, Offsets], ends: Ends
) -> None:
    """What a lag does not say: no offsets at all, or offsets that the partition has not."""
    strange: list[str] = []
    for group in groups:
        offsets = stored.get(group.group_id, {})
        if not offsets:
            terminal.note(f"group {group.group_id} has no offsets")
        for where, committed in offsets.items():
            bounds = ends.get(where, Bounds())
            if bounds.latest is not None and committed.offset > bounds.latest:
                strange.append(
                    f"group {group.group_id}, {where}: offset {committed.offset} is ahead of the"
                    f" end, {bounds.latest}"
                )
            elif bounds.earliest is not None and committed.offset < bounds.earliest:
                strange.append(
                    f"group {group.group_id}, {where}: offset {committed.offset} is before the"
                    f" first record, {bounds.earliest}"
                )
    for line in strange[:STRANGE_MAX]:
        terminal.note(line)
    if len(strange) > STRANGE_MAX:
        terminal.note(f"and {len(strange) - STRANGE_MAX} more like these")


def _member_rows(groups: Iterable[Group]) -> Iterator[Row]:
    for group in groups:
        for member in group.members:
            yield {
                "group": group.group_id,
                "consumer_id": member.member_id,
                "group_instance_id": member.instance_id or None,
                "host": member.client_host,
                "client_id": member.client_id,
                "partitions": len(member.assignment),
                "topics": member.topics,
                "assignment": [str(assigned) for assigned in member.assignment],
            }


def _state_row(group: Group) -> Row:
    return {
        "group": group.group_id,
        "type": str(group.type),
        "state": str(group.state),
        "protocol_type": group.protocol_type or None,
        "protocol": group.protocol or None,
        "generation": group.generation,
        "leader_id": group.leader_id or None,
        "members": len(group.members),
        "offsets": group.offset_count,
        "log_partition": group.log_partition,
        "state_time": group.state_time,
        "retention": retention_text(group.retention),
        "lease_holder": group.lease.holder if group.lease else None,
        "lease_epoch": group.lease.epoch if group.lease else None,
        "lease_expire_time": group.lease.expire_time if group.lease else None,
    }
