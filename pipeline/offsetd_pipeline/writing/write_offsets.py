"""Writes a table of offsets to a server, and returns the outcome to the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_pipeline.files import read_file, temporary_folder
from offsetd_pipeline.source import NAME, register
from offsetd_pipeline.writing.options import OUTCOME_FILE, OnError, WriteOptions
from offsetd_pipeline.writing.outcome import OffsetsRejected, WrittenOffsets, outcome_of_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_offsets(table: DataFrame, server: str, **options: object) -> WrittenOffsets:
    """Writes a table of offsets to a server, `host:port`, and returns the outcome.

    The options are those of `df.write.format("offsetd")`; None means that an option is not set. The
    session must be local, not one of Spark Connect. Raises ValueError for invalid options,
    OffsetsRejected unless `on_error="collect"`, UnfinishedWrite, and Spark's errors.
    """
    texts = {name: _text(value) for name, value in options.items() if value is not None}
    texts["server"] = server
    given = WriteOptions.of(texts)
    register(table.sparkSession)
    with temporary_folder() as folder:
        outcome = folder / "outcome.json"
        writer = table.write.format(NAME).options(**texts).option(OUTCOME_FILE, str(outcome))
        writer.mode("append").save()
        written = outcome_of_json(read_file(outcome))
    if written.rejected_offset_count and given.on_error is OnError.FAIL:
        raise OffsetsRejected(written)
    return written


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
