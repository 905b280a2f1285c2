"""`offsetd groups describe`: the progress, the lag and the members of groups."""

from collections import Counter
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
from offsetd_clients.cli.arguments.group_choice import GroupChoice, offsets_of_groups, with_groups
from offsetd_clients.cli.arguments.time_spans import retention_text
from offsetd_clients.cli.arguments.topic_choice import ShownTopicsOption, TopicChoice
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.printing.row_order import RowOrder, SortOption
from offsetd_clients.cli.printing.terminal import EXIT_PARTLY, OutputFormat, Row, Terminal, named_id

# The columns of kafka-consumer-groups --describe.
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
    "verdict",
)
OFFSET_DROPPABLE = ("client_id", "host", "consumer_id", "log_end_offset")
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
MEMBER_DROPPABLE = ("host", "client_id", "group_instance_id", "topics", "assignment")
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
    "verdict",
)
STATE_DROPPABLE = (
    "protocol_type",
    "leader_id",
    "log_partition",
    "lease_expire_time",
    "state_time",
    "generation",
    "type",
    "protocol",
    "retention",
    "lease_epoch",
    "lease_holder",
)
# Other names of columns, for `--sort`.
SORT_ALIASES = {"offset": "current_offset", "end": "log_end_offset", "member": "consumer_id"}
STRANGE_MAX = 10
# If there are more groups than this, one line describes all of them.
TOLD_GROUPS_MAX = 10
# The lag is not worth a longer wait.
KAFKA_RETRY = RetryPolicy(timeout_s=5.0, try_timeout_s=5.0)

Offsets = Mapping[TopicPartition, CommittedOffset]
Ends = Mapping[TopicPartition, Bounds]
Verdicts = Mapping[TopicPartition, str | None]

OffsetsOption = Annotated[
    bool, typer.Option("--offsets", help="A line for each offset (the default).")
]
MembersOption = Annotated[bool, typer.Option("--members", help="A line for each member.")]
StateOption = Annotated[bool, typer.Option("--state", help="A line for each group.")]
OnlyWithLagOption = Annotated[
    bool, typer.Option("--only-with-lag", help="Only partitions with a known lag above 0.")
]


