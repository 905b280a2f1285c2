"""The one record of a control batch: the end of a producer's transaction.

Key: int16 version, int16 control type. Value of an end: int16 version, int32 coordinator epoch.
Newer versions of either are read as version 0, as Kafka does.
"""

import enum

import attrs

from offsetd_storage.offsets_topic.schemas.primitives import Reader, UndecodableRecord, Writer


class ControlType(enum.IntEnum):
    """The control types of a transaction. The other types are for Kafka's own metadata log."""

    ABORT = 0
    COMMIT = 1


@attrs.frozen(kw_only=True)
class EndTransactionMarker:
    """The end of a transaction of the batch's producer, by the coordinator of this epoch."""

    control_type: ControlType
    coordinator_epoch: int

    def encode(self) -> tuple[bytes, bytes]:
        """The key and the value of the marker's record, in version 0."""
        key, value = Writer(), Writer()
        key.int16(0)
        key.int16(self.control_type)
        value.int16(0)
        value.int32(self.coordinator_epoch)
        return key.result(), value.result()


def decode_control_type(key: bytes) -> int:
    """The number of the control type, known or not. Raises `UndecodableRecord`."""
    reader = Reader(key)
    if reader.int16() < 0:
        raise UndecodableRecord("a control key with a negative version")
    return reader.int16()


def decode_transaction_marker(key: bytes, value: bytes | None) -> EndTransactionMarker | None:
    """The marker, or None for a control record of another type. Raises `UndecodableRecord`."""
    control_type = decode_control_type(key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    if value is None:
        raise UndecodableRecord("a transaction marker without a value")
    reader = Reader(value)
    if reader.int16() < 0:
        raise UndecodableRecord("a transaction marker of negative version")
    return EndTransactionMarker(
        control_type=ControlType(control_type), coordinator_epoch=reader.int32()
    )
