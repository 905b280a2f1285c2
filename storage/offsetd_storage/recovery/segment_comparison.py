"""Compares a log's segments with those that it should have, by its list and its recovery point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.errors import CorruptCheckpoint, is_unreadable
from offsetd_storage.folder.checkpoint_files import read_leader_epochs
from offsetd_storage.log.leader_epochs import LEADER_EPOCHS_FILE
from offsetd_storage.log.segment_list import (
    SEGMENT_LIST_NAME,
    ListedSegment,
    SegmentFlaw,
    SegmentList,
    SegmentListDamaged,
    batches_flaw,
    found_snapshots,
    headers_flaw,
    read_segment_list,
    segment_flaws,
)
from offsetd_storage.recovery.quarantine import DamageFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files
    from offsetd_storage.journal.journal_format import RecoveryPoint
    from offsetd_storage.log.segment_scan import SegmentScan

OLDER_LIST: Final = "it is older than the journal"


@attrs.frozen(kw_only=True)
class KnownSegments:
    """The segments that a log should have."""

    listed: SegmentList | None  # None if not known. Then the segments found are listed.
    problem: str | None = None  # The problem with the list, if there should be one.

    @property
    def snapshots(self) -> frozenset[int]:
        """The offsets of the broker's producer snapshots that existed before."""
        return frozenset(self.listed.snapshots if self.listed else ())


NOTHING_KNOWN: Final = KnownSegments(listed=None)


def known_segments(files: Files, log_folder: Path, point: RecoveryPoint | None) -> KnownSegments:
    """The segments that a log should have, if no broker has written since `point`.

    Nothing is known without a point. Raises NewerFormat, OSError.
    """
    if point is None or point.headers_digest is None:
        return NOTHING_KNOWN
    try:
        listed = read_segment_list(files, log_folder)
    except SegmentListDamaged as error:
        return KnownSegments(listed=None, problem=str(error))
    if listed is None:
        is_needed = point.listed_below > point.log_start_offset
        return KnownSegments(listed=None, problem="it is missing" if is_needed else None)
    if listed.below < point.listed_below:
        return KnownSegments(listed=None, problem=OLDER_LIST)
    return KnownSegments(listed=listed)


def may_be_a_brokers(
    files: Files, log_folder: Path, known: KnownSegments, point: RecoveryPoint
) -> bool:
    """Returns whether a broker seems to have loaded the log since, and may have cleaned it.

    A broker writes a snapshot of the producers at the log's end, and raises the leader epoch.
    """
    if known.listed is None:
        return False
    if not known.snapshots.issuperset(found_snapshots(files, log_folder)):
        return True
    try:
        epochs = read_leader_epochs(files, log_folder / LEADER_EPOCHS_FILE)
    except CorruptCheckpoint:
        return False
    except OSError as error:
        if not is_unreadable(error):
            raise
        return False
    return bool(epochs) and epochs[-1][0] > point.leader_epoch


def differences(
    known: KnownSegments, scans: Mapping[int, SegmentScan], point: RecoveryPoint
) -> list[SegmentFlaw]:
    """The flaws of the segments up to the recovery point, all of which were scanned."""
    flaws = (
        []
        if known.listed is None
        else _list_differences(known.listed, scans, point, point.listed_below)
    )
    last = scans.get(point.segment_base_offset)
    return flaws if last is None else [*flaws, *_point_flaws(last, point)]


def _point_flaws(last: SegmentScan, point: RecoveryPoint) -> list[SegmentFlaw]:
    """The flaws of the segment that holds the point, scanned up to the point."""
    if point.headers_digest is None:
        return []
    reason = batches_flaw(last.valid_bytes, point.segment_bytes) or headers_flaw(
        last.headers_digest, point.headers_digest
    )
    return [SegmentFlaw(point.segment_base_offset, reason)] if reason else []


def require_point(last: SegmentScan, point: RecoveryPoint) -> None:
    """Raises DamageFound if the segment that held the point has changed."""
    _require_none(_point_flaws(last, point))


def _list_differences(
    listed: SegmentList, scans: Mapping[int, SegmentScan], point: RecoveryPoint, below: int
) -> list[SegmentFlaw]:
    found = {base: ListedSegment.of_scan(base, scan) for base, scan in scans.items()}
    return segment_flaws(listed, found, below=below, log_start_offset=point.log_start_offset)


def require_same(
    known: KnownSegments, scans: Mapping[int, SegmentScan], point: RecoveryPoint
) -> None:
    """Raises DamageFound if the segments differ from the known ones."""
    _require_none(differences(known, scans, point))


def require_not_ahead(known: KnownSegments, offset_next: int) -> None:
    """Raises DamageFound if the list knows more of a log than the journal."""
    reason = None if known.listed is None else ahead_reason(known.listed, offset_next)
    if reason is not None:
        raise DamageFound(reason)


def ahead_reason(listed: SegmentList, offset_next: int) -> str | None:
    """The flaw if the list knows more of a log than the journal, which ends at `offset_next`.

    Batches are in the journal before they are listed. So one of the two comes from a copy.
    """
    if listed.below <= offset_next:
        return None
    return (
        f"{SEGMENT_LIST_NAME} says that the log had offset {listed.below}, but the journal ends at"
        f" {offset_next}: the journal is from an older copy of the folder"
    )


def known_of_longer(
    known: KnownSegments, scans: Mapping[int, SegmentScan], point: RecoveryPoint
) -> KnownSegments:
    """The known segments of a log that is longer than at its close, perhaps because of a broker.

    Raises DamageFound if a listed segment is missing.
    """
    listed = known.listed
    if listed is None:
        return known
    # A start after a broker's visit lists the segments that it finds, before the journal has them.
    is_ahead = ahead_reason(listed, point.offset) is not None
    below = listed.below if is_ahead else point.listed_below
    _require_none(_list_differences(listed, scans, point, below))
    return KnownSegments(
        listed=None,
        problem=f"the log continues behind offset {point.offset}, where it was closed, and nothing"
        " shows that a broker wrote that",
    )


def _require_none(flaws: Sequence[SegmentFlaw]) -> None:
    if not flaws:
        return
    others = len(flaws) - 1
    more = f" (and {others} more such segment{'s' if others > 1 else ''})" if others else ""
    raise DamageFound(f"{flaws[0].reason}{more}", base_offset=flaws[0].base_offset, position=None)
