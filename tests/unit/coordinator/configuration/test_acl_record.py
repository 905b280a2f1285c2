"""Records of access rules, by their bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd.v1 import acl_service_pb2
from offsetd_coordinator.configuration import acl_record
from offsetd_coordinator.configuration.acl_record import (
    check_acl_value,
    decode_acl_key,
    encode_acl_key,
    encode_acl_value,
    is_acl_key,
)
from offsetd_coordinator.configuration.config_record import (
    ConfigKey,
    UnknownConfigVersion,
    decode_config_key,
    encode_config_key,
)
from offsetd_coordinator.security.acl import (
    CLUSTER_NAME,
    OPERATIONS_OF,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

READ_BILLING = Acl(
    principal="User:früh",
    permission=Permission.ALLOW,
    operation=Operation.READ,
    resource_type=ResourceType.GROUP,
    name="billing-",
    pattern=PatternType.PREFIXED,
)
ENCODED = b"\0\0\2" + b"\3\4\3\3" + b"\0\x08billing-" + b"\0\x0aUser:fr\xc3\xbch" + b"\0\1*"


@st.composite
def acls(draw: st.DrawFn) -> Acl:
    """Any rule."""
    resource_type = draw(st.sampled_from(ResourceType))
    text = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40)
    is_cluster = resource_type is ResourceType.CLUSTER
    return Acl(
        principal="User:" + draw(text),
        host=draw(text),
        permission=draw(st.sampled_from(Permission)),
        operation=draw(st.sampled_from(sorted(OPERATIONS_OF[resource_type], key=str))),
        resource_type=resource_type,
        name=CLUSTER_NAME if is_cluster else draw(text),
        pattern=PatternType.LITERAL if is_cluster else draw(st.sampled_from(PatternType)),
    )


def test_a_key_and_a_value_are_these_bytes() -> None:
    assert encode_acl_key(READ_BILLING) == ENCODED
    assert decode_acl_key(ENCODED) == READ_BILLING
    assert encode_acl_value() == b"\0\0"
    check_acl_value(b"\0\0")


@given(acls())
def test_a_rule_comes_back_from_its_key(acl: Acl) -> None:
    assert is_acl_key(encode_acl_key(acl))
    assert decode_acl_key(encode_acl_key(acl)) == acl


def test_an_older_server_keeps_the_key_as_unknown_and_does_not_use_it() -> None:
    with pytest.raises(UnknownConfigVersion):
        decode_config_key(ENCODED)
    for topic in (None, "t"):
        assert not is_acl_key(encode_config_key(ConfigKey(topic, "retention.ms")))


@pytest.mark.parametrize(
    ("encoded", "error"),
    [
        (b"", UnknownConfigVersion),
        (b"\0\1" + ENCODED[2:], UnknownConfigVersion),
        (b"\0\0\3" + ENCODED[3:], UnknownConfigVersion),
        (b"\0\0\2\x05" + ENCODED[4:], UnknownConfigVersion),
        (b"\0\0\2\3\5" + ENCODED[5:], UnknownConfigVersion),
        (b"\0\0\2\3\4\4" + ENCODED[6:], UnknownConfigVersion),
        (b"\0\0\2\3\4\3\4" + ENCODED[7:], UnknownConfigVersion),
        (ENCODED + b"\0", UnknownConfigVersion),
        (ENCODED[:-1], UndecodableRecord),
        (ENCODED[:-3] + b"\xff\xff", UndecodableRecord),
        (ENCODED.replace(b"User:", b"Role:"), UndecodableRecord),
        (ENCODED.replace(b"\xc3\xbc", b"\xff\xff"), UndecodableRecord),
        (b"\0\0\2\2\4\6\3" + ENCODED[7:], UndecodableRecord),  # Delete is no right to a topic.
    ],
)
def test_a_key_that_is_none_is_refused(encoded: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_acl_key(encoded)


@pytest.mark.parametrize(
    ("encoded", "error"),
    [(b"", UndecodableRecord), (b"\0\1", UnknownConfigVersion), (b"\0\0x", UnknownConfigVersion)],
)
def test_a_value_that_is_none_is_refused(encoded: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_acl_value(encoded)


@pytest.mark.parametrize(
    ("numbers", "kinds"),
    [
        (acl_record.OPERATION_NUMBERS, acl_service_pb2.AclOperation),
        (acl_record.PERMISSION_NUMBERS, acl_service_pb2.AclPermission),
        (acl_record.RESOURCE_TYPE_NUMBERS, acl_service_pb2.ResourceType),
        (acl_record.PATTERN_TYPE_NUMBERS, acl_service_pb2.PatternType),
    ],
)
def test_the_contract_has_the_same_words_with_the_same_numbers(numbers: Any, kinds: Any) -> None:
    """A word of the model without a number, or with another one, is found here."""
    assert set(numbers) == set(type(next(iter(numbers))))
    only_in_contract = {"UNSPECIFIED", "ANY", "MATCH"}
    named = {
        name.removeprefix(prefix): number
        for name, number in kinds.items()
        for prefix in ("ACL_OPERATION_", "ACL_PERMISSION_", "RESOURCE_TYPE_", "PATTERN_TYPE_")
        if name.startswith(prefix)
    }
    assert {word.name: number for word, number in numbers.items()} == {
        name: number for name, number in named.items() if name not in only_in_contract
    }
