"""Builds Arrow arrays of records' fields from whole buffers: no record becomes a Python object."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from offsetd_pipeline.kernels import fields
from offsetd_pipeline.kernels.records import (
    CODEC_BITS,
    CONTROL_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    gather,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from offsetd_pipeline.segments import Rows

    Numbers = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_MS_MAX: Final = 253_402_300_799_999  # The last millisecond of the year 9999.
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ROOM: Final = 8  # `gather` may write this many bytes past the last one.


def time_of(timestamp_ms: int) -> datetime | None:
    """Converts one time as `ChosenRows.timestamps` does."""
    if timestamp_ms < 0:
        return None
    return _EPOCH + timedelta(milliseconds=min(timestamp_ms, TIMESTAMP_MS_MAX))


def record_batch(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """The batch of these rows. A value that a row lacks is null."""
    return pa.RecordBatch.from_pylist(
        [{name: row.get(name) for name in schema.names} for row in rows], schema=schema
    )


class ChosenRows:
    """Some rows, in order, and Arrow arrays of their fields."""

    def __init__(self, rows: Rows, chosen: Numbers) -> None:
        self.rows = rows
        self.chosen = chosen
        is_all = len(chosen) == len(rows.fields)
        # Each field is contiguous, because it is read more than once. It is a copy even for a
        # single row: arrays must not change when the rows' buffer is reused.
        self._fields = np.array((rows.fields if is_all else rows.fields[chosen]).T, order="C")
        self._kinds: dict[tuple[int, ...], Mask] = {}

    def __len__(self) -> int:
        return len(self.chosen)

    def field(self, field: int) -> Numbers:
        """One field of each row."""
        taken: Numbers = self._fields[field]
        return taken

    def has_kind(self, *kinds: int) -> Mask:
        """A mask of the rows that have one of these kinds."""
        if kinds not in self._kinds:
            self._kinds[kinds] = is_any(self.field(fields.KIND), kinds)
        return self._kinds[kinds]

    def integers(self, field: int, arrow_type: pa.DataType, valid: Mask | None = None) -> pa.Array:
        """Numbers; null if they are not valid."""
        values = self.field(field)
        if arrow_type != pa.int64():
            values = values.astype(arrow_type.to_pandas_dtype())
        return _array(arrow_type, len(values), valid, pa.py_buffer(values))

    def timestamps(self, field: int, valid: Mask | None = None) -> pa.Array:
        """Milliseconds as Spark's timestamps.

        Null below 0; times after the year 9999 become the end of that year.
        """
        values = self.field(field)
        valid = values >= 0 if valid is None else valid & (values >= 0)
        micros = np.minimum(values, TIMESTAMP_MS_MAX) * 1000
        return _array(pa.timestamp("us", tz="UTC"), len(micros), valid, pa.py_buffer(micros))

    def flags(self, mask: Mask, valid: Mask | None = None) -> pa.Array:
        """A boolean for each row."""
        return _array(pa.bool_(), len(mask), valid, _bits(mask))

    def attribute(self, bit: int) -> pa.Array:
        """Whether the batch of each row has this attribute bit."""
        return self.flags(self.field(fields.ATTRIBUTES) & bit != 0)

    def spans(self, start_field: int, arrow_type: pa.DataType, valid: Mask) -> pa.Array:
        """The bytes, or text, of a span."""
        count = len(self.chosen)
        sizes = self.field(start_field + 1)
        ends = np.empty(count + 1, np.int32)
        out = np.empty(int(sizes[sizes > 0].sum()) + _ROOM, np.uint8)
        buffer, values, _ = self.rows
        size = gather(buffer, values, start_field, self.chosen, ends, out)
        content = pa.py_buffer(out[:size])
        return _array(arrow_type, count, valid, pa.py_buffer(ends), content)

    def names(self, start_field: int, valid: Mask | None = None) -> pa.Array:
        """Text; null if the size is -1."""
        named = self.field(start_field + 1) >= 0
        return self.spans(start_field, pa.string(), named if valid is None else named & valid)

    def words(self, numbers: Numbers, words: Sequence[str | None]) -> pa.Array:
        """The word for each number."""
        return pa.array(words, pa.string()).take(pa.array(numbers))


def is_any(values: Numbers, wanted: Sequence[int]) -> Mask:
    """A mask of the values that are among the wanted ones. At least one value must be wanted."""
    mask: Mask = values == wanted[0]
    for each in wanted[1:]:
        mask |= values == each
    return mask


def _bits(mask: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(mask, bitorder="little"))


def _array(
    arrow_type: pa.DataType, count: int, valid: Mask | None, *buffers: pa.Buffer
) -> pa.Array:
    validity = None if valid is None or valid.all() else _bits(valid)
    return pa.Array.from_buffers(arrow_type, count, [validity, *buffers])


def _of_offset(start_field: int) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: rows.names(start_field)


def _value(field: int, arrow_type: pa.DataType) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: rows.integers(field, arrow_type, rows.has_kind(fields.COMMITTED))


def _value_time(field: int) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: rows.timestamps(field, rows.has_kind(fields.COMMITTED))


def _leader_epoch(rows: ChosenRows) -> pa.Array:
    known = rows.field(fields.LEADER_EPOCH) >= 0
    return rows.integers(fields.LEADER_EPOCH, pa.int32(), known & rows.has_kind(fields.COMMITTED))


def _producer(field: int, arrow_type: pa.DataType) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: rows.integers(field, arrow_type, rows.field(fields.PRODUCER_ID) >= 0)


def _bytes(start_field: int) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: rows.spans(start_field, pa.binary(), rows.field(start_field + 1) >= 0)


def _plain(field: int, arrow_type: pa.DataType) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: rows.integers(field, arrow_type)


def _known(field: int, arrow_type: pa.DataType) -> Callable[[ChosenRows], pa.Array]:
    return lambda rows: rows.integers(field, arrow_type, rows.field(field) >= 0)


COLUMNS: Final[dict[str, Callable[[ChosenRows], pa.Array]]] = {
    "log_offset": _plain(fields.LOG_OFFSET, pa.int64()),
    "position": _plain(fields.POSITION, pa.int64()),
    "partition_leader_epoch": _plain(fields.PARTITION_LEADER_EPOCH, pa.int32()),
    "timestamp": lambda rows: rows.timestamps(fields.TIMESTAMP),
    "timestamp_type": lambda rows: rows.words(
        (rows.field(fields.ATTRIBUTES) & LOG_APPEND_TIME_BIT) // LOG_APPEND_TIME_BIT,
        ("create", "append"),
    ),
    "producer_id": _known(fields.PRODUCER_ID, pa.int64()),
    "producer_epoch": _producer(fields.PRODUCER_EPOCH, pa.int32()),
    "sequence": _known(fields.SEQUENCE, pa.int32()),
    "is_transactional": lambda rows: rows.attribute(TRANSACTIONAL_BIT),
    "is_control": lambda rows: rows.attribute(CONTROL_BIT),
    "compression": lambda rows: rows.words(
        rows.field(fields.ATTRIBUTES) & CODEC_BITS, (*CODECS, None, None, None)
    ),
    "delete_horizon": lambda rows: rows.timestamps(fields.DELETE_HORIZON),
    "record_type": lambda rows: rows.integers(
        fields.RECORD_TYPE,
        pa.int32(),
        (rows.field(fields.RECORD_TYPE) >= 0) & ~rows.has_kind(fields.CONTROL),
    ),
    "is_tombstone": lambda rows: rows.flags(rows.field(fields.VALUE_SIZE) < 0),
    "key": _bytes(fields.KEY_START),
    "value": _bytes(fields.VALUE_START),
    "group": _of_offset(fields.GROUP_START),
    "topic": _of_offset(fields.TOPIC_START),
    "partition": lambda rows: rows.integers(
        fields.PARTITION, pa.int32(), rows.field(fields.TOPIC_SIZE) >= 0
    ),
    "offset": _value(fields.OFFSET, pa.int64()),
    "leader_epoch": _leader_epoch,
    "metadata": _of_offset(fields.METADATA_START),
    "commit_time": _value_time(fields.COMMIT_TIMESTAMP),
    "expire_time": _value_time(fields.EXPIRE_TIMESTAMP),
    "record_bytes": _plain(fields.RECORD_BYTES, pa.int64()),
    "disk_bytes": _plain(fields.DISK_BYTES, pa.int64()),
    "kind": lambda rows: rows.words(
        rows.field(fields.KIND), ("committed", "deleted", "unreadable", None, None, None)
    ),
}
"""A function for each column that can be built from the records alone."""
