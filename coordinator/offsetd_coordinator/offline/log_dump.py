"""Dumps of a partition's log in the format of Kafka's `DumpLogSegments --deep-iteration` (4.1.1).

With `decode_offsets`, keys and values have the form of `--offsets-decoder`. The lines are Kafka's,
character for character, with three exceptions. The reason why a key or value cannot be decoded is
in offsetd's words. If Kafka's tool stops with a stack trace (a record without a key, records that
do not follow the format, bytes that are not a batch), a line reports that and the dump continues as
far as it can. Gaps between offsets are not reported: compaction leaves them everywhere.
"""

from collections.abc import Iterator
from typing import Final, cast

from offsetd_storage.batch.record_batch import (
    BatchHeader,
    Record,
    batch_header,
    computed_crc,
    decode_batch,
)
from offsetd_storage.disk.files import Files
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.offsets_topic.schemas.kafka_json import JsonText, message_json, replacing_text
from offsetd_storage.offsets_topic.schemas.layout import (
    Fields,
    Layout,
    Message,
    read_message,
    read_versioned,
)
from offsetd_storage.offsets_topic.schemas.primitives import (
    Reader,
    UndecodableRecord,
    UnknownValueVersion,
)
from offsetd_storage.offsets_topic.schemas.protocol_metadata import (
    ASSIGNMENT,
    CONSUMER_PROTOCOL_TYPE,
    SUBSCRIPTION,
)
from offsetd_storage.offsets_topic.schemas.record_layouts import (
    KEY_LAYOUTS,
    VALUE_LAYOUTS,
    RecordType,
)
from offsetd_storage.offsets_topic.schemas.transaction_marker import (
    decode_control_type,
    decode_transaction_marker,
)
from offsetd_storage.timestamp_type import TimestampType
from offsetd_storage.views.folder_view import LogView
from offsetd_storage.views.live_folder import SegmentWalk

from offsetd_coordinator.offline.segment_batches import whole_batches

_INT16_BYTES: Final = 2
_NO_SEQUENCE: Final = -1
_SEQUENCE_MAX: Final = (1 << 31) - 1
_TIMESTAMP_NAMES: Final = {
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}
_RECORD_TYPES: Final = frozenset(RecordType)


def dump_log(files: Files, log: LogView, *, decode_offsets: bool = True) -> Iterator[str]:
    """The lines for every segment of a log, up to the end that the view allows.

    If a running server swaps segments during the dump, no batch is dumped twice.
    """
    segments = SegmentWalk(files, log)
    offset_next = 0
    while (found := segments.open_next(offset_next)) is not None:
        base_offset, file = found
        try:
            size = file.size()
            readable_bytes = log.readable_bytes(base_offset, size)
            if segments.opened > 1 and readable_bytes == 0 < size:
                return
            name = segment_path(log.folder, base_offset).name
            yield f"Dumping {log.folder.name}/{name}"
            yield f"Log starting offset: {base_offset}"
            valid_bytes, is_whole = 0, readable_bytes == size
            for position, batch in whole_batches(file, readable_bytes):
                try:
                    header = batch_header(batch)
                except CorruptBatch:
                    break
                valid_bytes = position + len(batch)
                if segments.is_live and header.last_offset < offset_next:
                    continue
                yield _batch_line(header, batch, position)
                yield from _record_lines(batch, position, decode_offsets=decode_offsets)
                offset_next = max(offset_next, header.last_offset + 1)
            # If the segment was cleaned during the dump, the recovery point is not a position in it
            # any more.
            if valid_bytes < readable_bytes and (is_whole or not segments.is_live):
                yield f"Found {readable_bytes - valid_bytes} invalid bytes at the end of {name}"
        finally:
            file.close()


def _batch_line(header: BatchHeader, batch: bytes, position: int) -> str:
    horizon = header.delete_horizon_ms
    last_sequence = _sequence(header.base_sequence, header.last_offset - header.base_offset)
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset}"
        f" count: {header.count} baseSequence: {header.base_sequence}"
        f" lastSequence: {last_sequence} producerId: {header.producer_id}"
        f" producerEpoch: {header.producer_epoch}"
        f" partitionLeaderEpoch: {header.partition_leader_epoch}"
        f" isTransactional: {_java(header.is_transactional)} isControl: {_java(header.is_control)}"
        f" deleteHorizonMs: OptionalLong{'.empty' if horizon is None else f'[{horizon}]'}"
        f" position: {position} {_TIMESTAMP_NAMES[header.timestamp_type]}:"
        f" {header.max_timestamp_ms} size: {header.size_bytes} magic: 2"
        f" compresscodec: {_codec_name(header)} crc: {header.crc}"
        f" isvalid: {_java(computed_crc(batch) == header.crc)}"
    )


