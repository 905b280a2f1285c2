"""A comparison of a log's segments with those it should have: its list, and its recovery point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from offsetd_storage.errors import CorruptCheckpoint, is_unreadable
from offsetd_storage.folder.checkpoints import read_leader_epochs
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
    """What is known of a log's segments."""

    listed: SegmentList | None  # None: nothing, so they are listed as they are found.
    problem: str | None = None  # With the list, where one should be known.

    @property
    def snapshots(self) -> frozenset[int]:
        """A broker's that were there before."""
        return frozenset(self.listed.snapshots if self.listed else ())


NOTHING_KNOWN: Final = KnownSegments(listed=None)


def known_segments(files: Files, log_folder: Path, point: RecoveryPoint | None) -> KnownSegments:
    """What is known of a log that nobody but us has written to since `point`; None: no such point.

    Raises NewerFormat, OSError.
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
    """Whether a broker has loaded the log since, and perhaps cleaned it, as far as that shows.

    It takes a snapshot of the producers at the log's end, and counts up the leader epoch.
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
    """What is wrong with the segments up to the recovery point, all of which were scanned."""
    flaws = (
        []
        if known.listed is None
        else _list_differences(known.listed, scans, point, point.listed_below)
    )
    last = scans.get(point.segment_base_offset)
    return flaws if last is None else [*flaws, *_point_flaws(last, point)]


def _point_flaws(last: SegmentScan, point: RecoveryPoint) -> list[SegmentFlaw]:
    """What is wrong with the segment that holds the point, scanned up to there."""
    if point.headers_digest is None:
        return []
    reason = batches_flaw(last.valid_bytes, point.segment_bytes) or headers_flaw(
        last.headers_digest, point.headers_digest
    )
    return [SegmentFlaw(point.segment_base_offset, reason)] if reason else []


def require_point(last: SegmentScan, point: RecoveryPoint) -> None:
    """Raises DamageFound where the segment that held the point is not the one that it was."""
    _require_none(_point_flaws(last, point))


def _list_differences(
    listed: SegmentList, scans: Mapping[int, SegmentScan], point: RecoveryPoint, below: int
) -> list[SegmentFlaw]:
    found = {base: ListedSegment.of_scan(base, scan) for base, scan in scans.items()}
    return segment_flaws(listed, found, below=below, log_start_offset=point.log_start_offset)


def require_same(
    known: KnownSegments, scans: Mapping[int, SegmentScan], point: RecoveryPoint
) -> None:
    """Raises DamageFound where the segments are not those that there were."""
    _require_none(differences(known, scans, point))


def require_not_ahead(known: KnownSegments, offset_next: int) -> None:
    """Raises DamageFound where `ahead_reason` has one."""
    reason = None if known.listed is None else ahead_reason(known.listed, offset_next)
    if reason is not None:
        raise DamageFound(reason)


def ahead_reason(listed: SegmentList, offset_next: int) -> str | None:
    """What is wrong where the list knows more of a log than the journal, which ends there.

    What is listed is in the journal before it is: so one of the two comes from a copy.
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
    """What is known of a log that goes on behind where it was closed, as if a broker had had it.

    Raises DamageFound where it lacks what is listed.
    """
    listed = known.listed
    if listed is None:
        return known
    # A start that follows a broker lists what it finds, before the journal has it.
    is_ahead = ahead_reason(listed, point.offset) is not None
    below = listed.below if is_ahead else point.listed_below
    _require_none(_list_differences(listed, scans, point, below))
    return KnownSegments(
        listed=None,
        problem=f"the log goes on behind offset {point.offset}, where it was closed, and nothing"
        " shows that a broker wrote that",
    )


def _require_none(flaws: Sequence[SegmentFlaw]) -> None:
    if not flaws:
        return
    others = len(flaws) - 1
    more = f" (and {others} more such segment{'s' if others > 1 else ''})" if others else ""
    raise DamageFound(f"{flaws[0].reason}{more}", base_offset=flaws[0].base_offset, position=None)
