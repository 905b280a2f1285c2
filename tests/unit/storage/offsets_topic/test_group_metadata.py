"""GroupMetadataValue: classic groups."""

import attrs
import pytest
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord, UnknownValueVersion

NOW_MS = 1_700_000_000_000
MEMBER = GroupMember(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=300_000,
    session_timeout_ms=45_000,
    subscription=b"\x01",
    assignment=b"",
)
GROUP = GroupMetadataValue(
    protocol_type="consumer",
    generation=5,
    protocol="range",
    leader="m",
    current_state_timestamp_ms=NOW_MS,
    members=(MEMBER,),
)
CLIENT = "0001 6d 0001 63 0002 2f68"
SESSION_ON = "0000afc8 00000001 01 00000000"
MEMBER_V4 = "02 6d 02 69 02 63 03 2f68 000493e0 0000afc8 02 01 01 00"
HEAD_V4 = "09 636f6e73756d6572 00000005 06 72616e6765 02 6d"
MEMBER_V3 = "0001 6d 0001 69 0001 63 0002 2f68 000493e0 0000afc8 00000001 01 00000000"
HEAD = "0008 636f6e73756d6572 00000005 0005 72616e6765 0001 6d"


def test_an_empty_group_has_kafkas_bytes() -> None:
    empty = GroupMetadataValue(protocol_type="", generation=0, current_state_timestamp_ms=NOW_MS)
    encoded = bytes.fromhex("0003 0000 00000000 ffff ffff 0000018bcfe56800 00000000")
    assert empty.encode() == encoded
    assert GroupMetadataValue.decode(encoded) == empty


@pytest.mark.parametrize(
    ("encoded", "lacks"),
    [
        (
            f"0000 {HEAD} 00000001 {CLIENT} {SESSION_ON}",
            {"current_state_timestamp_ms", "group_instance_id", "rebalance_timeout_ms"},
        ),
        (
            f"0001 {HEAD} 00000001 {CLIENT} 000493e0 {SESSION_ON}",
            {"current_state_timestamp_ms", "group_instance_id"},
        ),
        (
            f"0002 {HEAD} 0000018bcfe56800 00000001 {CLIENT} 000493e0 {SESSION_ON}",
            {"group_instance_id"},
        ),
        (f"0003 {HEAD} 0000018bcfe56800 00000001 {MEMBER_V3}", set()),
        (
            f"0004 {HEAD_V4} 0000018bcfe56800 02 {MEMBER_V4} 00",
            set(),
        ),
    ],
)
def test_every_version_is_read_and_lacks_what_it_lacks(encoded: str, lacks: set[str]) -> None:
    absent = {"group_instance_id": None, "rebalance_timeout_ms": -1}
    member = attrs.evolve(MEMBER, **{name: absent[name] for name in lacks & absent.keys()})
    expected = attrs.evolve(
        GROUP,
        members=(member,),
        current_state_timestamp_ms=-1 if "current_state_timestamp_ms" in lacks else NOW_MS,
    )
    assert GroupMetadataValue.decode(bytes.fromhex(encoded)) == expected


def test_version_3_is_written() -> None:
    expected = f"0003 {HEAD} 0000018bcfe56800 00000001 {MEMBER_V3}"
    assert GROUP.encode() == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        ("0005", UnknownValueVersion),
        ("0003 ffff 00000000", UndecodableRecord),
        ("0003 0000 00000000 ffff ffff 0000018bcfe56800 ffffffff", UndecodableRecord),
        ("0003 0000 00000000 ffff ffff 0000018bcfe56800 00000001", UndecodableRecord),
        (f"0003 {HEAD} 0000018bcfe56800 7fffffff {MEMBER_V3}", UndecodableRecord),
    ],
)
def test_bad_bytes_and_newer_versions_raise(encoded: str, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        GroupMetadataValue.decode(bytes.fromhex(encoded))
    assert raised.type is error
