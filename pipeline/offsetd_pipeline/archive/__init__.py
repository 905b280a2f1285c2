"""Archives the history of offsets as Parquet, and restores offsets."""

from offsetd_pipeline.archive.archive_table import GroupSelection, read_archive
from offsetd_pipeline.archive.manifests import (
    ArchiveBusy,
    ArchiveDamaged,
    ArchiveError,
    ArchiveFolder,
)
from offsetd_pipeline.archive.restored_groups import Outcome, Restored, RestoredGroup
from offsetd_pipeline.archive.restoring import (
    OtherSource,
    RestoreOptions,
    TimeNotArchived,
    restore,
)
from offsetd_pipeline.archive.run import Archived, GapFound, archive

__all__ = [
    "ArchiveBusy",
    "ArchiveDamaged",
    "ArchiveError",
    "ArchiveFolder",
    "Archived",
    "GapFound",
    "GroupSelection",
    "OtherSource",
    "Outcome",
    "RestoreOptions",
    "Restored",
    "RestoredGroup",
    "TimeNotArchived",
    "archive",
    "read_archive",
    "restore",
]
