"""Offsets as data: tables for Spark, read from data folders and from servers.

from offsetd_pipeline import register

register(spark)
spark.read.format("offsetd").load("path/of/a/data/folder").show()

Each public name is imported when it is first used. So the command of the jobs, which is also in
this package, can report that PySpark is missing.
"""

from typing import TYPE_CHECKING

from offsetd_clients import imported_when_asked_for

if TYPE_CHECKING:
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

# The module of each public name. Type checkers read the imports above, which name the same modules.
_MODULE_OF = {
    "Checkpoint": "queries.checkpoints",
    "CheckpointImport": "queries.checkpoint_import",
    "CheckpointUnreadable": "queries.checkpoints",
    "ListenerCounts": "queries.progress_ledger",
    "OffsetCommitListener": "queries.listener",
    "OffsetdSource": "source",
    "OffsetsRejected": "writing.outcome",
    "ReadingQuery": "queries.listener",
    "RejectedOffset": "writing.outcome",
    "Rewinds": "queries.query_commits",
    "Through": "queries.checkpoints",
    "Uncommitted": "queries.starting_offsets",
    "UnfinishedWrite": "writing.outcome",
    "WrittenOffsets": "writing.outcome",
    "from_checkpoint": "queries.checkpoints",
    "import_checkpoint": "queries.checkpoint_import",
    "register": "source",
    "starting_offsets": "queries.starting_offsets",
    "write_offsets": "writing.write_offsets",
}

if not TYPE_CHECKING:  # Type checkers would accept any name otherwise.
    __getattr__ = imported_when_asked_for(__name__, _MODULE_OF)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
