"""Files of offsets as a Spark table: a task reads the lines that begin in a range of bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from offsetd_storage.disk.files import OsFiles
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from offsetd_pipeline.files import file_names
from offsetd_pipeline.offset_sources.line_parser import (
    LINE_KINDS,
    PLACED,
    placed_batch,
    rows_of_document,
    rows_of_lines,
)
from offsetd_pipeline.offset_sources.source_kind import SourceKind

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping, Sequence

    import pyarrow as pa
    from offsetd_storage.disk.files import File
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from offsetd_pipeline.offset_sources.line_parser import Row

FILE_KINDS: Final = (*LINE_KINDS, SourceKind.KAFKA_UTILS)
RANGE_BYTES: Final = 32 << 20
_READ_BYTES: Final = 4 << 20
_ROWS: Final = 10_000


def file_rows(
    spark: SparkSession,
    kind: SourceKind,
    paths: Sequence[str],
    *,
    file_group: str = "",
    range_bytes: int = RANGE_BYTES,
) -> DataFrame:
    """Rows of `lines.PLACED` from files, or from all files below folders.

    Every executor needs these files.
    """
    spark.dataSource.register(OffsetFilesSource)
    reader = spark.read.format(OffsetFilesSource.name())
    options = {"kind": str(kind), "paths": json.dumps(list(paths)), "file_group": file_group}
    return reader.options(**options, range_bytes=range_bytes).load()


def files_below(path: Path) -> Iterator[Path]:
    """The file, or the files below a folder. Skips hidden ones (that begin with `.` or `_`)."""
    if not OsFiles().is_folder(path):
        yield path
        return
    for name in file_names(path):
        if name[0] not in "._":
            yield from files_below(path / name)


class OffsetFilesSource(DataSource):
    """The source of `file_rows`. Only `file_rows` uses it."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "offsetd_offset_files"

    def schema(self) -> StructType | str:
        """The schema of all its tables."""
        return PLACED

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002  It is as said.
        """A reader of the files that the options name."""
        return _Reader(dict(self.options))


class _Range(InputPartition):  # type: ignore[misc, unused-ignore]
    """The lines that begin in `[start, end)`."""

    def __init__(self, path: str, start: int, end: int) -> None:
        super().__init__(None)
        self.path, self.start, self.end = path, start, end


class _Reader(DataSourceReader):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._kind = SourceKind(options["kind"])
        self._paths = [Path(each) for each in json.loads(options["paths"])]
        self._file_group = options["file_group"]
        self._range_bytes = int(options["range_bytes"])

    def partitions(self) -> Sequence[InputPartition]:
        """The ranges of all files. A JSON document is not divided."""
        files = OsFiles()
        ranges = []
        for path in (each for root in self._paths for each in files_below(root)):
            size = files.size(path)
            step = self._range_bytes if self._kind in LINE_KINDS else max(size, 1)
            ranges += [
                _Range(str(path), start, min(start + step, size)) for start in range(0, size, step)
            ]
        # Without partitions, Spark would read one that is None.
        return ranges or [_Range("", 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one task. Raises OSError."""
        assert isinstance(partition, _Range), "what was planned is read"
        if partition.start == partition.end:
            return
        file = OsFiles().open(Path(partition.path), read_only=True)
        try:
            rows: list[Row] = []
            for row in self._rows(file, partition):
                rows.append(row)
                if len(rows) == _ROWS:
                    yield placed_batch(rows)
                    rows = []
            if rows:
                yield placed_batch(rows)
        finally:
            file.close()

    def _rows(self, file: File, of: _Range) -> Iterator[Row]:
        if self._kind is SourceKind.KAFKA_UTILS:
            for row in rows_of_document(self._file_group, file.pread(of.end, 0)):
                yield (*row, of.path if row[-1] is not None else None)
            return
        lines_before: int | None = None
        lines = lines_from(file, of.start, of.end)
        for number, row in rows_of_lines(
            self._kind, self._file_group, lines, is_start=of.start == 0
        ):
            if row[-1] is None:
                yield (*row, None)
                continue
            if lines_before is None:
                lines_before = _newlines(file, first_line_at(file, of.start))
            yield (*row, f"{of.path}:{lines_before + number}")


def lines_from(file: File, start: int, end: int) -> Iterator[bytes]:
    """The lines, without their newlines, that begin in `[start, end)` of a file."""
    at = first_line_at(file, start)
    size, rest = file.size(), b""
    read_to = at
    while at < end and read_to < size:
        content = file.pread(min(_READ_BYTES, size - read_to), read_to)
        read_to += len(content)
        *lines, rest = (rest + content).split(b"\n")
        for line in lines:
            if at >= end:
                return
            yield line
            at += len(line) + 1
    if rest and at < end:
        yield rest


def first_line_at(file: File, start: int) -> int:
    """The position of the first line that begins at `start` or later; else the file's end."""
    if start == 0:
        return 0
    at, size = start - 1, file.size()
    while at < size:
        content = file.pread(min(_READ_BYTES, size - at), at)
        found = content.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(content)
    return size


def _newlines(file: File, end: int) -> int:
    count = 0
    for at in range(0, end, _READ_BYTES):
        count += file.pread(min(_READ_BYTES, end - at), at).count(b"\n")
    return count
