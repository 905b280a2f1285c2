"""Commits the offsets of a streaming query's checkpoint to a group."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Protocol

import attrs
from offsetd_clients import CommittedOffset, OffsetChange, OffsetFormat, Revision

from offsetd_pipeline.queries.query_commits import told_batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_clients import ImportedGroup, TopicPartition

    from offsetd_pipeline.queries.checkpoints import Checkpoint


class ImportsOffsets(Protocol):
    """The part of `OffsetClient` that this module needs."""

    def fetch(
        self, group_id: str, *, require_stable: bool = False
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """The stored offsets of a group."""

    def import_offsets(
        self,
        content: bytes,
        file_format: OffsetFormat,
        *,
        validate_only: bool = False,
        reason: str = "",
    ) -> tuple[ImportedGroup, ...]:
        """Commits the offsets of a file."""


@attrs.frozen(kw_only=True)
class CheckpointImport:
    """The result of an import, or of a dry run: each change with the offset before, or None.

    `held_back`: partitions in which the group has a larger offset, which stays.
    `unchanged`: partitions in which the group is already at the offset.
    `revision`: that of the last record; None if nothing was written.
    """

    group_id: str
    changes: tuple[OffsetChange, ...]
    held_back: tuple[OffsetChange, ...]
    unchanged: tuple[OffsetChange, ...]
    revision: Revision | None


def import_checkpoint(
    checkpoint: Checkpoint,
    client: ImportsOffsets,
    group_id: str,
    *,
    allow_back: bool = False,
    execute: bool = False,
) -> CheckpointImport:
    """Returns the offsets that would be written to the group.

    With `execute` it writes them, with an audit record.

    It writes all offsets or none (in several record batches if the group is too large for one). It
    writes none and raises `OffsetConflict` if another client commits to one of the partitions
    during the call. `allow_back` also sets offsets back. Raises OffsetdError, also for a group that
    has members or a lease.
    """
    stored = client.fetch(group_id, require_stable=True)
    compared = [
        OffsetChange(where, stored[where].offset if where in stored else None, offset)
        for where, offset in sorted(checkpoint.offsets.items())
    ]
    held_back = tuple(each for each in compared if _goes_back(each) and not allow_back)
    unchanged = tuple(each for each in compared if each.before == each.after)
    changes = tuple(each for each in compared if each not in held_back and each not in unchanged)
    revision = None
    if changes:
        [imported] = client.import_offsets(
            "".join(_line(group_id, each, stored, checkpoint) for each in changes).encode(),
            OffsetFormat.JSONL,
            validate_only=not execute,
            reason=f"Spark checkpoint {checkpoint.path}, query {checkpoint.query_id},"
            f" batch {checkpoint.batch_id}",
        )
        if imported.error is not None:
            raise imported.error
        revision = imported.revision
    return CheckpointImport(
        group_id=group_id,
        changes=changes,
        held_back=held_back,
        unchanged=unchanged,
        revision=revision,
    )


def _goes_back(change: OffsetChange) -> bool:
    return change.before is not None and change.after < change.before


def _line(
    group_id: str,
    change: OffsetChange,
    stored: Mapping[TopicPartition, CommittedOffset],
    checkpoint: Checkpoint,
) -> str:
    where = change.topic_partition
    line: dict[str, object] = {
        "group": group_id,
        "topic": where.topic,
        "partition": where.partition,
        "offset": change.after,
        "metadata": told_batch(checkpoint.query_id, checkpoint.batch_id),
    }
    if where in stored:
        line["expected_revision"] = stored[where].revision
    else:
        line["must_not_exist"] = True
    return json.dumps(line, ensure_ascii=False) + "\n"
