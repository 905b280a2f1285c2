"""What `offsetd groups reset` is told, read: topics, times, spans, bounds, files."""

import csv
import re
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from offsetd_clients import Bounds, TopicPartition
from offsetd_clients.cli.durations import parse_duration
from offsetd_clients.cli.offsets import INT32_MAX, INT64_MAX
from offsetd_clients.cli.user_files import read_file

_ISO_DURATION = re.compile(
    r"P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
_BOUND = re.compile(r"(.+):([0-9]+)=([0-9]*)\.\.([0-9]*)")
_PARTITIONS = re.compile(r"[0-9]+(,[0-9]+)*")


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


def read_csv(file: Path, group_ids: Iterable[str] | None) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of each group: `topic,partition,offset` where there is one group, else with the
    group before; None: all groups of the file. Raises typer.BadParameter.
    """
    asked = None if group_ids is None else list(dict.fromkeys(group_ids))
    offsets: dict[str, dict[TopicPartition, int]] = {group_id: {} for group_id in asked or ()}
    for number, cells in _csv_rows(file):
        where = f"{file}, line {number}: {','.join(cells)!r}"
        if len(cells) == 3 and asked is not None and len(asked) == 1:
            cells.insert(0, asked[0])
        if len(cells) != 4:
            raise typer.BadParameter(f"{where} is not {_line_form(asked)}")
        group, topic, *numbers = cells
        if asked is None:
            offsets.setdefault(group, {})
        elif group not in offsets:
            continue  # Not asked for.
        partition, offset = (_number(each, where) for each in numbers)
        if partition > INT32_MAX or offset > INT64_MAX:
            raise typer.BadParameter(f"{where}: too large a number")
        if TopicPartition(topic, partition) in offsets[group]:
            raise typer.BadParameter(f"{where}: the partition is there twice")
        offsets[group][TopicPartition(topic, partition)] = offset
    for group, found in offsets.items():
        if not found:
            raise typer.BadParameter(f"{file} has nothing of group {group}")
    if not offsets:
        raise typer.BadParameter(f"{file} is empty")
    return offsets


def _csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines with something in them, each with its number."""
    try:
        text = read_file(file).decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file}: {error}") from None
    rows = csv.reader(text.splitlines())
    for cells in rows:
        if cells:
            yield rows.line_num, cells


def _line_form(asked: Collection[str] | None) -> str:
    several = "GROUP,TOPIC,PARTITION,OFFSET"
    return f"TOPIC,PARTITION,OFFSET or {several}" if asked and len(asked) == 1 else several


def parse_bound(text: str) -> tuple[TopicPartition, Bounds]:
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
