"""Records of one log partition as Parquet files, one for each day and run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from offsetd_pipeline.archive.columns import FILE_SCHEMA
from offsetd_pipeline.archive.manifests import DAY, LOG_PARTITION, ArchivedFile
from offsetd_pipeline.files import make_durable, make_folder, sync_folder

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value that Spark and other readers read as null."""
DAY_MS: Final = 86_400_000
_MICROSECONDS: Final = 1000  # Microseconds in a millisecond.
_GROUP_ROWS: Final = 262_144
_OPEN_MAX: Final = 4  # The most open files, one for each day; each holds up to a row group.
# Values of these columns repeat; in the others nearly every value is different.
_REPEATING: Final = ["kind", "transaction", "group", "topic", "partition", "leader_epoch"]
_GROWING: Final = ("log_offset", "timestamp", "offset", "commit_time")


class _DayFile:
    """A file that is being written."""

    def __init__(self, root: Path, log_partition: int, day: str | None, name: str) -> None:
        self._place = f"{DAY}{day or NO_DAY}/{LOG_PARTITION}{log_partition}"
        self._root = root
        self._log_partition = log_partition
        self._day = day
        self._path = f"{self._place}/{name}.parquet"
        self._writer: pq.ParquetWriter | None = None
        self._batches: list[pa.RecordBatch] = []
        self._waiting = 0
        self._count = 0
        self._first = -1
        self._last = -1
        self._earliest: int | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Appends rows."""
        offsets = batch.column("log_offset")
        if not self._count:
            self._first = offsets[0].as_py()
        self._last = offsets[-1].as_py()
        earliest = pc.min(batch.column("timestamp")).value
        if earliest is not None:
            self._earliest = min(earliest, earliest if self._earliest is None else self._earliest)
        self._count += batch.num_rows
        self._batches.append(batch)
        self._waiting += batch.num_rows
        if self._waiting >= _GROUP_ROWS:
            self._flush()

    def close(self) -> ArchivedFile:
        """Completes the file durably, except for its folder."""
        self._flush()
        assert self._writer is not None, "a file has rows"
        self._writer.close()
        path = self._root / self._path
        size_bytes = make_durable(path)
        sync_folder(path.parent)
        return ArchivedFile(
            path=self._path,
            log_partition=self._log_partition,
            day=self._day,
            record_count=self._count,
            size_bytes=size_bytes,
            first_log_offset=self._first,
            last_log_offset=self._last,
            earliest_ms=None if self._earliest is None else self._earliest // _MICROSECONDS,
        )

    def _flush(self) -> None:
        if not self._batches:
            return
        if self._writer is None:
            make_folder(self._root / self._place)
            self._writer = pq.ParquetWriter(
                self._root / self._path,
                FILE_SCHEMA,
                compression="zstd",
                compression_level=1,
                use_dictionary=_REPEATING,
                column_encoding=dict.fromkeys(_GROWING, "DELTA_BINARY_PACKED"),
            )
        self._writer.write_table(pa.Table.from_batches(self._batches), row_group_size=_GROUP_ROWS)
        self._batches, self._waiting = [], 0


class DayFiles:
    """Takes rows in the order of their log offsets. The names of its files are unique."""

    def __init__(self, root: Path, log_partition: int, run_id: str) -> None:
        self._root = root
        self._log_partition = log_partition
        self._name = f"{run_id}-{uuid4().hex[:8]}"
        self._open: dict[str | None, _DayFile] = {}  # The most recently used file comes last.
        self._closed: list[ArchivedFile] = []
        self._made = 0

    def add(self, day: str | None, batch: pa.RecordBatch) -> None:
        """Adds rows of one day."""
        file = self._open.pop(day, None)
        if file is None:
            if len(self._open) == _OPEN_MAX:
                self._closed.append(self._open.pop(next(iter(self._open))).close())
            name = f"{self._name}-{self._made:04d}"
            file = _DayFile(self._root, self._log_partition, day, name)
            self._made += 1
        self._open[day] = file
        file.add(batch)

    def close(self) -> tuple[ArchivedFile, ...]:
        """Completes all files, and returns them."""
        self._closed += [each.close() for each in self._open.values()]
        self._open.clear()
        return tuple(self._closed)


def by_day(chosen: Numbers, timestamps_ms: Numbers) -> list[tuple[str | None, Numbers]]:
    """Divides the chosen rows by the UTC day of their timestamps; None if they have none."""
    days = np.where(timestamps_ms < 0, -1, timestamps_ms // DAY_MS)
    if len(days) and (days == days[0]).all():
        return [(_day(int(days[0])), chosen)]
    return [(_day(int(day)), chosen[days == day]) for day in np.unique(days)]


def _day(number: int) -> str | None:
    return None if number < 0 else str(np.datetime64(number, "D"))
