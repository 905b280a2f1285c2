"""The kinds of sources, by their names."""

from enum import StrEnum


class SourceKind(StrEnum):
    """The kind of a source."""

    FOLDER = "folder"  # One or more data folders of offsetd or of brokers.
    SERVER = "server"
    ARCHIVE = "archive"
    KAFKA_CSV = "kafka-csv"
    RPK = "rpk"
    KAFKA_UTILS = "kafka-utils"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ZOOKEEPER = "zookeeper-file"  # A file of ExportZkOffsets.
