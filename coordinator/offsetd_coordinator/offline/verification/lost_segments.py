"""Checks for missing segments. A missing segment leaves no bad batch."""

from collections.abc import Iterator, Mapping

from offsetd_storage.disk.files import Files
from offsetd_storage.journal.journal_format import RecoveryPoint
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.log.segment_scan import SegmentScan
from offsetd_storage.recovery.segment_comparison import (
    ahead_reason,
    differences,
    known_segments,
    may_be_a_brokers,
)
from offsetd_storage.recovery.swap_recovery import plan_swaps
from offsetd_storage.views.folder_view import LogView

from offsetd_coordinator.offline.verification.findings import Finding


def lost_segments(
    files: Files, log: LogView, scans: Mapping[int, SegmentScan]
) -> Iterator[Finding]:
    """Segments that are missing, or differ from their entries in the journal or segment list.

    `scans` has all segments of the log, up to the end that its view allows. If a broker may have
    changed the log since, there is nothing to compare with. Damage that a scan has found is not
    reported again, and neither is a swap that the next start completes or undoes.
    """
    point = log.last_point
    if point is None or point.headers_digest is None or _is_unsettled(files, log):
        return
    known = known_segments(files, log.folder, point)
    if known.problem is not None:
        name = f"{log.folder.name}/{SEGMENT_LIST_NAME}"
        yield Finding(file=name, reason=known.problem, is_warning=True)
    if may_be_a_brokers(files, log.folder, known, point):
        return
    if log.recovery_point is None and known.listed is not None:
        reason = ahead_reason(known.listed, point.offset)
        if reason is not None:
            yield Finding(
                file=f"{log.folder.name}/{SEGMENT_LIST_NAME}", reason=reason, is_warning=True
            )
    if _is_longer(files, log, scans, point):
        return
    damaged = {base for base, scan in scans.items() if scan.stop is not None}
    for base_offset, reason in differences(known, scans, point):
        if base_offset not in damaged:
            yield _finding(log, base_offset, reason)
    if point.segment_base_offset not in scans:
        yield _finding(log, point.segment_base_offset, "the segment is missing")


def _is_unsettled(files: Files, log: LogView) -> bool:
    swap_plan = plan_swaps(files, log.folder)
    return any(
        name != segment_path(log.folder, base).name for base, name in swap_plan.log_names.items()
    )


def _is_longer(
    files: Files, log: LogView, scans: Mapping[int, SegmentScan], point: RecoveryPoint
) -> bool:
    """Whether a log was appended to after it was closed."""
    if log.recovery_point is not None or not scans:
        return False
    last = max(scans)
    size = files.size(segment_path(log.folder, last))
    return (last, size) > (point.segment_base_offset, point.segment_bytes)


def _finding(log: LogView, base_offset: int, reason: str) -> Finding:
    path = segment_path(log.folder, base_offset)
    return Finding(file=f"{log.folder.name}/{path.name}", reason=reason)
