"""`offsetd groups reset|clone|export|import`: many offsets at once."""

import codecs
import csv
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from offsetd_clients.change_messages import ResetTarget
from offsetd_clients.change_values import (
    Bounds,
    ClonedGroup,
    ImportedGroup,
    OffsetFormat,
    ResetOffsets,
    ResetTo,
    ShiftBy,
    ToOffset,
)
from offsetd_clients.cli.connection import (
    ADDRESS_DEFAULT,
    TIMEOUT_S_DEFAULT,
    AddressOption,
    TimeoutOption,
    connected,
    explain,
)
from offsetd_clients.cli.durations import parse_duration
from offsetd_clients.cli.each_group import each_group, report_failures
from offsetd_clients.cli.offsets import INT32_MAX, INT64_MAX
from offsetd_clients.cli.terminal import EXIT_FAILED, EXIT_PARTLY, Row, Terminal
from offsetd_clients.values import TopicPartition

FILE_TIMEOUT_S_DEFAULT = 600.0
CHANGE_COLUMNS = ("group", "topic", "partition", "offset", "new_offset", "revision")
CLONE_COLUMNS = ("source", "target", "offsets", "kept_offsets", "revision")
IMPORT_COLUMNS = ("group", "offsets", "revision", "problem")

_SUFFIXES = {
    ".csv": OffsetFormat.KAFKA_CSV,
    ".json": OffsetFormat.KAFKA_UTILS_JSON,
    ".jsonl": OffsetFormat.JSONL,
}
_ISO_DURATION = re.compile(
    r"P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
_BOUND = re.compile(r"(.+):([0-9]+)=([0-9]*)\.\.([0-9]*)")
_PARTITIONS = re.compile(r"[0-9]+(,[0-9]+)*")

ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, for the audit log.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Check and show, but change nothing.")
]
TopicsOption = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic; repeatable."),
]
FormatOption = Annotated[
    OffsetFormat | None,
    typer.Option("--format", help="Kafka's CSV, rpk's lines, kafka-utils' JSON, or ours."),
]


def register(groups: typer.Typer, terminal: Terminal) -> None:
    """Adds the subcommands to `groups`."""
    _register_reset(groups, terminal)
    _register_clone(groups, terminal)
    _register_export(groups, terminal)
    _register_import(groups, terminal)


