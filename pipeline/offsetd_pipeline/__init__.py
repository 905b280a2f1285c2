"""Offsets as data: tables for Spark, read from data folders and from servers.

from offsetd_pipeline import register

register(spark)
spark.read.format("offsetd").load("path/of/a/data/folder").show()
"""

from offsetd_pipeline.queries.checkpoint_import import CheckpointImport, import_checkpoint
from offsetd_pipeline.queries.checkpoints import (
    Checkpoint,
    CheckpointUnreadable,
    Through,
    from_checkpoint,
)
from offsetd_pipeline.queries.listener import OffsetCommitListener, ReadingQuery
from offsetd_pipeline.queries.progress_ledger import ListenerCounts
from offsetd_pipeline.queries.query_commits import Rewinds
from offsetd_pipeline.queries.starting_offsets import Uncommitted, starting_offsets
from offsetd_pipeline.source import OffsetdSource, register
from offsetd_pipeline.writing.outcome import (
    OffsetsRejected,
    RejectedOffset,
    UnfinishedWrite,
    WrittenOffsets,
)
from offsetd_pipeline.writing.write_offsets import write_offsets

__all__ = [
    "Checkpoint",
    "CheckpointImport",
    "CheckpointUnreadable",
    "ListenerCounts",
    "OffsetCommitListener",
    "OffsetdSource",
    "OffsetsRejected",
    "ReadingQuery",
    "RejectedOffset",
    "Rewinds",
    "Through",
    "Uncommitted",
    "UnfinishedWrite",
    "WrittenOffsets",
    "from_checkpoint",
    "import_checkpoint",
    "register",
    "starting_offsets",
    "write_offsets",
]
