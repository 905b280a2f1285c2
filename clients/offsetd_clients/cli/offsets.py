"""`offsetd commit` and `offsetd fetch`."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Annotated

import typer

from offsetd_clients.cli.arguments.group_choice import GroupChoice, offsets_of_groups, with_groups
from offsetd_clients.cli.arguments.options import GroupArgument
from offsetd_clients.cli.arguments.time_spans import parse_duration
from offsetd_clients.cli.arguments.topic_choice import ShownTopicsOption, TopicChoice
from offsetd_clients.cli.arguments.whole_numbers import INT32_MAX, INT64_MAX, parse_whole_number
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.printing.row_order import RowOrder, SortOption
from offsetd_clients.cli.printing.terminal import Row, Terminal, named_id
from offsetd_clients.errors import OffsetdError, OffsetsDamaged
from offsetd_clients.values import CommittedOffset, OffsetToCommit, Revision, TopicPartition

COMMIT_COLUMNS = ("group", "topic", "partition", "offset", "stored_offset", "revision")
FETCH_COLUMNS = (
    "group",
    "topic",
    "partition",
    "offset",
    "end_offset",
    "leader_epoch",
    "commit_time",
    "expire_time",
    "revision",
    "metadata",
)
FETCH_DROPPABLE = ("leader_epoch", "metadata", "revision", "expire_time", "commit_time")

PositionsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC:PARTITION=OFFSET", help="The next offset to consume, as in orders:0=42."
    ),
]
MetadataOption = Annotated[
    str, typer.Option(metavar="TEXT", help="Text to store with each offset.")
]
LeaderEpochOption = Annotated[
    int | None,
    typer.Option(min=0, max=INT32_MAX, metavar="EPOCH", help="The leader epoch of each offset."),
]
ExpectedOffsetOption = Annotated[
    int | None,
    typer.Option(
        "--expected-offset",
        min=0,
        max=INT64_MAX,
        metavar="OFFSET",
        help="Commit only if this is each partition's stored offset.",
    ),
]


def duration(text: str) -> timedelta:
    """Reads a duration, for typer."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


EpochOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=INT64_MAX,
        metavar="EPOCH",
        help="Commit as the holder of the lease with this epoch.",
    ),
]
EndOffsetOption = Annotated[
    int | None,
    typer.Option(
        min=0, max=INT64_MAX, metavar="OFFSET", help="The end of each partition, for lag."
    ),
]
RetentionOption = Annotated[
    timedelta | None,
    typer.Option(
        parser=duration, metavar="TIME", help="Keep these offsets for this long, as in 12h or 7d."
    ),
]