def _register_reset(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("reset")
    def reset(
        group_ids: Annotated[list[str], typer.Argument(metavar="GROUP", help="A group's id.")],
        *,
        to_offset: Annotated[
            int | None, typer.Option(min=0, max=INT64_MAX, metavar="OFFSET", help="To this one.")
        ] = None,
        shift_by: Annotated[
            int | None,
            typer.Option(
                min=-INT64_MAX, max=INT64_MAX, metavar="N", help="So much further, or back."
            ),
        ] = None,
        to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first.")] = False,
        to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last.")] = False,
        to_current: Annotated[
            bool, typer.Option("--to-current", help="To what is committed, written again.")
        ] = False,
        to_datetime: Annotated[
            str | None,
            typer.Option(metavar="TIME", help="To what was committed then: ISO 8601, else UTC."),
        ] = None,
        by_duration: Annotated[
            str | None,
            typer.Option(metavar="SPAN", help="To what was committed so long ago: 12h, PT12H."),
        ] = None,
        from_file: Annotated[
            Path | None,
            typer.Option(
                exists=True, dir_okay=False, metavar="FILE", help="To the offsets of a CSV file."
            ),
        ] = None,
        topics: Annotated[
            list[str] | None,
            typer.Option("--topic", metavar="TOPIC[:P,…]", help="Of this topic; repeatable."),
        ] = None,
        all_topics: Annotated[
            bool, typer.Option("--all-topics", help="Of all topics that the group has.")
        ] = False,
        bounds: Annotated[
            list[str] | None,
            typer.Option(
                "--bounds",
                metavar="TOPIC:P=FIRST..END",
                help="What a partition has, where the server does not know; repeatable.",
            ),
        ] = None,
        force: Annotated[
            bool, typer.Option("--force", help="Also while a group has members.")
        ] = False,
        execute: Annotated[
            bool, typer.Option("--execute", help="Do it; else only show what it would do.")
        ] = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Move the offsets of groups, each of them all or none. Nothing happens without --execute.

        A target that a partition has not is an error, and nothing is moved to the nearest.
        """
        flags = {
            ResetTo.EARLIEST: to_earliest,
            ResetTo.LATEST: to_latest,
            ResetTo.CURRENT: to_current,
        }
        target = _one_target(
            None if to_offset is None else ToOffset(to_offset),
            None if shift_by is None else ShiftBy(shift_by),
            *(kind for kind, is_set in flags.items() if is_set),
            None if to_datetime is None else parse_time(to_datetime),
            None if by_duration is None else parse_span(by_duration),
            from_file,
        )
        if (from_file is not None) != (not topics and not all_topics) or (topics and all_topics):
            raise typer.BadParameter("say either --topic, --all-topics or --from-file")
        whole_topics, partitions = parse_topics(topics or ())
        offsets_of = read_csv(target, group_ids) if isinstance(target, Path) else {}
        with connected(address, timeout, terminal) as client:

            def reset_one(group_id: str) -> ResetOffsets:
                assert not isinstance(target, Path) or group_id in offsets_of
                return client.reset_offsets(
                    group_id,
                    offsets_of[group_id] if isinstance(target, Path) else target,
                    partitions,
                    topics=whole_topics,
                    bounds=dict(map(_parse_bound, bounds or ())),
                    force=force,
                    validate_only=not execute,
                    reason=reason,
                )

            done, failures = each_group(group_ids, reset_one)
        if done:
            terminal.rows(CHANGE_COLUMNS, _change_rows(done))
        if not execute:
            terminal.note("dry run: nothing was changed; --execute does it")
        report_failures(failures, done, address, terminal)


def _register_clone(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("clone")
    def clone(
        source: Annotated[str, typer.Argument(metavar="SOURCE", help="Whose offsets.")],
        target: Annotated[str, typer.Argument(metavar="TARGET", help="Who gets them, too.")],
        *,
        topics: TopicsOption = None,
        overwrite: Annotated[
            bool,
            typer.Option(
                "--overwrite", help="The target may exist; what the source has not stays there."
            ),
        ] = False,
        dry_run: DryRunOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = TIMEOUT_S_DEFAULT,
    ) -> None:
        """Copy the offsets of a group to another one, with their metadata."""
        with connected(address, timeout, terminal) as client:
            cloned = client.clone_group(
                source,
                target,
                topics=topics or (),
                overwrite=overwrite,
                validate_only=dry_run,
                reason=reason,
            )
        terminal.rows(CLONE_COLUMNS, [_clone_row(source, target, cloned)])
        if dry_run:
            terminal.note("dry run: nothing was changed")


def _register_export(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("export")
    def export(
        group_ids: Annotated[
            list[str] | None, typer.Argument(metavar="GROUP", help="A group's id; else all.")
        ] = None,
        *,
        file_format: FormatOption = None,
        file: Annotated[
            Path | None,
            typer.Option(
                "--file", dir_okay=False, metavar="FILE", help="Where to; else it is printed."
            ),
        ] = None,
        prefix: Annotated[
            str, typer.Option(metavar="TEXT", help="Only groups whose id begins so.")
        ] = "",
        topics: TopicsOption = None,
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = FILE_TIMEOUT_S_DEFAULT,
    ) -> None:
        """Write the offsets of groups to a file, or print them as a file has them.

        Only `jsonl` has all there is; it is the format unless the file's name says another.
        """
        if file_format is None:
            suffix = file.suffix if file is not None else ""
            file_format = _SUFFIXES.get(suffix, OffsetFormat.JSONL)
        with connected(address, timeout, terminal) as client:
            pieces = client.export_offsets(
                file_format, group_ids or (), group_id_prefix=prefix, topics=topics or ()
            )
            if file is None:
                terminal.lines(_lines(pieces))
            else:
                with _told_of_files(terminal):
                    _write(file, pieces)


def _register_import(groups: typer.Typer, terminal: Terminal) -> None:
    @groups.command("import")
    def import_(
        file: Annotated[
            Path,
            typer.Argument(metavar="FILE", help="What to import; -: standard input."),
        ],
        *,
        file_format: FormatOption = None,
        group: Annotated[
            str, typer.Option(metavar="GROUP", help="Whose offsets, if the file does not say.")
        ] = "",
        dry_run: DryRunOption = False,
        reason: ReasonOption = "",
        address: AddressOption = ADDRESS_DEFAULT,
        timeout: TimeoutOption = FILE_TIMEOUT_S_DEFAULT,
    ) -> None:
        """Commit the offsets of a file: each group as a whole, and nothing if a line is wrong.

        Exits with 3 if some groups were refused.
        """
        if file_format is None:
            file_format = _SUFFIXES.get(file.suffix)
        if file_format is None:
            raise typer.BadParameter("the file's name does not say what it is: give --format")
        with _told_of_files(terminal):
            content = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        with connected(address, timeout, terminal) as client:
            imported = client.import_offsets(
                content, file_format, group_id=group, validate_only=dry_run, reason=reason
            )
        terminal.rows(IMPORT_COLUMNS, map(_import_row, imported))
        if dry_run:
            terminal.note("dry run: nothing was changed")
        failed = [each for each in imported if each.error is not None]
        if failed:
            lines = [
                f"group {each.group_id}: {explain(each.error, address)}"
                for each in failed
                if each.error is not None
            ]
            code = EXIT_PARTLY if len(failed) < len(imported) else EXIT_FAILED
            terminal.fail("\n".join(lines), code)


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
        text = file.read_text(encoding="utf-8-sig")
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


def _one_target(*targets: ResetTarget | Path | None) -> ResetTarget | Path:
    given = [target for target in targets if target is not None]
    if len(given) != 1:
        raise typer.BadParameter(
            "say where to, once: --to-offset, --shift-by, --to-earliest, --to-latest,"
            " --to-current, --to-datetime, --by-duration or --from-file"
        )
    return given[0]


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


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """What is in pieces that end anywhere, also within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + decoder.decode(piece)).split("\n")
        yield from lines
    if rest:
        yield rest


@contextmanager
def _told_of_files(terminal: Terminal) -> Iterator[None]:
    """What is wrong with a file is one line."""
    try:
        yield
    except OSError as error:
        terminal.fail(str(error))


def _write(file: Path, pieces: Iterable[bytes]) -> None:
    """All of it, or nothing: a file that is cut must not be taken for a whole one."""
    part = file.with_name(f"{file.name}.part")
    try:
        with part.open("wb") as out:
            for piece in pieces:
                out.write(piece)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def _change_rows(done: Iterable[tuple[str, ResetOffsets]]) -> Iterator[Row]:
    for group_id, answer in done:
        first = None
        if answer.revision is not None:
            first = answer.revision.log_offset - len(answer.changes) + 1
        for place, change in enumerate(answer.changes):
            yield {
                "group": group_id,
                "topic": change.topic_partition.topic,
                "partition": change.topic_partition.partition,
                "offset": change.before,
                "new_offset": change.after,
                "revision": None if first is None else first + place,
            }


def _clone_row(source: str, target: str, cloned: ClonedGroup) -> Row:
    return {
        "source": source,
        "target": target,
        "offsets": cloned.offset_count,
        "kept_offsets": cloned.kept_offset_count,
        "revision": cloned.revision.log_offset if cloned.revision else None,
    }


def _import_row(imported: ImportedGroup) -> Row:
    return {
        "group": imported.group_id,
        "offsets": imported.offset_count,
        "revision": imported.revision.log_offset if imported.revision else None,
        "problem": imported.error.reason or str(imported.error) if imported.error else None,
    }
