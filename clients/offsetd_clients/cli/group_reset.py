"""`offsetd groups reset`: where to, of what, and what came of it."""

import csv
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from offsetd_clients.change_messages import ResetTarget
from offsetd_clients.change_values import Bounds, ResetOffsets, ResetTo, ShiftBy, ToOffset
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
)
from offsetd_clients.cli.durations import parse_duration
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.offsets import INT32_MAX, INT64_MAX
from offsetd_clients.cli.options import GroupsArgument, ReasonOption
from offsetd_clients.cli.terminal import Row, Terminal
from offsetd_clients.cli.user_files import read_file
from offsetd_clients.values import TopicPartition

CHANGE_COLUMNS = ("group", "topic", "partition", "offset", "new_offset", "revision")

_ISO_DURATION = re.compile(
    r"P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
_BOUND = re.compile(r"(.+):([0-9]+)=([0-9]*)\.\.([0-9]*)")
_PARTITIONS = re.compile(r"[0-9]+(,[0-9]+)*")

ToOffsetOption = Annotated[
    int | None, typer.Option(min=0, max=INT64_MAX, metavar="OFFSET", help="To this one.")
]
ShiftByOption = Annotated[
    int | None,
    typer.Option(min=-INT64_MAX, max=INT64_MAX, metavar="N", help="So much further, or back."),
]
ToEarliestOption = Annotated[bool, typer.Option("--to-earliest", help="To the first.")]
ToLatestOption = Annotated[bool, typer.Option("--to-latest", help="Behind the last.")]
ToCurrentOption = Annotated[
    bool, typer.Option("--to-current", help="To what is committed, written again.")
]
ToDatetimeOption = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="To what was committed then: ISO 8601, else UTC."),
]
ByDurationOption = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="To what was committed so long ago: 12h, PT12H."),
]
FromFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="To the offsets of a CSV file.")
]
ChosenTopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC[:P,…]", help="Of this topic; repeatable."),
]
AllTopicsOption = Annotated[
    bool, typer.Option("--all-topics", help="Of all topics that the group has.")
]
BoundsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="TOPIC:P=FIRST..END",
        help="What a partition has, where the server does not know; repeatable.",
    ),
]
ForceOption = Annotated[bool, typer.Option("--force", help="Also while a group has members.")]
ExecuteOption = Annotated[
    bool, typer.Option("--execute", help="Do it; else only show what it would do.")
]


