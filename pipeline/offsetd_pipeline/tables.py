"""The tables of `format("offsetd")`: their columns by mode, with types, units and meanings."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType


class Mode(StrEnum):
    """The table to read."""

    CURRENT = "current"
    HISTORY = "history"
    GROUPS = "groups"
    RAW = "raw"
    DAMAGE = "damage"


class Column(NamedTuple):
    """A column. `meaning` becomes its comment in Spark."""

    name: str
    type: DataType
    meaning: str


_TEXT, _INT, _LONG = StringType(), IntegerType(), LongType()
_TIME, _FLAG, _BYTES = TimestampType(), BooleanType(), BinaryType()

_ARROW_TYPES: Final[dict[type[DataType], pa.DataType]] = {
    StringType: pa.string(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    BooleanType: pa.bool_(),
    BinaryType: pa.binary(),
}

_LOG_PARTITION: Final = Column("log_partition", _INT, "partition of __consumer_offsets")
_LOG_OFFSET: Final = Column(
    "log_offset", _LONG, "offset of the record in its log partition; the revision of an offset"
)
_KEY: Final = (
    Column("group", _TEXT, "consumer group"),
    Column("topic", _TEXT, "topic whose offset it is"),
    Column("partition", _INT, "partition of the topic"),
)
_VALUE: Final = (
    Column("offset", _LONG, "committed offset: the next one to read; null if it cannot be read"),
    Column("leader_epoch", _INT, "leader epoch of the last record that was read; null: not given"),
    Column("metadata", _TEXT, "metadata that the client committed with the offset"),
    Column("commit_time", _TIME, "when it was committed, by the coordinator's clock, ms"),
    Column("expire_time", _TIME, "when it expires, if the record says so, ms"),
)
_TIMESTAMP: Final = Column("timestamp", _TIME, "timestamp of the record, ms; null: none")
_DISK_BYTES: Final = Column(
    "disk_bytes", _LONG, "size in the file: its share of its batch, including the header, bytes"
)
_PRODUCER_ID: Final = Column("producer_id", _LONG, "producer; null: none")

_ASSIGNED: Final = StructType([StructField("topic", _TEXT), StructField("partition", _INT)])
_MEMBERS: Final = ArrayType(
    StructType(
        [
            StructField("member_id", _TEXT),
            StructField("instance_id", _TEXT),
            StructField("client_id", _TEXT),
            StructField("client_host", _TEXT),
            StructField("topics", ArrayType(_TEXT)),
            StructField("assignment", ArrayType(_ASSIGNED)),
        ]
    )
)

TABLES: Final[dict[Mode, tuple[Column, ...]]] = {
    Mode.CURRENT: (*_KEY, *_VALUE, _LOG_PARTITION, _LOG_OFFSET),
    Mode.HISTORY: (
        _LOG_PARTITION,
        _LOG_OFFSET,
        _TIMESTAMP,
        Column("kind", _TEXT, "committed, deleted, or unreadable: a value that does not decode"),
        Column(
            "transaction",
            _TEXT,
            "state of its transaction: committed, aborted or open; null: not in a transaction",
        ),
        _PRODUCER_ID,
        *_KEY,
        *_VALUE,
        _DISK_BYTES,
    ),
    Mode.GROUPS: (
        Column("group", _TEXT, "consumer group"),
        Column("type", _TEXT, "classic or consumer"),
        Column("state", _TEXT, "state after loading the log: EMPTY, STABLE, ...; null: unreadable"),
        Column("protocol_type", _TEXT, "empty for a simple group"),
        Column("protocol", _TEXT, "assignor that the members agreed on"),
        Column("generation", _INT, "generation, or epoch of the group"),
        Column("leader_id", _TEXT, "member that assigns partitions"),
        Column("member_count", _INT, "members"),
        Column("members", _MEMBERS, "members, by id"),
        Column("state_time", _TIME, "when it entered its state, ms; null: not recorded"),
        Column("offset_count", _LONG, "committed offsets"),
        Column("retention_ms", _LONG, "retention set for the group, ms; null: the server's"),
        Column("never_expires", _FLAG, "whether its offsets are set to never expire"),
        Column("lease_holder", _TEXT, "holder of its newest lease; null: none"),
        Column("lease_epoch", _LONG, "epoch of that lease"),
        _LOG_PARTITION,
    ),
    Mode.RAW: (
        _LOG_PARTITION,
        _LOG_OFFSET,
        Column("segment", _LONG, "base offset of the segment, which names its file"),
        Column("position", _LONG, "where its batch begins in the segment's file, bytes"),
        Column("partition_leader_epoch", _INT, "leader epoch of the log partition"),
        _TIMESTAMP,
        Column("timestamp_type", _TEXT, "create: the producer's clock; append: the broker's"),
        _PRODUCER_ID,
        Column("producer_epoch", _INT, "epoch of the producer; null: none"),
        Column("sequence", _INT, "producer's sequence number; null: none"),
        Column("is_transactional", _FLAG, "whether its batch is part of a transaction"),
        Column("is_control", _FLAG, "whether it is a marker that ends a transaction"),
        Column("compression", _TEXT, "codec of its batch"),
        Column("delete_horizon", _TIME, "when its tombstones may be removed, ms; null: not set"),
        Column("record_type", _INT, "first two bytes of the key; null: none, or a control record"),
        Column("is_tombstone", _FLAG, "whether its value is null"),
        Column("key", _BYTES, "key"),
        Column("value", _BYTES, "value"),
        *_KEY,
        *_VALUE,
        Column("record_bytes", _LONG, "size in its batch, before compression, bytes"),
        _DISK_BYTES,
    ),
    Mode.DAMAGE: (
        _LOG_PARTITION,
        Column("file", _TEXT, "segment's file"),
        Column("position", _LONG, "where the damage begins, bytes"),
        Column("size_bytes", _LONG, "how much of the file holds no valid batch"),
        Column("reason", _TEXT, "what is wrong there"),
    ),
}


FOLDER: Final = Column("folder", _TEXT, "data folder, where several are read")


def schema_of(
    mode: Mode, names: Sequence[str] = (), *, has_folder_column: bool = False
) -> StructType:
    """The schema of a table, or of some of its columns. Raises ValueError for an unknown column."""
    table = (*TABLES[mode], FOLDER) if has_folder_column else TABLES[mode]
    columns = {column.name: column for column in table}
    for name in names:
        if name not in columns:
            raise ValueError(f"mode {mode} has no column {name!r}; it has {', '.join(columns)}")
    return StructType(
        [
            StructField(name, columns[name].type, True, {"comment": columns[name].meaning})
            for name in names or columns
        ]
    )


def check_schema(mode: Mode, schema: StructType, *, has_folder_column: bool = False) -> None:
    """Checks that a requested schema has columns of the table. Raises ValueError."""
    table = schema_of(mode, schema.fieldNames(), has_folder_column=has_folder_column)
    own = {field.name: field.dataType for field in table.fields}
    for field in schema.fields:
        if field.dataType != own[field.name]:
            raise ValueError(
                f"column {field.name} is {own[field.name].simpleString()},"
                f" not {field.dataType.simpleString()}"
            )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark needs for batches of a table's columns."""
    return pa.schema([pa.field(each.name, _arrow_type(each.dataType)) for each in schema.fields])


def _arrow_type(spark_type: DataType) -> pa.DataType:
    if isinstance(spark_type, ArrayType):
        return pa.list_(pa.field("element", _arrow_type(spark_type.elementType)))
    if isinstance(spark_type, StructType):
        return pa.struct(
            [pa.field(each.name, _arrow_type(each.dataType)) for each in spark_type.fields]
        )
    return _ARROW_TYPES[type(spark_type)]