def register(app: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `app`."""

    @app.command("describe")
    @with_groups
    def describe(
        groups: GroupChoice,
        *,
        offsets: OffsetsOption = False,
        members: MembersOption = False,
        state: StateOption = False,
        only_with_lag: OnlyWithLagOption = False,
        topics: ShownTopicsOption = None,
        sort: SortOption = None,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the progress of groups, their lag, and which member reads what.

        The end of a partition comes from the Kafka cluster that the server names in
        kafka.bootstrap.servers; otherwise from the last commit of a consumer that reported it.
        The verdict rests on what consumers reported.

        Examples:
            offsetd groups describe billing
            offsetd groups describe --all-groups --only-with-lag --sort -lag
            offsetd groups describe billing --topic orders:0,1
            offsetd groups describe billing --members        # who reads what
            offsetd groups describe billing --state -o json  # retention, lease
        """
        _check_view(
            views=offsets + members + state,
            lag_of_others=only_with_lag and (members or state),
            topics_of_state=bool(topics) and state,
        )
        columns = MEMBER_COLUMNS if members else STATE_COLUMNS if state else OFFSET_COLUMNS
        order, chosen = RowOrder.of(sort, columns, SORT_ALIASES), TopicChoice.of(topics)
        problem = ""
        with connected(address, timeout, terminal) as client:
            found, failures = each_group(groups.ids(client, terminal), client.get_group)
            described = [group for _, group in found]
            if members:
                rows = order.ordered(_member_rows(described, chosen))
                _tell_of_members(terminal, described)
                _print(terminal, described, MEMBER_COLUMNS, rows, MEMBER_DROPPABLE)
            elif state:
                rows = order.ordered(map(_state_row, described))
                _print(terminal, described, STATE_COLUMNS, rows, STATE_DROPPABLE)
            else:
                stored, ends, problem = _fetched(client, described, chosen)
                verdicts = _verdicts(client, described)
                _tell_of_lag(terminal, described, stored, ends)
                rows = _offset_rows(described, stored, ends, verdicts, chosen)
                rows = order.ordered(row for row in rows if row["lag"] or not only_with_lag)
                _print(terminal, described, OFFSET_COLUMNS, rows, OFFSET_DROPPABLE)
                absent = _absent(chosen, all_groups=groups.all_groups)
                _tell_of_offsets(terminal, described, stored, ends, absent)
        report_failures(failures, found, address, terminal)
        if problem:
            terminal.fail(problem, EXIT_PARTLY)


def _check_view(*, views: int, lag_of_others: bool, topics_of_state: bool) -> None:
    if views > 1:
        raise typer.BadParameter("--offsets, --members and --state exclude each other")
    if lag_of_others:
        raise typer.BadParameter("--only-with-lag needs offsets: not with --members or --state")
    if topics_of_state:
        raise typer.BadParameter("--topic needs offsets or members: not with --state")


def _print(
    terminal: Terminal,
    described: Sequence[Group],
    columns: Sequence[str],
    rows: Iterable[Row],
    droppable: Sequence[str],
) -> None:
    """Prints the rows, unless no group was found, which was already reported."""
    if described:
        terminal.rows(columns, rows, droppable=droppable)


def _fetched(
    client: OffsetClient, groups: Sequence[Group], chosen: TopicChoice
) -> tuple[Mapping[str, Offsets], Ends, str]:
    """The stored offsets, the ends of the partitions, and the reason why ends are unknown."""
    of_all = offsets_of_groups(client, (group.group_id for group in groups))
    stored = {group_id: chosen.of_offsets(offsets) for group_id, offsets in of_all.items()}
    partitions = {each for offsets in stored.values() for each in offsets}
    partitions.update(chosen.of_offsets(_readers(groups)))
    try:
        return stored, client.with_retry(KAFKA_RETRY).fetch_bounds(sorted(partitions)), ""
    except OffsetdError as error:
        problem = f"{error.reason}: {error}" if error.reason else "no answer in time"
        return stored, {}, f"ends of partitions are as last reported, if at all: {problem}"


def _verdicts(client: OffsetClient, groups: Iterable[Group]) -> dict[str, Verdicts]:
    """The verdict on each partition of the groups that have any."""
    judged = [group.group_id for group in groups if group.lag_verdict is not None]
    lags, _ = each_group(judged, client.get_group_lags)
    return {
        group_id: {where: lag.verdict and str(lag.verdict) for where, lag in partitions.items()}
        for group_id, partitions in lags
    }


def _readers(groups: Iterable[Group]) -> dict[TopicPartition, GroupMember]:
    return {
        each: member for group in groups for member in group.members for each in member.assignment
    }


def _offset_rows(
    groups: Iterable[Group],
    stored: Mapping[str, Offsets],
    ends: Ends,
    verdicts: Mapping[str, Verdicts],
    chosen: TopicChoice,
) -> Iterator[Row]:
    for group in groups:
        offsets = stored.get(group.group_id, {})
        yield from _rows_of_group(group, offsets, ends, verdicts.get(group.group_id, {}), chosen)


def _rows_of_group(
    group: Group, offsets: Offsets, ends: Ends, verdicts: Verdicts, chosen: TopicChoice
) -> Iterator[Row]:
    """A row for each partition that is read or committed, and for each member without any."""
    readers = chosen.of_offsets(_readers([group]))
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
            "lag": _lag(current, end),
            "verdict": verdicts.get(where),
            **_reader_cells(readers.get(where)),
        }
    for member in group.members:
        if not (member.assignment or chosen):
            unread = {"group": group.group_id, "lag": None, "verdict": None}
            yield {**unread, **_reader_cells(member)}


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


