"""Control records."""

import pytest
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.transaction_marker import (
    ControlType,
    EndTransactionMarker,
    decode_control_type,
    decode_transaction_marker,
)


@pytest.mark.parametrize(
    ("key", "value", "marker"),
    [
        ("00000000", "000000000000", (ControlType.ABORT, 0)),
        ("00000001", "000000000007", (ControlType.COMMIT, 7)),
        ("00050001", "000900000007ff", (ControlType.COMMIT, 7)),
    ],
)
def test_the_end_of_a_transaction_is_read_also_from_newer_versions(
    key: str, value: str, marker: tuple[ControlType, int]
) -> None:
    expected = EndTransactionMarker(control_type=marker[0], coordinator_epoch=marker[1])
    assert decode_transaction_marker(bytes.fromhex(key), bytes.fromhex(value)) == expected


@pytest.mark.parametrize("control_type", [-1, 2, 3, 99])
def test_other_control_records_are_none(control_type: int) -> None:
    key = b"\x00\x00" + control_type.to_bytes(2, "big", signed=True)
    assert decode_control_type(key) == control_type
    assert decode_transaction_marker(key, None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("000000", "000000000000"),
        ("ffff0000", "000000000000"),
        ("00000001", None),
        ("00000001", "ffff00000000"),
        ("00000001", "0000000000"),
    ],
)
def test_bad_bytes_raise(key: str, value: str | None) -> None:
    with pytest.raises(UndecodableRecord):
        decode_transaction_marker(
            bytes.fromhex(key), None if value is None else bytes.fromhex(value)
        )