def register(groups: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommand to `groups`."""

    @groups.command("reset")
    def reset(
        group_ids: GroupsArgument,
        *,
        to_offset: ToOffsetOption = None,
        shift_by: ShiftByOption = None,
        to_earliest: ToEarliestOption = False,
        to_latest: ToLatestOption = False,
        to_current: ToCurrentOption = False,
        to_datetime: ToDatetimeOption = None,
        by_duration: ByDurationOption = None,
        from_file: FromFileOption = None,
        topics: ChosenTopicsOption = None,
        all_topics: AllTopicsOption = False,
        bounds: BoundsOption = None,
        force: ForceOption = False,
        execute: ExecuteOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Move the offsets of groups, each of them all or none. Nothing happens without --execute.

        A target that a partition has not is an error, and nothing is moved to the nearest.
        """
        target = _one_target(
            None if to_offset is None else ToOffset(to_offset),
            None if shift_by is None else ShiftBy(shift_by),
            ResetTo.EARLIEST if to_earliest else None,
            ResetTo.LATEST if to_latest else None,
            ResetTo.CURRENT if to_current else None,
            None if to_datetime is None else parse_time(to_datetime),
            None if by_duration is None else parse_span(by_duration),
            from_file,
        )
        _check_chosen_once(from_file is not None, bool(topics), all_topics)
        whole_topics, partitions = parse_topics(topics or ())
        known, targets = dict(map(_parse_bound, bounds or ())), _targets(target, group_ids)
        with connected(address, timeout, terminal) as client:
            done, failures = each_group(
                group_ids,
                lambda group_id: client.reset_offsets(
                    group_id,
                    targets[group_id],
                    partitions,
                    topics=whole_topics,
                    bounds=known,
                    force=force,
                    validate_only=not execute,
                    reason=reason,
                ),
            )
        if done:
            terminal.rows(CHANGE_COLUMNS, _change_rows(done))
        if not execute:
            terminal.note("dry run: nothing was changed; --execute does it")
        report_failures(failures, done, address, terminal)


def parse_topics(texts: Iterable[str]) -> tuple[list[str], list[TopicPartition]]:
    """Whole topics, and partitions: a topic may have a colon, where no numbers follow it."""
    topics: list[str] = []
    partitions: list[TopicPartition] = []
    for text in texts:
        topic, colon, numbers = text.rpartition(":")
        if not colon or not topic or not _PARTITIONS.fullmatch(numbers):
            topics.append(text)
            continue
        partitions += (TopicPartition(topic, number) for number in _numbers(numbers, text))
    return topics, partitions


def parse_time(text: str) -> datetime:
    """As Kafka's tool takes it, `2026-11-20T21:06:15.341`, UTC unless it has a zone."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time like 2026-11-20T21:06:15.341") from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def parse_span(text: str) -> timedelta:
    """As Kafka's tool takes it, `P1DT12H`, or as elsewhere here, `36h`."""
    found = _ISO_DURATION.fullmatch(text)
    try:
        if found is None or not any(found.groups()):
            return parse_duration(text)
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is no span of time like 36h or P1DT12H") from None


def read_csv(file: Path, group_ids: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of each group: `topic,partition,offset` where there is one group, else with the
    group before. Raises typer.BadParameter.
    """
    asked = list(dict.fromkeys(group_ids))
    offsets: dict[str, dict[TopicPartition, int]] = {group_id: {} for group_id in asked}
    try:
        text = read_file(file).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file}: {error}") from None
    for cells in csv.reader(text.splitlines()):
        if not cells:
            continue
        where = f"{file}: {','.join(cells)!r}"
        if len(cells) == 3 and len(asked) == 1:
            cells.insert(0, asked[0])
        if len(cells) != 4:
            raise typer.BadParameter(f"{where} is not TOPIC,PARTITION,OFFSET with its group")
        group, topic, *numbers = cells
        partition, offset = (_number(each, where) for each in numbers)
        if group not in offsets:
            continue  # Not asked for.
        if partition > INT32_MAX or offset > INT64_MAX:
            raise typer.BadParameter(f"{where}: too large a number")
        if TopicPartition(topic, partition) in offsets[group]:
            raise typer.BadParameter(f"{where}: the partition is there twice")
        offsets[group][TopicPartition(topic, partition)] = offset
    for group, found in offsets.items():
        if not found:
            raise typer.BadParameter(f"{file} has nothing of group {group}")
    return offsets


def _targets(target: ResetTarget | Path, group_ids: Iterable[str]) -> dict[str, ResetTarget]:
    if isinstance(target, Path):
        return dict(read_csv(target, group_ids))
    return dict.fromkeys(group_ids, target)


def _one_target(*targets: ResetTarget | Path | None) -> ResetTarget | Path:
    given = [target for target in targets if target is not None]
    if len(given) != 1:
        raise typer.BadParameter(
            "say where to, once: --to-offset, --shift-by, --to-earliest, --to-latest,"
            " --to-current, --to-datetime, --by-duration or --from-file"
        )
    return given[0]


def _check_chosen_once(*are_given: bool) -> None:
    if sum(are_given) != 1:
        raise typer.BadParameter("say either --topic, --all-topics or --from-file")


def _parse_bound(text: str) -> tuple[TopicPartition, Bounds]:
    found = _BOUND.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION=FIRST..END")
    topic, partition, earliest, latest = found.groups()
    bounds = Bounds(
        _number(earliest, text) if earliest else None, _number(latest, text) if latest else None
    )
    return TopicPartition(topic, _number(partition, text)), bounds


def _numbers(text: str, where: str) -> list[int]:
    return [_number(each, where) for each in text.split(",")]


def _number(text: str, where: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(INT64_MAX)):
        raise typer.BadParameter(f"{where}: {text!r} is no whole number")
    return int(text)


def _change_rows(done: Iterable[tuple[str, ResetOffsets]]) -> Iterator[Row]:
    for group_id, answer in done:
        for change in answer.changes:
            yield {
                "group": group_id,
                "topic": change.topic_partition.topic,
                "partition": change.topic_partition.partition,
                "offset": change.before,
                "new_offset": change.after,
                "revision": change.revision.log_offset if change.revision else None,
            }
