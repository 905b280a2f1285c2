"""Reads an offsets log with Spark alone: whole files, and a parser in plain Python.

It makes the table of mode `raw` without `disk_bytes`. It reads uncompressed batches of commits,
which `generate_log` writes, and does not check their checksums.
"""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from offsetd_pipeline.tables import TABLES, Mode, schema_of
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  As everybody calls it.

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = [each.name for each in TABLES[Mode.RAW] if each.name != "disk_bytes"]
_BATCH: Final = ">qiibIhiqqqhii"
_BATCH_BYTES: Final = struct.calcsize(_BATCH)
_LENGTH_END: Final = 12  # The bytes that the length in a batch's header does not count.
_VALUE_VERSIONS: Final = (4,)
_NONE: Final = -1
_APPEND_TIME: Final = 8
_TRANSACTIONAL: Final = 16
_CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
_PLACE: Final = re.compile(r"__consumer_offsets-(\d+)/(\d+)\.log$")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def table(spark: SparkSession, folder: str) -> DataFrame:
    """All records of all segments of a data folder."""
    # The folders are named, because Spark ignores folders that begin with an underscore.
    files = spark.read.format("binaryFile").load(f"{folder}/__consumer_offsets-[0-9]*/*.log")
    contents = files.select("path", "content").rdd
    return spark.createDataFrame(contents.flatMap(_rows), schema_of(Mode.RAW, COLUMNS))


def newest(records: DataFrame) -> DataFrame:
    """The current offsets in a table of records: the newest of each key without tombstones."""
    of_key = Window.partitionBy("group", "topic", "partition").orderBy(F.desc("log_offset"))
    ranked = records.withColumn("rank", F.row_number().over(of_key))
    is_current = (F.col("rank") == 1) & ~F.col("is_tombstone")
    columns = [each.name for each in TABLES[Mode.CURRENT]]
    return ranked.where(is_current).select(*columns)


def _rows(file: Any) -> Iterator[tuple[object, ...]]:
    content = bytes(file.content)
    place = _PLACE.search(file.path)
    assert place is not None, "the pattern of files has both numbers"
    log_partition, segment = map(int, place.groups())
    position = 0
    while position < len(content):
        (
            base_offset,
            length,
            partition_leader_epoch,
            _,
            _,
            attributes,
            _,
            first_timestamp,
            _,
            producer_id,
            producer_epoch,
            sequence,
            count,
        ) = struct.unpack_from(_BATCH, content, position)
        at = position + _BATCH_BYTES
        for number in range(count):
            begin = at
            size, at = _varint(content, at)
            end = at + size
            timestamp, at = _varint(content, at + 1)
            offset, at = _varint(content, at)
            key_size, at = _varint(content, at)
            key, at = content[at : at + key_size], at + key_size
            value_size, at = _varint(content, at)
            value, at = content[at : at + max(value_size, 0)], end
            assert int.from_bytes(key[:2], "big") == 1, "a commit"
            yield (
                log_partition,
                base_offset + offset,
                segment,
                position,
                partition_leader_epoch,
                _time(first_timestamp + timestamp),
                "append" if attributes & _APPEND_TIME else "create",
                _unless_none(producer_id),
                _unless_none(producer_epoch),
                _unless_none(sequence) if sequence < 0 else sequence + number,
                bool(attributes & _TRANSACTIONAL),
                False,
                _CODECS[attributes & 7],
                None,
                1,
                not value,
                key,
                value or None,
                *_key(key),
                *(_value(value) if value else (None,) * 5),
                end - begin,
            )
        position += _LENGTH_END + length


def _key(key: bytes) -> tuple[str, str, int]:
    group_end = 4 + int.from_bytes(key[2:4], "big")
    topic_begin = group_end + 2
    topic_end = topic_begin + int.from_bytes(key[group_end:topic_begin], "big")
    partition = int.from_bytes(key[topic_end : topic_end + 4], "big")
    return key[4:group_end].decode(), key[topic_begin:topic_end].decode(), partition


def _value(value: bytes) -> tuple[int, int | None, str, datetime, None]:
    version, offset, leader_epoch = struct.unpack_from(">hqi", value)
    assert version in _VALUE_VERSIONS, "as the generator writes them"
    size, at = _unsigned_varint(value, 14)
    metadata_end = at + size - 1
    commit_ms = int.from_bytes(value[metadata_end : metadata_end + 8], "big")
    metadata = value[at:metadata_end].decode()
    return offset, _unless_none(leader_epoch), metadata, _time(commit_ms), None


def _unless_none(value: int) -> int | None:
    return None if value == _NONE else value


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned_varint(content, at)
    return (value >> 1) ^ -(value & 1), at


def _unsigned_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
