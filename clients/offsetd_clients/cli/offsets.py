"""`offsetd commit` and `offsetd fetch`."""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Annotated

import typer

from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.durations import parse_duration
from offsetd_clients.cli.options import GroupArgument, GroupsArgument
from offsetd_clients.cli.terminal import Row, Terminal
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
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
_DIGITS_MAX = 100  # What is longer is not worth a look at its value.

PositionsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC:PARTITION=OFFSET", help="Where to go on from, as in orders:0=42."
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
        help="Commit only if each stored offset is this.",
    ),
]


def duration(text: str) -> timedelta:
    """A span of time, for typer."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


EpochOption = Annotated[
    int | None,
    typer.Option(min=0, max=INT64_MAX, metavar="EPOCH", help="That of the group's lease."),
]
EndOffsetOption = Annotated[
    int | None,
    typer.Option(
        min=0, max=INT64_MAX, metavar="OFFSET", help="Where each partition ends, for lag."
    ),
]
RetentionOption = Annotated[
    timedelta | None,
    typer.Option(
        parser=duration, metavar="TIME", help="Keep these offsets so long, as in 12h or 7d."
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
            bool, typer.Option("--must-not-exist", help="Commit only if none is stored.")
        ] = False,
        monotonic: Annotated[
            bool, typer.Option("--monotonic", help="Commit only if no offset goes back.")
        ] = False,
        epoch: EpochOption = None,
        end_offset: EndOffsetOption = None,
        retention: RetentionOption = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Show what is stored now; commit nothing.")
        ] = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Commit offsets of a group: all of them or, on any error, none.

        Examples:
            offsetd commit billing orders:0=42 orders:1=7
            offsetd commit billing orders:0=43 --expected-offset 42     # unless somebody was faster
            offsetd commit billing orders:0=43 --end-offset 50          # so that its lag is known
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
            terminal.note("dry run: nothing was committed")


def register_fetch(app: typer.Typer, terminal: Terminal) -> None:
    """Adds `fetch`."""

    @app.command("fetch")
    def fetch(
        groups: GroupsArgument,
        *,
        topics: Annotated[
            list[str], typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeatable.")
        ] = [],  # noqa: B006  # typer's way to say: none unless given
        stable: Annotated[
            bool,
            typer.Option("--stable", help="Wait for transactions that have offsets pending."),
        ] = False,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Print the stored offsets of groups. A group without any prints nothing.

        Examples:
            offsetd fetch billing
            offsetd fetch billing --topic orders -o csv
            offsetd fetch billing audit -o jsonl | jq -c '[.topic, .partition, .offset]'
        """
        with connected(address, timeout, terminal) as client:
            offsets_of = client.fetch_many(groups, require_stable=stable)
        terminal.rows(FETCH_COLUMNS, fetch_rows(offsets_of, topics))
        for group, offsets in offsets_of.items():
            if not offsets:
                terminal.note(f"group {group} has no offsets")


def parse_position(text: str) -> tuple[TopicPartition, int]:
    """`TOPIC:PARTITION=OFFSET`, split from its end: a topic may hold both signs.

    Raises typer.BadParameter.
    """
    name, _, offset = text.rpartition("=")
    topic, _, partition = name.rpartition(":")
    if not topic or not partition or not offset:
        raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION=OFFSET")
    for name, number, largest in (
        ("partition", partition, INT32_MAX),
        ("offset", offset, INT64_MAX),
    ):
        if not (number.isascii() and number.isdigit()):
            why = f"{name} {number!r} is not a whole number of 0 or more"
            raise typer.BadParameter(f"{text!r}: {why}")
        if len(number) > _DIGITS_MAX or int(number) > largest:
            raise typer.BadParameter(f"{text!r}: the largest {name} is {largest}")
    return TopicPartition(topic, int(partition)), int(offset)


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
    topics: Collection[str] = (),
) -> Iterator[Row]:
    """Stored offsets by group; no topics are all."""
    for group, offsets in offsets_of.items():
        for topic_partition, offset in offsets.items():
            if topics and topic_partition.topic not in topics:
                continue
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