def _tell_of_lag(
    terminal: Terminal, groups: Sequence[Group], stored: Mapping[str, Offsets], ends: Ends
) -> None:
    """Prints a line for each group above a table: its state, its members, its lag.

    Many groups share one line.
    """
    if terminal.output_format is not OutputFormat.TABLE:
        return
    lags = {
        group.group_id: [
            _lag(committed.offset, _end(committed, ends.get(where)))
            for where, committed in stored.get(group.group_id, {}).items()
        ]
        for group in groups
    }
    if len(groups) > TOLD_GROUPS_MAX:
        states = Counter(str(group.state) for group in groups)
        told = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        all_lags = [lag for of_group in lags.values() for lag in of_group]
        terminal.note(f"{len(groups)} groups: {told}; {_lag_text(all_lags)}")
        return
    for group in groups:
        nobody = "" if group.members else ", no active members"
        told = f"{group.state}{nobody}; {_lag_text(lags[group.group_id])}"
        terminal.note(f"{named_id(group.group_id)}: {told}")


def _lag_text(lags: Sequence[int | None]) -> str:
    known = [lag for lag in lags if lag is not None]
    if not known:
        return "total lag unknown" if lags else "no lag"
    missing = len(lags) - len(known)
    rest = f", without {missing} of {len(lags)} partitions whose end is unknown" if missing else ""
    return f"total lag {sum(known)}{rest}"


def _tell_of_members(terminal: Terminal, groups: Sequence[Group]) -> None:
    """Reports the groups that have no row because they have no members."""
    if terminal.output_format is not OutputFormat.TABLE:
        return
    empty = [group.group_id for group in groups if not group.members]
    for group_id in empty[:STRANGE_MAX]:
        terminal.note(f"{named_id(group_id)} has no active members")
    if len(empty) > STRANGE_MAX:
        terminal.note(f"and {len(empty) - STRANGE_MAX} more like these")


def _lag(current: int | None, end: int | None) -> int | None:
    return None if current is None or end is None else max(0, end - current)


def _absent(chosen: TopicChoice, *, all_groups: bool) -> str:
    """The kind of offset that a group may lack, if the user must know it. Else empty."""
    if not chosen:
        return "offsets"
    return "" if all_groups else f"offset of {chosen}"


def _tell_of_offsets(
    terminal: Terminal,
    groups: Iterable[Group],
    stored: Mapping[str, Offsets],
    ends: Ends,
    absent: str,
) -> None:
    """Reports offsets outside their partition, and groups without offsets: the lag has neither.

    `absent` is the kind of offset that a group may lack. If it is empty, it is not reported.
    """
    strange: list[str] = []
    for group in groups:
        offsets = stored.get(group.group_id, {})
        if absent and not offsets:
            strange.append(f"{named_id(group.group_id)} has no {absent}")
        for where, committed in offsets.items():
            bounds = ends.get(where, Bounds())
            if bounds.latest is not None and committed.offset > bounds.latest:
                strange.append(
                    f"{named_id(group.group_id)}, {where}: offset {committed.offset} is ahead of"
                    f" the end, {bounds.latest}"
                )
            elif bounds.earliest is not None and committed.offset < bounds.earliest:
                strange.append(
                    f"{named_id(group.group_id)}, {where}: offset {committed.offset} is before"
                    f" the first record, {bounds.earliest}"
                )
    for line in strange[:STRANGE_MAX]:
        terminal.note(line)
    if len(strange) > STRANGE_MAX:
        terminal.note(f"and {len(strange) - STRANGE_MAX} more like these")


def _member_rows(groups: Iterable[Group], chosen: TopicChoice) -> Iterator[Row]:
    for group in groups:
        for member in group.members:
            if not chosen.reads_any(member.topics, member.assignment):
                continue
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
        "verdict": None if group.lag_verdict is None else str(group.lag_verdict),
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
