"""Reads a streaming query's progress in Kafka from its checkpoint (`offsets` and `commits`)."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import attrs
from offsetd_storage.disk.files import OsFiles

from offsetd_pipeline.queries.kafka_progress import kafka_offsets, least_offsets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from offsetd_clients import TopicPartition
    from pyspark.sql import SparkSession

_NO_OFFSET: Final = "-"
_TOLD_CHARACTERS_MAX: Final = 80


class CheckpointUnreadable(ValueError):
    """The folder has no checkpoint of a known kind. The text names the file and the reason."""


class Through(StrEnum):
    """The batch to read: the last one that is done, or the one that may be planned after it.

    With PLANNED, no record is read twice; but if that batch was not done, some of its records may
    never have been processed.
    """

    COMMITTED = "committed"
    PLANNED = "planned"


@attrs.frozen
class PassedOver:
    """A source that is not Kafka: its place in the query, or its name, and the reason."""

    source: str
    reason: str


@attrs.frozen(kw_only=True)
class Checkpoint:
    """The offsets after `batch_id`: for each partition the next one to read.

    `planned_batch_id` is a later batch that was begun, and may have been processed in part.
    """

    path: str
    query_id: str
    batch_id: int
    planned_batch_id: int | None
    offsets: Mapping[TopicPartition, int]
    passed_over: tuple[PassedOver, ...]


class CheckpointFiles(Protocol):
    """Reads the files of a checkpoint. A name is a path relative to the checkpoint's folder."""

    def batches(self, folder: str) -> Sequence[int]:
        """The batch numbers that name the files of a folder; empty if it does not exist."""

    def read(self, name: str) -> bytes:
        """The content of a file."""


def from_checkpoint(
    path: str, *, through: Through | str = Through.COMMITTED, spark: SparkSession | None = None
) -> Checkpoint:
    """Reads the checkpoint folder of a query, which may be running.

    With `spark` it is read through Spark, from any place that Spark reads: `s3a://…`, `hdfs://…`.
    Raises CheckpointUnreadable, OSError, and Spark's errors.
    """
    if spark is None and "://" in path:
        raise CheckpointUnreadable(f"{path} is read through Spark: give it as `spark`")
    files = LocalFiles(Path(path)) if spark is None else SparkFiles(spark, path)
    return read_checkpoint(files, path, Through(through))


def read_checkpoint(files: CheckpointFiles, path: str, through: Through) -> Checkpoint:
    """The checkpoint in `files`, which is at `path`. Raises CheckpointUnreadable."""
    # Read them in this order: the offsets of a completed batch were written before its commit.
    done, planned = files.batches("commits"), files.batches("offsets")
    if not planned:
        raise CheckpointUnreadable(f"{path} is not a checkpoint with a batch: it has no offsets/0")
    if through is Through.COMMITTED and not done:
        raise CheckpointUnreadable(
            f"{path}: no batch is done (commits is empty); batch {max(planned)} is planned"
        )
    batch_id = max(planned) if through is Through.PLANNED else max(done)
    if batch_id not in planned:
        raise CheckpointUnreadable(
            f"{path}: batch {batch_id} is committed, but offsets/{batch_id} is missing"
        )
    name = f"offsets/{batch_id}"
    sources, passed_over = [], []
    for source, text in _sources(files.read(name), f"{path}/{name}"):
        offsets = None if text == _NO_OFFSET else kafka_offsets(text)
        if offsets is None:
            passed_over.append(PassedOver(source, _reason(text)))
        else:
            sources.append(offsets)
    if not sources:
        told = "; ".join(f"source {each.source}: {each.reason}" for each in passed_over)
        raise CheckpointUnreadable(f"{path}/{name} has no source of Kafka's: {told}")
    later = max(planned)
    return Checkpoint(
        path=path,
        query_id=_query_id(files.read("metadata"), f"{path}/metadata"),
        batch_id=batch_id,
        planned_batch_id=later if later > max(done, default=-1) else None,
        offsets=least_offsets(sources),
        passed_over=tuple(passed_over),
    )


def _sources(content: bytes, file: str) -> Iterator[tuple[str, str]]:
    """The offsets of each source in a file of `offsets`: by place in `v1`, by name in `v2`."""
    version, *lines = content.decode().split("\n")
    if version.strip() not in ("v1", "v2") or len(lines) < 2:
        raise CheckpointUnreadable(f"{file}: a file of v1 or v2 is expected, with a line a source")
    for place, line in enumerate(lines[1:]):  # The line before has the batch's own settings.
        if version.strip() == "v1":
            yield str(place), line.strip()
            continue
        name, colon, text = line.partition(":")
        if not colon:
            raise CheckpointUnreadable(f"{file}: line {place + 3} names no source")
        yield name, text.strip()


def _query_id(content: bytes, file: str) -> str:
    try:
        return str(json.loads(content)["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointUnreadable(f"{file} names no query") from error


def _reason(text: str) -> str:
    if text == _NO_OFFSET:
        return "it has no offset yet"
    if '"reservoirVersion"' in text:
        return "a Delta table"
    told = text if len(text) <= _TOLD_CHARACTERS_MAX else f"{text[:_TOLD_CHARACTERS_MAX]}…"
    return f"these are not offsets of topics: {told}"


class LocalFiles:
    """A checkpoint in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = OsFiles()

    def batches(self, folder: str) -> list[int]:
        """See `CheckpointFiles`."""
        path = self._folder / folder
        if not self._files.is_folder(path):
            return []
        return [int(name) for name in self._files.list_folder(path) if name.isdecimal()]

    def read(self, name: str) -> bytes:
        """See `CheckpointFiles`."""
        return self._files.read_bytes(self._folder / name)


class SparkFiles:
    """A checkpoint in any place that Spark can read."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._reader = spark.read.format("binaryFile")
        self._path = path.rstrip("/")

    def batches(self, folder: str) -> list[int]:
        """See `CheckpointFiles`."""
        from pyspark.errors import AnalysisException  # noqa: PLC0415  only where there is a Spark

        try:
            found = self._reader.load(f"{self._path}/{folder}").select("path").collect()
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return []
            raise
        names = [row.path.rpartition("/")[2] for row in found]
        return [int(name) for name in names if name.isdecimal()]

    def read(self, name: str) -> bytes:
        """See `CheckpointFiles`."""
        [row] = self._reader.load(f"{self._path}/{name}").select("content").collect()
        return bytes(row.content)