def _record_lines(batch: bytes, position: int, *, decode_offsets: bool) -> Iterator[str]:
    try:
        decoded = decode_batch(batch, check_crc=False)
    except CorruptBatch as error:
        yield f"| Error in the batch at position {position}, skipping. {error.reason}"
        return
    timestamp_name = _TIMESTAMP_NAMES[decoded.timestamp_type]
    for record in decoded.records:
        line = (
            f"| offset: {record.offset} {timestamp_name}: {record.timestamp_ms}"
            f" keySize: {_size(record.key)} valueSize: {_size(record.value)}"
            f" sequence: {_sequence(decoded.base_sequence, record.offset - decoded.base_offset)}"
            f" headerKeys: [{','.join(name for name, _ in record.headers)}]"
        )
        if decoded.is_control:
            line += _control_text(record)
        elif decode_offsets:
            line += _decoded_text(record)
        yield line


def _control_text(record: Record) -> str:
    try:
        marker = decode_transaction_marker(record.key or b"", record.value)
        if marker is None:
            return f" controlType: UNKNOWN({decode_control_type(record.key or b'')})"
    except UndecodableRecord as error:
        return f" Error at offset {record.offset}, skipping. {error}"
    name = marker.control_type.name
    return f" endTxnMarker: {name} coordinatorEpoch: {marker.coordinator_epoch}"


def _decoded_text(record: Record) -> str:
    """The end of a record's line: its key and value, or the reason why they cannot be shown."""
    if record.key is None:
        return f" key: Error at offset {record.offset}, skipping. The record has no key."
    try:
        number = _int16(record.key, "key")
        if number not in _RECORD_TYPES:
            return f" key: Unknown record type {number} at offset {record.offset}, skipping."
        record_type = RecordType(number)
        key_json = _key_json(record_type, record.key)
        return f" key: {key_json} payload: {_value_json(record_type, record.value)}"
    except UndecodableRecord as error:
        return f" key: Error at offset {record.offset}, skipping. {error}"


def _int16(content: bytes, part: str) -> int:
    if len(content) < _INT16_BYTES:
        raise UndecodableRecord(f"Could not read version from {part}'s buffer.")
    return int.from_bytes(content[:_INT16_BYTES], "big", signed=True)


def _key_json(record_type: RecordType, key: bytes) -> str:
    layout = KEY_LAYOUTS[record_type]
    reader = Reader(key[_INT16_BYTES:], text=replacing_text)
    try:
        message = read_message(layout, reader, version=0)
    except UndecodableRecord as error:
        raise _unreadable(record_type, "key", error) from error
    return f'{{"type":"{record_type}","data":{message_json(layout, message)}}}'


def _value_json(record_type: RecordType, value: bytes | None) -> str:
    if value is None:
        return "<DELETE>"
    layout = VALUE_LAYOUTS[record_type]
    version = _int16(value, "value")
    try:
        message = read_versioned(layout, value, text=replacing_text)
    except UnknownValueVersion as error:
        raise UndecodableRecord(
            f"Found an unknown record version {version} for {record_type} type"
        ) from error
    except UndecodableRecord as error:
        raise _unreadable(version, "value", error) from error
    if record_type is RecordType.GROUP_METADATA:
        _open_consumer_blobs(message)
    return f'{{"version":"{version}","data":{message_json(layout, message)}}}'


def _unreadable(version: int, part: str, error: UndecodableRecord) -> UndecodableRecord:
    return UndecodableRecord(
        f"Could not read record with version {version} from {part}'s buffer due to: {error}."
    )


def _open_consumer_blobs(message: Message) -> None:
    """Decodes the members' subscriptions and assignments, if the group is one of consumers."""
    if message.fields["protocolType"] != CONSUMER_PROTOCOL_TYPE:
        return
    for member in cast("list[Fields]", message.fields["members"]):
        for name, layout in (("subscription", SUBSCRIPTION), ("assignment", ASSIGNMENT)):
            opened = _blob_json(layout, cast("bytes", member[name]))
            if opened is not None:
                member[name] = opened


def _blob_json(layout: Layout, blob: bytes) -> JsonText | None:
    """The blob as JSON; None if Kafka's tool leaves it as bytes."""
    reader = Reader(blob, text=replacing_text)
    try:
        version = reader.int16()
        message = read_message(layout, reader, max(version, 0))
    except UndecodableRecord:
        return None
    topics = message.fields.get("ownedPartitions") or message.fields.get("assignedPartitions")
    if version > layout.version_last and topics:
        return None  # Kafka's tool reads a message of a newer version, but no struct in it.
    return JsonText(message_json(layout, message))


def _sequence(base_sequence: int, delta: int) -> int:
    """The sequence number `delta` later. After the largest int32, numbers start again at 0."""
    if base_sequence == _NO_SEQUENCE:
        return _NO_SEQUENCE
    return (base_sequence + delta) % (_SEQUENCE_MAX + 1)


def _codec_name(header: BatchHeader) -> str:
    try:
        return header.compression.name.lower()
    except ValueError:
        return "unknown"  # Kafka's tool stops here; the records will not be readable.


def _size(content: bytes | None) -> int:
    return -1 if content is None else len(content)


def _java(value: bool) -> str:
    return "true" if value else "false"
