"""Readers for `offsetd groups reset|seek`: topics, times, durations, bounds, files."""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from offsetd_clients import Bounds, TopicPartition
from offsetd_clients.cli.arguments.time_spans import parse_duration
from offsetd_clients.cli.arguments.user_files import read_file
from offsetd_clients.cli.arguments.whole_numbers import INT32_MAX, INT64_MAX, parse_whole_number
from offsetd_clients.cli.printing.plain_text import error_words
from offsetd_clients.plurals import counted

_ISO_DURATION = re.compile(
    r"P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
_BOUND = re.compile(r"(.+):([0-9]+)=([0-9]*)\.\.([0-9]*)")
# The units of a second, by the number of digits of a present time in that unit: seconds,
# milliseconds or nanoseconds.
_UNITS_OF_DIGITS = {10: 1, 13: 1_000, 19: 1_000_000_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERED = re.compile(r".:[0-9]+(,|$)")
_PARTITIONS = re.compile(r"[0-9]+(,[0-9]+)*")


def parse_topics(texts: Iterable[str]) -> tuple[list[str], list[TopicPartition]]:
    """Reads whole topics, and partitions. A topic may contain a colon that no numbers follow.

    Raises typer.BadParameter for a text that seems to name several topics.
    """
    topics: list[str] = []
    partitions: list[TopicPartition] = []
    for text in texts:
        topic, colon, numbers = text.rpartition(":")
        has_numbers = colon and topic and _PARTITIONS.fullmatch(numbers)
        name = topic if has_numbers else text
        if _NUMBERED.search(name) or (has_numbers and "," in name):
            raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:P,P; --topic may be repeated")
        if not has_numbers:
            topics.append(text)
            continue
        partitions += (
            TopicPartition(topic, _partition(number, repr(text))) for number in numbers.split(",")
        )
    return topics, partitions


def parse_time(text: str) -> datetime:
    """Reads a time as Kafka's tool does, `2026-11-20T21:06:15.341`. UTC unless it has a zone."""
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a time like 2026-11-20T21:06:15.341") from None
    except OverflowError:
        raise typer.BadParameter(f"{text!r} is not in the years 1 to 9999 in UTC") from None


def parse_seek_time(text: str) -> datetime:
    """Reads a time as rpk does, by its number of digits, or as `parse_time` does.

    Raises typer.BadParameter.
    """
    divisor = _UNITS_OF_DIGITS.get(len(text)) if text.isascii() and text.isdigit() else None
    if divisor is None:
        if text.isdigit():
            raise typer.BadParameter(f"{text!r}: a time since 1970 has 10, 13 or 19 digits")
        return parse_time(text)
    return _EPOCH + timedelta(microseconds=int(text) * 1_000_000 // divisor)


def parse_span(text: str) -> timedelta:
    """Reads a duration as Kafka's tool does, `P1DT12H`, or as other options do, `36h`."""
    found = _ISO_DURATION.fullmatch(text)
    try:
        if found is None or not any(found.groups()):
            return parse_duration(text)
        days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{text!r} is not a duration like 36h or P1DT12H") from None


def read_csv(
    file: Path,
    group_ids: Iterable[str] | None,
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, dict[TopicPartition, int]]:
    """The offsets of each group in a CSV file.

    The lines are `topic,partition,offset` for one group, else `group,topic,partition,offset`. If
    `group_ids` is None, all groups of the file are read. `note` receives a message with the number
    of lines of other groups. Raises typer.BadParameter.
    """
    others = 0
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
            others += 1
            continue
        partition, offset = _partition(numbers[0], where), _offset(numbers[1], where)
        if TopicPartition(topic, partition) in offsets[group]:
            raise typer.BadParameter(f"{where}: the partition is there twice")
        offsets[group][TopicPartition(topic, partition)] = offset
    for group, found in offsets.items():
        if not found:
            raise typer.BadParameter(f"{file} has no line for group {group}")
    if not offsets:
        raise typer.BadParameter(f"{file} is empty")
    if others:
        note(f"{file}: {counted(others, 'line')} of other groups left out")
    return offsets


def read_seek_file(file: Path) -> dict[TopicPartition, int]:
    """Reads offsets as rpk writes them, `TOPIC PARTITION OFFSET`. Raises typer.BadParameter."""
    return {where: offset for where, (offset,) in _word_lines(file, "TOPIC PARTITION OFFSET")}


def read_partitions_file(file: Path) -> list[TopicPartition]:
    """Reads partitions as rpk does, `TOPIC PARTITION`. Raises typer.BadParameter."""
    return [where for where, _ in _word_lines(file, "TOPIC PARTITION")]


def _word_lines(file: Path, form: str) -> Iterator[tuple[TopicPartition, list[int]]]:
    """The partition of each line, each only once, and the numbers after it."""
    found: set[TopicPartition] = set()
    for number, line in enumerate(_text(file).splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        where = f"{file}, line {number}: {line!r}"
        if len(words) != len(form.split()):
            raise typer.BadParameter(f"{where} is not {form}")
        topic_partition = TopicPartition(words[0], _partition(words[1], where))
        numbers = [_offset(each, where) for each in words[2:]]
        if topic_partition in found:
            raise typer.BadParameter(f"{where}: the partition is there twice")
        found.add(topic_partition)
        yield topic_partition, numbers
    if not found:
        raise typer.BadParameter(f"{file} is empty")


def _csv_rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not empty, each with its number."""
    rows = csv.reader(_text(file).splitlines())
    for cells in rows:
        if cells:
            yield rows.line_num, cells


def _text(file: Path) -> str:
    try:
        return read_file(file).decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file}: {error_words(error)}") from None


def _line_form(asked: Collection[str] | None) -> str:
    several = "GROUP,TOPIC,PARTITION,OFFSET"
    return f"TOPIC,PARTITION,OFFSET or {several}" if asked and len(asked) == 1 else several


def parse_bound(text: str) -> tuple[TopicPartition, Bounds]:
    found = _BOUND.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION=FIRST..END")
    topic, partition, earliest, latest = found.groups()
    where = repr(text)
    bounds = Bounds(
        _offset(earliest, where) if earliest else None, _offset(latest, where) if latest else None
    )
    return TopicPartition(topic, _partition(partition, where)), bounds


def _partition(text: str, where: str) -> int:
    return parse_whole_number(text, where, largest=INT32_MAX, name="partition")


def _offset(text: str, where: str) -> int:
    return parse_whole_number(text, where, largest=INT64_MAX, name="offset")
