"""Counts rows that are not written, keeps some for users, and writes all to a Parquet file."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from offsetd_pipeline.writing.outcome import RejectedOffset
from offsetd_pipeline.writing.packed_rows import REJECTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from offsetd_pipeline.writing.written_groups import GroupRows

FIRST_MAX: Final = 5
GROUP_REJECTED: Final = "GROUP_REJECTED"
DUPLICATE_ROW: Final = "DUPLICATE_ROW"
_ROWS_AT_ONCE: Final = 20_000
_TOLD: Final = ("group", "topic", "partition", "offset", "reason", "message")


class Rejection(NamedTuple):
    """The reason why a row is not written, and the stored offset, if that is the reason."""

    reason: str
    message: str
    stored_offset: int | None = None
    stored_revision: int | None = None


class RejectsFile:
    """`NAME.parquet` in a folder. It is written as a whole, or not at all.

    The folder is a path, or a URI of `pyarrow.fs`. A file of an earlier attempt with the same name
    is replaced; it is removed if no row is rejected any more.
    """

    def __init__(self, folder: str, name: str, schema: pa.Schema) -> None:
        """Creates the folder, so that a write error occurs before anything is sent.

        Raises OSError, and ValueError for an unknown kind of URI.
        """
        is_uri = "://" in folder or folder.startswith("file:")
        place = folder if is_uri else str(Path(folder).absolute())
        self._files, root = pyarrow.fs.FileSystem.from_uri(place)
        self._files.create_dir(root, recursive=True)
        self.path = f"{root}/{name}.parquet"
        self._part = f"{root}/.{name}.parquet.part"
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        """Adds rows."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._part, self._schema, filesystem=self._files, compression="zstd"
            )
        self._writer.write_table(table)

    def close(self) -> str | None:
        """Closes the file and returns its place; None if there was nothing to write."""
        if self._writer is None:
            if self._files.get_file_info(self.path).type is not pyarrow.fs.FileType.NotFound:
                self._files.delete_file(self.path)
            return None
        self._writer.close()
        self._files.move(self._part, self.path)
        return self.path


class Rejects:
    """The rejected rows of a write."""

    def __init__(self, given: pa.Schema, file: RejectsFile | None) -> None:
        """`given` has the columns of the rows."""
        self.schema = rejects_schema(given)
        self.reasons: Counter[str] = Counter()
        self.first: list[RejectedOffset] = []
        self.groups: set[str] = set()
        """Groups that were rejected as a whole."""
        self._file = file
        self._waiting: list[dict[str, Any]] = []

    def add_found(self, found: pa.Table) -> None:
        """Adds rows that tasks have rejected, with the reasons."""
        found = found.select(self.schema.names).cast(self.schema)
        for each in pc.value_counts(found.column("reason")).to_pylist():
            self.reasons[each["values"]] += each["counts"]
        # An unreadable group cannot be named.
        has_group = pc.not_equal(found.column("reason"), "INVALID_GROUP_ID")
        self.groups.update(pc.unique(found.filter(has_group).column("group")).to_pylist())
        self._keep_first(found.slice(0, FIRST_MAX).select(_TOLD).to_pylist())
        if self._file is not None:
            self._file.write(found)

    def add_group(
        self, group: GroupRows, rest: Rejection, own: Mapping[int, Rejection] | None = None
    ) -> None:
        """Adds all rows of a group. Rows at the places in `own` have their own reasons."""
        self.groups.add(group.group_id)
        own = own or {}
        for each in own.values():
            self.reasons[each.reason] += 1
        if len(group) > len(own):
            self.reasons[rest.reason] += len(group) - len(own)
        if self._file is not None:
            self._waiting.extend(_rejected(group, rest, own))
            if len(self._waiting) >= _ROWS_AT_ONCE:
                self._flush()
        if len(self.first) < FIRST_MAX:
            # A row's own problem says more than a problem of its group.
            rows = sorted(_rejected(group, rest, own), key=_is_along)
            self._keep_first(islice(rows, FIRST_MAX))

    def close(self) -> str | None:
        """Writes all rows to the file, and returns its place; None if there is no file."""
        if self._file is None:
            return None
        self._flush()
        return self._file.close()

    def _flush(self) -> None:
        if self._waiting:
            assert self._file is not None, "else nothing waits"
            self._file.write(pa.Table.from_pylist(self._waiting, self.schema))
            self._waiting.clear()

    def _keep_first(self, rows: Any) -> None:
        for row in islice(rows, FIRST_MAX - len(self.first)):
            self.first.append(RejectedOffset(**{name: row[name] for name in _TOLD}))


def rejects_schema(given: pa.Schema) -> pa.Schema:
    """The schema of the file, for rows of these columns."""
    return pa.schema([*given, *REJECTION])


def _rejected(
    group: GroupRows, rest: Rejection, own: Mapping[int, Rejection]
) -> Iterator[dict[str, Any]]:
    for place, row in enumerate(group.rows()):
        yield {**row, **own.get(place, rest)._asdict()}


def _is_along(row: Mapping[str, Any]) -> bool:
    return bool(row["reason"] == GROUP_REJECTED)
