"""The outcome of a write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs

from offsetd_pipeline.plurals import counted, were

if TYPE_CHECKING:
    from collections.abc import Mapping


@attrs.frozen(kw_only=True)
class RejectedOffset:
    """A row that was not written. `reason`: see "Rejected rows" in docs/guides/spark.md."""

    group: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    reason: str
    message: str

    def __str__(self) -> str:
        where = f"group {self.group!r} {self.topic}:{self.partition}"
        return f"{where}: {self.reason}: {self.message}"


@attrs.frozen(kw_only=True)
class WrittenOffsets:
    """The rows written; the rejected rows by reason, and some of them.

    `superseded_offset_count`: rows that were replaced by a later row of their partition.
    `rejects`: the file with all rejected rows, or None.
    """

    group_count: int
    offset_count: int
    rejected_group_count: int
    rejected_offset_count: int
    superseded_offset_count: int = 0
    reasons: Mapping[str, int] = attrs.field(factory=dict)
    first_rejected: tuple[RejectedOffset, ...] = ()
    rejects: str | None = None


class OffsetsRejected(Exception):
    """All groups were tried. Some were rejected: none of their offsets was stored."""

    def __init__(self, written: WrittenOffsets) -> None:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in written.reasons.items())
        outcome = (
            f"{counted(written.rejected_offset_count, 'offset')}"
            f" {were(written.rejected_offset_count)} rejected ({reasons}), those of"
            f" {counted(written.rejected_group_count, 'group')};"
            f" {counted(written.offset_count, 'offset')} of"
            f" {counted(written.group_count, 'group')} {were(written.offset_count)} written"
        )
        lines = [outcome, *map(str, written.first_rejected)]
        more = written.rejected_offset_count - len(written.first_rejected)
        if more > 0:
            lines.append(f"… and {more:,} more")
        if written.rejects is not None:
            lines.append(f"all of them are in {written.rejects}")
        elif more > 0:
            lines.append("the option rejects, a folder, gets all of them as Parquet")
        super().__init__("\n".join(lines))
        self.written = written

    def __reduce__(self) -> tuple[type[OffsetsRejected], tuple[WrittenOffsets]]:
        return OffsetsRejected, (self.written,)


class UnfinishedWrite(Exception):
    """The server did not answer: some groups are written, and some were not tried.

    Repeat the same write under the same name: it writes the rest, and does not harm the offsets
    that are written.
    """


def outcome_to_json(outcome: WrittenOffsets | UnfinishedWrite) -> bytes:
    """Encodes an outcome for `outcome_of_json`, which another process calls."""
    if isinstance(outcome, UnfinishedWrite):
        return json.dumps({"unfinished": str(outcome)}).encode()
    return json.dumps({"written": attrs.asdict(outcome)}).encode()


def outcome_of_json(content: bytes) -> WrittenOffsets:
    """Decodes an outcome. Raises UnfinishedWrite if the content is one."""
    found = json.loads(content)
    if "unfinished" in found:
        raise UnfinishedWrite(found["unfinished"])
    written = found["written"]
    first = tuple(RejectedOffset(**each) for each in written.pop("first_rejected"))
    return WrittenOffsets(**written, first_rejected=first)
