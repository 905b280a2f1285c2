"""Reads several data folders as one: those of a cluster's nodes, or of independent servers.

If folders hold copies of the same log, one copy is read.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from offsetd_storage.disk.files import read_start
from offsetd_storage.folder.folder_format import read_properties
from offsetd_storage.log.segment_scan import scan_file

from offsetd_pipeline.folder_plan import plan_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from offsetd_storage.disk.files import Files
    from offsetd_storage.views.folder_view import FolderView

    from offsetd_pipeline.folder_plan import LogPlan

BROKER_PROPERTIES: Final = "meta.properties"
_CLUSTER_ID: Final = "cluster.id="
_PROPERTIES_BYTES_MAX: Final = 65_536


class FolderPlan(NamedTuple):
    """The logs to read of one folder."""

    view: FolderView
    logs: list[LogPlan]


class LogEnd(NamedTuple):
    """The end of a copy of a log. The copy with the later epoch counts."""

    leader_epoch: int
    offset_next: int


def plan_folders(
    files: Files, folders: Iterable[Path], *, is_wanted: Callable[[int], bool]
) -> list[FolderPlan]:
    """The wanted logs of all folders. It locks and changes nothing.

    Folders of one Kafka cluster, or copies of one offsetd folder, hold copies of the same logs. It
    reads the copy with the highest last leader epoch, then the longest, which Kafka would elect.
    Raises StorageError (FolderMismatch: a folder has no offsets log) and OSError.
    """
    plans = [FolderPlan(*plan_folder(files, each, is_wanted=is_wanted)) for each in folders]
    copies: dict[tuple[str, int], list[LogPlan]] = defaultdict(list)
    for plan in plans:
        identity = identity_of(files, plan.view.folder)
        for log in plan.logs:
            copies[identity, log.log_partition].append(log)
    chosen = {id(_furthest(files, logs)) for logs in copies.values()}
    return [FolderPlan(view, [each for each in logs if id(each) in chosen]) for view, logs in plans]


def identity_of(files: Files, folder: Path) -> str:
    """The identity that folders with copies of the same logs share; else the folder's own path.

    For offsetd it is the folder's id, for a broker the id of its cluster. Raises FolderMismatch.
    """
    properties = read_properties(files, folder)
    if properties is not None:
        return properties.identity.folder_id.hex()
    path = folder / BROKER_PROPERTIES
    if files.exists(path):
        text = read_start(files, path, _PROPERTIES_BYTES_MAX).decode("utf-8", "replace")
        for line in text.splitlines():
            if line.startswith(_CLUSTER_ID):
                return line.removeprefix(_CLUSTER_ID).strip()
    return str(folder)


def _furthest(files: Files, copies: Sequence[LogPlan]) -> LogPlan:
    if len(copies) == 1:
        return copies[0]
    return max(copies, key=lambda log: end_of(files, log))


def end_of(files: Files, log: LogPlan) -> LogEnd:
    """The end of a log's valid batches. Raises OSError."""
    if not log.segments:
        return LogEnd(-1, log.log_start_offset)
    last = log.segments[-1]
    scanned = scan_file(files, Path(last.path), base_offset=last.base_offset, size=last.size_bytes)
    return LogEnd(scanned.leader_epoch_last, scanned.offset_next)
