"""How one reads an offsets log with Spark alone: whole files, and a parser in plain Python.

Rows of group, topic, partition, offset, timestamp, log offset; of uncompressed batches, whose
checksums are not looked at.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = (
    "`group` string, topic string, `partition` int, offset bigint, timestamp bigint,"
    " log_offset bigint"
)
_BATCH: Final = ">qiibIhiqqqhii"
_BATCH_BYTES: Final = struct.calcsize(_BATCH)
_OFFSET_KEY_VERSIONS: Final = (0, 1)


def table(spark: SparkSession, folder: str) -> DataFrame:
    """The commits of all segments of a data folder."""
    # Named, as Spark takes folders that begin with an underscore for its own.
    files = spark.read.format("binaryFile").load(f"{folder}/__consumer_offsets-*/*.log")
    return spark.createDataFrame(files.select("content").rdd.flatMap(_rows), SCHEMA)


def _rows(file: Any) -> Iterator[tuple[str, str, int, int, int, int]]:
    content = bytes(file.content)
    position = 0
    while position < len(content):
        header = struct.unpack_from(_BATCH, content, position)
        base_offset, length, first_timestamp, count = header[0], header[1], header[7], header[12]
        at = position + _BATCH_BYTES
        position += 12 + length
        for _ in range(count):
            size, at = _varint(content, at)
            end = at + size
            timestamp, at = _varint(content, at + 1)
            offset, at = _varint(content, at)
            key_size, at = _varint(content, at)
            key, at = content[at : at + key_size], at + key_size
            value_size, at = _varint(content, at)
            value, at = content[at : at + max(value_size, 0)], end
            version = int.from_bytes(key[:2], "big")
            if version in _OFFSET_KEY_VERSIONS and value:
                group, topic, partition = _key(key)
                committed = int.from_bytes(value[2:10], "big", signed=True)
                yield (
                    group,
                    topic,
                    partition,
                    committed,
                    first_timestamp + timestamp,
                    base_offset + offset,
                )


def _key(key: bytes) -> tuple[str, str, int]:
    group_end = 4 + int.from_bytes(key[2:4], "big")
    topic_begin = group_end + 2
    topic_end = topic_begin + int.from_bytes(key[group_end:topic_begin], "big")
    partition = int.from_bytes(key[topic_end : topic_end + 4], "big")
    return key[4:group_end].decode(), key[topic_begin:topic_end].decode(), partition


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
