"""The kinds of sources, by the words that name them."""

from enum import StrEnum


class SourceKind(StrEnum):
    """What a source is."""

    FOLDER = "folder"  # A data folder, ours or a broker's; several: those of many nodes.
    SERVER = "server"
    ARCHIVE = "archive"
    KAFKA_CSV = "kafka-csv"
    RPK = "rpk"
    KAFKA_UTILS = "kafka-utils"
    JSONL = "jsonl"
    PARQUET = "parquet"
    ZOOKEEPER = "zookeeper-file"  # A file of ExportZkOffsets.
