"""Records of dynamic settings, by their bytes."""

from __future__ import annotations

import pytest
from offsetd_coordinator.configuration.config_record import (
    ConfigKey,
    UnknownConfigVersion,
    decode_config_key,
    decode_config_value,
    encode_config_key,
    encode_config_value,
)
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

KEYS = [
    (ConfigKey(None, "log.cleaner.threads"), b"\0\0\0\0\0\0\x13log.cleaner.threads"),
    (ConfigKey("t", "retention.ms"), b"\0\0\1\0\1t\0\x0cretention.ms"),
    (ConfigKey("früh", "n"), b"\0\0\1\0\5fr\xc3\xbch\0\1n"),
]


@pytest.mark.parametrize(("key", "encoded"), KEYS)
def test_a_key_is_these_bytes(key: ConfigKey, encoded: bytes) -> None:
    assert encode_config_key(key) == encoded
    assert decode_config_key(encoded) == key


def test_a_value_is_these_bytes() -> None:
    assert encode_config_value("60000") == b"\0\0\0\x0560000"
    assert decode_config_value(b"\0\0\0\x0560000") == "60000"
    assert decode_config_value(encode_config_value("")) == ""


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        (b"", UndecodableRecord),
        (b"\0", UndecodableRecord),
        (b"\0\1\0\0\0\0\1n", UnknownConfigVersion),
        (b"\0\0\2\0\0\0\1n", UnknownConfigVersion),
        (b"\0\0\0\0\0\0\5n", UndecodableRecord),
        (b"\0\0\0\xff\xff\0\1n", UndecodableRecord),
        (b"\0\0\1\0\1\xff\0\1n", UndecodableRecord),
    ],
)
def test_a_key_that_is_none_is_refused(encoded: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_config_key(encoded)


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        (b"", UndecodableRecord),
        (b"\0\1\0\1x", UnknownConfigVersion),
        (b"\0\0\0\2x", UndecodableRecord),
        (b"\0\0\xff\xff", UndecodableRecord),
        (b"\0\0\0\1\xff", UndecodableRecord),
    ],
)
def test_a_value_that_is_none_is_refused(encoded: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_config_value(encoded)
