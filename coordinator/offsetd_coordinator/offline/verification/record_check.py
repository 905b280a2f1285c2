"""Checks of a batch's records: whether keys and values decode, and belong in this partition."""

from collections.abc import Iterator

from offsetd_storage.batch.record_batch import Record, decode_batch
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.offsets_topic.schemas.consumer_group import decode_consumer_group_value
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
from offsetd_storage.offsets_topic.schemas.keys import (
    GroupKey,
    GroupSettingsKey,
    OffsetKey,
    RecordKey,
    UnknownKey,
    decode_key,
)
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.transaction_marker import decode_transaction_marker


class RecordVerifier:
    """Checks the batches of one partition of `__consumer_offsets`.

    `partitions` is the topic's number of partitions. A group in a wrong partition is reported once.
    Records of types that offsetd does not know are only counted, in `unknown_records`.
    """

    def __init__(self, partition: int, partitions: int) -> None:
        self.unknown_records = 0
        self._partition = partition
        self._partitions = partitions
        self._misplaced: set[str] = set()

    def reasons(self, batch: bytes) -> Iterator[str]:
        """The problems of the records in a batch with a valid checksum."""
        try:
            decoded = decode_batch(batch, check_crc=False)
        except CorruptBatch as error:
            yield f"the batch does not divide into records: {error.reason}"
            return
        for record in decoded.records:
            try:
                if decoded.is_control:
                    decode_transaction_marker(record.key or b"", record.value)
                else:
                    yield from self._reasons(record)
            except UndecodableRecord as error:
                yield f"offset {record.offset}: {error}"

    def _reasons(self, record: Record) -> Iterator[str]:
        if record.key is None:
            yield f"offset {record.offset}: the record has no key"
            return
        try:
            key = decode_key(record.key)
        except UndecodableRecord as error:
            raise error.about("its key does not decode") from error
        if isinstance(key, UnknownKey):
            self.unknown_records += 1
            return
        if record.value is not None:
            _check_value(key, record.value, record.offset)
        expected = partition_of(key.group, self._partitions)
        if expected != self._partition and key.group not in self._misplaced:
            self._misplaced.add(key.group)
            yield (
                f"offset {record.offset}: group {key.group!r} belongs in partition {expected},"
                f" not {self._partition}, and is not served from here"
            )


def _check_value(key: RecordKey, value: bytes, offset: int) -> None:
    """Raises UndecodableRecord with the name of the entry if the value does not decode."""
    try:
        match key:
            case OffsetKey():
                OffsetCommitValue.decode(value)
            case GroupKey():
                GroupMetadataValue.decode(value)
            case GroupSettingsKey():
                GroupSettings.decode(value, offset=offset)
            case UnknownKey():
                pass
            case _:
                decode_consumer_group_value(key.record_type, value)
    except UndecodableRecord as error:
        raise error.about(f"the value of {_entry(key)} does not decode") from error


def _entry(key: RecordKey) -> str:
    match key:
        case OffsetKey():
            return f"group {key.group!r}, topic {key.topic!r}, partition {key.partition}"
        case GroupKey():
            return f"group {key.group!r}"
        case GroupSettingsKey():
            return f"group {key.group!r} (settings)"
        case UnknownKey():
            return f"record type {key.record_type}"
        case _:
            return f"group {key.group!r} ({key.record_type.name.lower()})"
