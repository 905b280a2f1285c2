"""What is set for a group, as its record has it."""

import pytest
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings, Lease
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord, UnknownValueVersion

LEASE = Lease(holder="ü", epoch=7, granted_ms=1_700_000_000_000, ttl_ms=30_000)
LEASE_BYTES = "0002 c3bc 0000000000000007 0000018bcfe56800 0000000000007530"
OWN_OFFSET = LEASE_BYTES.replace("0000000000000007", "ff" * 8)
VALUES = [
    ("0000 ffffffffffffffff ffff", GroupSettings()),
    ("0000 fffffffffffffffe ffff", GroupSettings(never_expires=True)),
    ("0000 0000000000000001 ffff", GroupSettings(retention_ms=1)),
    ("0000 ffffffffffffffff" + LEASE_BYTES, GroupSettings(lease=LEASE)),
    ("0000 fffffffffffffffe" + LEASE_BYTES, GroupSettings(never_expires=True, lease=LEASE)),
]


@pytest.mark.parametrize(("encoded", "settings"), VALUES)
def test_settings_read_and_write_back(encoded: str, settings: GroupSettings) -> None:
    assert settings.encode() == bytes.fromhex(encoded)
    assert GroupSettings.decode(bytes.fromhex(encoded), offset=9) == settings
    assert GroupSettings.decode(bytes.fromhex(encoded) + b"more", offset=9) == settings


def test_the_epoch_of_a_lease_that_this_record_grants_is_the_offset_of_the_record() -> None:
    encoded = bytes.fromhex("0000 ffffffffffffffff" + OWN_OFFSET)
    for offset in (0, 7, 2**62):
        lease = GroupSettings.decode(encoded, offset=offset).lease
        assert lease is not None
        assert lease.epoch == offset


def test_only_what_says_nothing_is_the_default() -> None:
    assert [settings.is_default for _, settings in VALUES] == [True, False, False, False, False]


@pytest.mark.parametrize(
    "encoded",
    [
        *(bytes.fromhex(VALUES[-1][0])[:size] for size in range(len(bytes.fromhex(VALUES[-1][0])))),
        bytes.fromhex("0000 0000000000000000 ffff"),
        bytes.fromhex("0000 fffffffffffffffd ffff"),
        bytes.fromhex("0000 ffffffffffffffff 0001 ff" + "00" * 24),
    ],
    ids=bytes.hex,
)
def test_damaged_settings_are_refused(encoded: bytes) -> None:
    with pytest.raises(UndecodableRecord):
        GroupSettings.decode(encoded, offset=0)


def test_settings_of_a_newer_version_are_told_apart() -> None:
    with pytest.raises(UnknownValueVersion):
        GroupSettings.decode(bytes.fromhex("0001 ffffffffffffffff ffff"), offset=0)
