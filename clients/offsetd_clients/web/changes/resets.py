"""The wizard of a reset: every target that `offsetd groups reset` has."""

import csv
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

import attrs

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.change_values import Bounds, ResetOffsets, ResetTo, ShiftBy, ToOffset
from offsetd_clients.cli.arguments.reset_targets import (
    parse_bound,
    parse_span,
    parse_time,
    parse_topics,
)
from offsetd_clients.cli.arguments.whole_numbers import (
    INT32_MAX,
    INT64_MAX,
    parse_whole_number,
)
from offsetd_clients.cli.printing.change_summary import summary
from offsetd_clients.messages.change_messages import ResetTarget
from offsetd_clients.values import TopicPartition
from offsetd_clients.web.changes.change import (
    Change,
    Fields,
    Outcome,
    Terms,
    Wizard,
    lines,
    offset_rows,
    topic_words,
)
from offsetd_clients.web.names import bounded

COLUMNS = ("Topic", "Partition", "Offset", "New offset")
_CSV_CELLS = 3


def _number(text: str) -> int:
    return parse_whole_number(text, "the offset", largest=INT64_MAX, name="offset")


def _shift(text: str) -> ShiftBy:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    return ShiftBy(sign * parse_whole_number(digits, "the shift", largest=INT64_MAX, name="count"))


def _explicit(text: str) -> dict[TopicPartition, int]:
    """The offsets of lines `topic,partition,offset`."""
    offsets: dict[TopicPartition, int] = {}
    rows = csv.reader(text.splitlines())
    for cells in rows:
        where = f"line {rows.line_num}"
        if not cells:
            continue
        if len(cells) != _CSV_CELLS:
            raise ValueError(f"{where}: {bounded(','.join(cells))} is not TOPIC,PARTITION,OFFSET")
        partition = parse_whole_number(cells[1], where, largest=INT32_MAX, name="partition")
        place = TopicPartition(cells[0], partition)
        if place in offsets:
            raise ValueError(f"{where}: the partition is there twice")
        offsets[place] = parse_whole_number(cells[2], where, largest=INT64_MAX, name="offset")
    return offsets


@attrs.frozen
class _Way:
    """One target of a reset: its option on the command line, and how its value is read."""

    option: str
    told: str
    read: Callable[[str], ResetTarget]
    has_value: bool = True


WAYS: Mapping[str, _Way] = {
    "earliest": _Way(
        "--to-earliest", "the first offset", lambda _: ResetTo.EARLIEST, has_value=False
    ),
    "latest": _Way(
        "--to-latest", "the end, after the last record", lambda _: ResetTo.LATEST, has_value=False
    ),
    "current": _Way(
        "--to-current", "the committed offset, again", lambda _: ResetTo.CURRENT, has_value=False
    ),
    "offset": _Way("--to-offset", "this offset", lambda text: ToOffset(_number(text))),
    "shift": _Way("--shift-by", "this many further (negative: back)", _shift),
    "time": _Way("--to-datetime", "what was committed at this time", parse_time),
    "ago": _Way("--by-duration", "what was committed this long ago", parse_span),
    "csv": _Way("--from-file", "the offsets of these lines", _explicit),
}


async def choices(_: AsyncOffsetClient, __: str, ___: Fields) -> dict[str, object]:
    """What the form offers."""
    return {"ways": {name: way.told for name, way in WAYS.items()}}


@attrs.frozen(kw_only=True)
class Reset:
    """A reset that was chosen."""

    group_id: str
    target: ResetTarget
    topics: list[str]
    partitions: list[TopicPartition]
    bounds: Mapping[TopicPartition, Bounds]
    force: bool

    async def carry_out(self, client: AsyncOffsetClient, terms: Terms) -> Outcome:
        """Does it, or shows it."""
        done = await client.reset_offsets(
            self.group_id,
            self.target,
            self.partitions,
            topics=self.topics,
            bounds=self.bounds,
            force=self.force,
            validate_only=terms.validate_only,
            reason=terms.reason,
            request_id=terms.request_id,
        )
        rows = offset_rows(done.changes)
        return Outcome(
            columns=COLUMNS,
            rows=rows,
            summary=summary((each.before, each.after) for each in done.changes),
            notes=tuple(await self._notes(client, done)),
            revision=done.revision,
        )

    async def _notes(self, client: AsyncOffsetClient, done: ResetOffsets) -> list[str]:
        notes = []
        if self.target is ResetTo.LATEST and done.reported_end_count:
            notes.append(
                f"{done.reported_end_count:,} ends are those that a consumer reported last, and"
                " may be outdated. Bounds say others."
            )
        if isinstance(self.target, ToOffset | ShiftBy | Mapping) and done.unknown_end_count:
            notes.append(
                f"{done.unknown_end_count:,} offsets are not checked against the partition's end,"
                " which is not known. Bounds say it."
            )
        if isinstance(self.target, datetime | timedelta) and not self.partitions:
            reset = {each.topic_partition for each in done.changes}
            left = [
                where
                for where in await client.fetch(self.group_id)
                if where not in reset and (not self.topics or where.topic in self.topics)
            ]
            if left:
                notes.append(
                    f"{len(left):,} offsets stay, because the group had none there at that time:"
                    f" {bounded(str(left[0]))}{' and others' if len(left) > 1 else ''}."
                )
        return notes


async def read(_: AsyncOffsetClient, group_id: str, fields: Fields) -> Change:
    """The reset of a form. Raises ValueError and typer.BadParameter."""
    way = WAYS.get(fields.get("to", ""))
    if way is None:
        raise ValueError("choose what the offsets are reset to")
    is_csv = way is WAYS["csv"]
    value = fields.get("csv", "") if is_csv else fields.get("value", "").strip()
    if way.has_value and not value:
        raise ValueError(f"{way.told}: this needs a value")
    chosen = lines(fields, "topics")
    if is_csv and chosen:
        raise ValueError("the lines name their topics: leave the field of topics empty")
    topics, partitions = parse_topics(chosen)
    bounds = lines(fields, "bounds")
    reset = Reset(
        group_id=group_id,
        target=way.read(value),
        topics=topics,
        partitions=partitions,
        bounds=_bounds(bounds),
        force=fields.get("force") == "yes",
    )
    words = ["groups", "reset", way.option]
    if way.has_value:
        words.append("-" if is_csv else value)
    words += ["--all-topics"] if not (chosen or is_csv) else []
    words += topic_words(chosen)
    words += [word for bound in bounds for word in ("--bounds", bound)]
    words += ["--force"] if reset.force else []
    return Change(
        group_id=group_id,
        words=tuple(words),
        about=(group_id,),
        carry_out=reset.carry_out,
        piped="\n".join(lines(fields, "csv")) if is_csv else "",
        takes_execute=True,
    )


def _bounds(texts: list[str]) -> dict[TopicPartition, Bounds]:
    found: dict[TopicPartition, Bounds] = {}
    for where, bound in map(parse_bound, texts):
        if where in found:
            raise ValueError(f"the bounds of {bounded(str(where))} are there twice")
        found[where] = bound
    return found


WIZARD = Wizard(
    path="reset",
    title="Reset offsets",
    method="ResetOffsets",
    fields=("to", "value", "csv", "topics", "bounds", "force"),
    read=read,
    choices=choices,
)