def register_commit(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `commit`."""

    @app.command("commit")
    def commit(
        group: GroupArgument,
        positions: PositionsArgument,
        *,
        metadata: MetadataOption = "",
        leader_epoch: LeaderEpochOption = None,
        expect: ExpectedOffsetOption = None,
        must_not_exist: Annotated[
            bool, typer.Option("--must-not-exist", help="Commit only if no offset is stored.")
        ] = False,
        monotonic: Annotated[
            bool, typer.Option("--monotonic", help="Commit only if no offset goes back.")
        ] = False,
        epoch: EpochOption = None,
        end_offset: EndOffsetOption = None,
        retention: RetentionOption = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Print the stored offsets; commit nothing.")
        ] = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Commit offsets of a group: all of them or, on any error, none.

        Examples:
            offsetd commit billing orders:0=42 orders:1=7
            offsetd commit billing orders:0=43 --expected-offset 42  # if it is 42
            offsetd commit billing orders:0=43 --end-offset 50       # lag: 7
        """
        if expect is not None and must_not_exist:
            raise typer.BadParameter("--expected-offset and --must-not-exist exclude each other")
        offsets = {
            topic_partition: OffsetToCommit(
                offset,
                leader_epoch=leader_epoch,
                metadata=metadata,
                expected_offset=expect,
                must_not_exist=must_not_exist,
                monotonic=monotonic,
                end_offset=end_offset,
            )
            for topic_partition, offset in _parse_positions(positions).items()
        }
        with connected(address, timeout, terminal) as client:
            stored = client.fetch(group, offsets) if dry_run else {}
            revision = None
            if not dry_run:
                revision = client.commit(group, offsets, epoch=epoch, retention=retention)
        columns = [c for c in COMMIT_COLUMNS if c != ("revision" if dry_run else "stored_offset")]
        terminal.rows(columns, _commit_rows(group, offsets, stored, revision))
        if dry_run:
            terminal.note("dry run: nothing was committed, and no precondition was checked")


def register_fetch(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `fetch`."""

    @app.command("fetch")
    @with_groups
    def fetch(
        groups: GroupChoice,
        *,
        topics: ShownTopicsOption = None,
        sort: SortOption = None,
        stable: Annotated[
            bool,
            typer.Option("--stable", help="Wait for transactions with pending offsets."),
        ] = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the stored offsets of groups. A group without offsets prints only a note.

        Examples:
            offsetd fetch billing
            offsetd fetch billing --topic orders:0,1 -o csv
            offsetd fetch billing audit -o jsonl | jq -c '[.topic, .partition, .offset]'
            offsetd fetch --all-groups --sort commit-time   # the oldest commits first
        """
        chosen, order = TopicChoice.of(topics), RowOrder.of(sort, FETCH_COLUMNS)
        with connected(address, timeout, terminal) as client:
            ids = tuple(groups.ids(client, terminal))
            damaged: list[tuple[str, OffsetdError]] = []
            try:
                stored = offsets_of_groups(client, ids, require_stable=stable)
            except OffsetsDamaged:  # Some groups are damaged: the others are printed.
                fetched, damaged = each_group(ids, partial(client.fetch, require_stable=stable))
                stored = dict(fetched)
            without = [group for group, offsets in stored.items() if not offsets]
            # A fetch returns an answer for any name, so another call checks whether the group
            # exists.
            there, failures = each_group(without, client.get_group)
        absent = {group for group, _ in failures}
        offsets_of = {
            group: chosen.of_offsets(stored[group]) for group in stored if group not in absent
        }
        if offsets_of:
            rows = order.ordered(fetch_rows(offsets_of))
            terminal.rows(FETCH_COLUMNS, rows, droppable=FETCH_DROPPABLE)
        for group, _ in () if groups.all_groups else there:
            terminal.note(f"{named_id(group)} has no offsets")
        for group in groups.named:
            if stored.get(group) and not offsets_of[group]:
                terminal.note(f"{named_id(group)} has no offset of {chosen}")
        report_failures([*damaged, *failures], tuple(offsets_of), address, terminal)


def parse_position(text: str) -> tuple[TopicPartition, int]:
    """Reads `TOPIC:PARTITION=OFFSET` from its end: a topic may contain both signs.

    Raises typer.BadParameter.
    """
    name, _, offset = text.rpartition("=")
    topic, _, partition = name.rpartition(":")
    if not topic or not partition or not offset:
        raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION=OFFSET")
    where = TopicPartition(
        topic, parse_whole_number(partition, repr(text), largest=INT32_MAX, name="partition")
    )
    return where, parse_whole_number(offset, repr(text), largest=INT64_MAX, name="offset")


def _parse_positions(texts: list[str]) -> Mapping[TopicPartition, int]:
    positions: dict[TopicPartition, int] = {}
    for text in texts:
        topic_partition, offset = parse_position(text)
        if topic_partition in positions:
            raise typer.BadParameter(f"{topic_partition} is named twice")
        positions[topic_partition] = offset
    return positions


def _commit_rows(
    group: str,
    offsets: Mapping[TopicPartition, OffsetToCommit],
    stored: Mapping[TopicPartition, CommittedOffset],
    revision: Revision | None,
) -> Iterator[Row]:
    for index, (topic_partition, to_commit) in enumerate(offsets.items()):
        before = stored.get(topic_partition)
        yield {
            "group": group,
            "topic": topic_partition.topic,
            "partition": topic_partition.partition,
            "offset": to_commit.offset,
            "stored_offset": before.offset if before else None,
            "revision": revision.log_offset - len(offsets) + 1 + index if revision else None,
        }


def fetch_rows(
    offsets_of: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
) -> Iterator[Row]:
    """The rows of stored offsets, by group."""
    for group, offsets in offsets_of.items():
        for topic_partition, offset in offsets.items():
            yield {
                "group": group,
                "topic": topic_partition.topic,
                "partition": topic_partition.partition,
                "offset": offset.offset,
                "end_offset": offset.end_offset,
                "leader_epoch": offset.leader_epoch,
                "commit_time": offset.commit_time,
                "expire_time": offset.expire_time,
                "revision": offset.revision,
                "metadata": offset.metadata,
            }
