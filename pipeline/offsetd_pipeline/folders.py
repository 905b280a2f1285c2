"""Several data folders read as one: the nodes of a cluster, or servers that know nothing of
each other. Of the copies of one log, one is read."""

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
    """What is to be read of one folder."""

    view: FolderView
    logs: list[LogPlan]


class LogEnd(NamedTuple):
    """How far a copy of a log has come: that with the later epoch is the one that counts."""

    leader_epoch: int
    offset_next: int


def plan_folders(
    files: Files, folders: Iterable[Path], *, is_wanted: Callable[[int], bool]
) -> list[FolderPlan]:
    """The logs that are wanted, of all folders; nothing is locked or changed.

    Folders of one Kafka cluster, or copies of one folder of ours, hold copies of logs: of these
    that is read whose last leader epoch is the highest, then the longest, as Kafka would elect it.
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
    """What folders with copies of the same logs have in common; else the folder's own path.

    Ours: the id that it was given; a broker's: the id of its cluster. Raises FolderMismatch.
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
    """How far the valid batches of a log reach. Raises OSError."""
    if not log.segments:
        return LogEnd(-1, log.log_start_offset)
    last = log.segments[-1]
    scanned = scan_file(files, Path(last.path), base_offset=last.base_offset, size=last.size_bytes)
    return LogEnd(scanned.leader_epoch_last, scanned.offset_next)
