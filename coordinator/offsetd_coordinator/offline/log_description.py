"""The contents of a partition's log, from the headers of its batches."""

import attrs
from offsetd_storage.disk.files import Files
from offsetd_storage.log.segment_files import segment_base_offsets, segment_path
from offsetd_storage.log.segment_scan import ScanStop, SegmentScan, scan_file
from offsetd_storage.views.folder_view import LogView


@attrs.frozen(kw_only=True)
class LogDescription:
    """A log up to its first invalid batch.

    `end_offset` is the offset after the last valid record. `size_bytes` is the size of the valid
    batches. `problem` names the first bad batch, or says that there is no segment; else it is None.
    """

    start_offset: int
    end_offset: int
    segments: int
    size_bytes: int
    batches: int
    records: int
    problem: str | None


def describe_log(files: Files, log: LogView, *, start_offset: int = 0) -> LogDescription:
    """Checks the batches of every segment.

    The log starts at its first segment, or at `start_offset` if that is higher.
    """
    base_offsets = segment_base_offsets(files, log.folder)
    scans: list[SegmentScan] = []
    problem = None if base_offsets else "there is no segment"
    offset_next = base_offsets[0] if base_offsets else 0
    for base_offset in base_offsets:
        scan = _scan(files, log, base_offset, offset_next)
        offset_next = max(offset_next, scan.offset_next)
        scans.append(scan)
        if scan.stop is not None and problem is None:
            problem = _problem(segment_path(log.folder, base_offset).name, scan.stop)
    return LogDescription(
        start_offset=max(start_offset, base_offsets[0] if base_offsets else 0),
        end_offset=offset_next,
        segments=len(scans),
        size_bytes=sum(scan.valid_bytes for scan in scans),
        batches=sum(scan.batches for scan in scans),
        records=sum(scan.records for scan in scans),
        problem=problem,
    )


def _scan(files: Files, log: LogView, base_offset: int, offset_min: int) -> SegmentScan:
    path = segment_path(log.folder, base_offset)
    return scan_file(
        files,
        path,
        size=log.readable_bytes(base_offset, files.size(path)),
        base_offset=base_offset,
        offset_min=offset_min,
    )


def _problem(name: str, stop: ScanStop) -> str:
    return f"{stop.reason.name.lower()} at byte {stop.position} of {name}"
