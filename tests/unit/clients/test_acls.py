"""Access rules: the calls of both clients, and the conversions of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import acl_service_pb2 as pb
from offsetd_clients import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    AclVerdict,
    AuthorizationFailed,
    InvalidRequest,
    PatternType,
    PolicyViolation,
    ResourceType,
    Revision,
)
from offsetd_clients.messages import acl_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_server import EitherClient, FakeServer
    from google.rpc.status_pb2 import Status

RULE = Acl(
    principal="User:a",
    host="10.0.0.1",
    permission=AclPermission.DENY,
    operation=AclOperation.DESCRIBE_CONFIGS,
    resource_type=ResourceType.CLUSTER,
    name="kafka-cluster",
)
MESSAGE = pb.Acl(
    principal="User:a",
    host="10.0.0.1",
    permission="ACL_PERMISSION_DENY",
    operation="ACL_OPERATION_DESCRIBE_CONFIGS",
    resource_type="RESOURCE_TYPE_CLUSTER",
    name="kafka-cluster",
    pattern_type="PATTERN_TYPE_LITERAL",
)
untyped: Any = acl_messages


def group_rule(name: str) -> Acl:
    return Acl(
        principal="User:a",
        operation=AclOperation.READ,
        resource_type=ResourceType.GROUP,
        name=name,
        pattern_type=PatternType.PREFIXED,
    )


def group_message(name: str) -> pb.Acl:
    return pb.Acl(
        principal="User:a",
        host="*",
        permission="ACL_PERMISSION_ALLOW",
        operation="ACL_OPERATION_READ",
        resource_type="RESOURCE_TYPE_GROUP",
        name=name,
        pattern_type="PATTERN_TYPE_PREFIXED",
    )


def untyped_acl(**fields: Any) -> Any:
    """A rule that a type checker would not allow."""
    rule: dict[str, Any] = {
        "principal": "User:a",
        "operation": "Read",
        "resource_type": "Group",
        **fields,
    }
    return Acl(**rule)


async def test_a_list_has_the_rules_of_all_pages(
    fake_server: FakeServer, connect: Callable[..., EitherClient]
) -> None:
    fake_server.will_answer(
        "ListAcls",
        pb.ListAclsResponse(acls=[group_message("a"), group_message("b")], next_page_token="n"),
        pb.ListAclsResponse(acls=[MESSAGE], in_force=True, from_file=True),
    )
    async with connect(fake_server.address) as client:
        listing = await client.list_acls(AclFilter(name="a", pattern_type=PatternType.MATCH))
    assert listing.acls == (group_rule("a"), group_rule("b"), RULE)
    assert (listing.in_force, listing.from_file) == (True, True)
    wanted = pb.AclFilter(name="a", pattern_type="PATTERN_TYPE_MATCH")
    assert fake_server.requests == [
        pb.ListAclsRequest(filter=wanted),
        pb.ListAclsRequest(filter=wanted, page_token="n"),
    ]


async def test_rules_are_added_and_removed(
    fake_server: FakeServer, connect: Callable[..., EitherClient]
) -> None:
    added = pb.AddAclsResponse(added=[MESSAGE], in_force=True)
    added.revision.log_offset = 7
    fake_server.will_answer("AddAcls", added)
    fake_server.will_answer("RemoveAcls", pb.RemoveAclsResponse(removed=[group_message("b")]))
    async with connect(fake_server.address) as client:
        answer = await client.add_acls([RULE, group_rule("a")], reason="why", request_id="r")
        assert (answer.acls, answer.revision, answer.in_force) == ((RULE,), Revision(0, 7), True)
        wanted = AclFilter(
            principal="User:a",
            host="*",
            permission=AclPermission.ALLOW,
            operation=AclOperation.READ,
            resource_type=ResourceType.GROUP,
        )
        answer = await client.remove_acls([RULE, wanted], validate_only=True)
        assert (answer.acls, answer.revision) == ((group_rule("b"),), None)
        assert not answer.in_force
    first, second = fake_server.requests
    assert first == pb.AddAclsRequest(
        acls=[MESSAGE, group_message("a")], reason="why", request_id="r"
    )
    assert second.request_id
    second.request_id = ""
    assert second == pb.RemoveAclsRequest(
        acls=[MESSAGE],
        filters=[
            pb.AclFilter(
                principal="User:a",
                host="*",
                permission="ACL_PERMISSION_ALLOW",
                operation="ACL_OPERATION_READ",
                resource_type="RESOURCE_TYPE_GROUP",
                pattern_type="PATTERN_TYPE_ANY",
            )
        ],
        validate_only=True,
    )


async def test_a_test_names_the_rule_that_decides(
    fake_server: FakeServer, connect: Callable[..., EitherClient]
) -> None:
    fake_server.will_answer(
        "TestAcl",
        pb.TestAclResponse(acl=MESSAGE, in_force=True),
        pb.TestAclResponse(allowed=True, is_super_user=True),
    )
    async with connect(fake_server.address) as client:
        question = ("User:a", AclOperation.DELETE, ResourceType.GROUP, "g")
        assert await client.test_acl(*question, host="10.0.0.1") == AclVerdict(
            allowed=False, acl=RULE, is_super_user=False, in_force=True
        )
        verdict = await client.test_acl("User:a", AclOperation.ALTER, ResourceType.CLUSTER)
        assert verdict == AclVerdict(allowed=True, acl=None, is_super_user=True, in_force=False)
    assert fake_server.requests == [
        pb.TestAclRequest(
            principal="User:a",
            host="10.0.0.1",
            operation="ACL_OPERATION_DELETE",
            resource_type="RESOURCE_TYPE_GROUP",
            name="g",
        ),
        pb.TestAclRequest(
            principal="User:a",
            operation="ACL_OPERATION_ALTER",
            resource_type="RESOURCE_TYPE_CLUSTER",
        ),
    ]


async def test_refusals_are_errors_of_their_own(
    fake_server: FakeServer,
    connect: Callable[..., EitherClient],
    failed: Callable[..., Status],
) -> None:
    fake_server.will_answer(
        "AddAcls",
        failed("FAILED_PRECONDITION", "POLICY_VIOLATION", setting="security.acl.file"),
        failed("PERMISSION_DENIED", "CLUSTER_AUTHORIZATION_FAILED", operation="Alter"),
    )
    async with connect(fake_server.address) as client:
        with pytest.raises(PolicyViolation) as violation:
            await client.add_acls([RULE])
        assert violation.value.details["setting"] == "security.acl.file"
        with pytest.raises(AuthorizationFailed) as refused:
            await client.add_acls([RULE])
        assert refused.value.details["operation"] == "Alter"
        assert not refused.value.outcome_unknown
    assert len(fake_server.requests) == 2


@pytest.mark.parametrize("kind", [AclOperation, AclPermission, ResourceType, PatternType])
def test_every_word_is_in_the_contract_and_in_the_values(kind: Any) -> None:
    numbers: Any = {
        AclOperation: pb.AclOperation,
        AclPermission: pb.AclPermission,
        ResourceType: pb.ResourceType,
        PatternType: pb.PatternType,
    }[kind]
    prefix = numbers.Name(0).removesuffix("UNSPECIFIED")
    named = {name.removeprefix(prefix) for name, _ in numbers.items()}
    assert {word.name for word in kind} - {"UNKNOWN"} == named - {"UNSPECIFIED"}


def test_words_of_a_newer_server_are_unknown() -> None:
    message = pb.Acl()
    message.CopyFrom(MESSAGE)
    for field in ("permission", "operation", "resource_type", "pattern_type"):
        setattr(message, field, 99)
    rule = acl_messages.acl_of(message)
    assert (rule.permission, rule.operation) == (AclPermission.UNKNOWN, AclOperation.UNKNOWN)
    assert (rule.resource_type, rule.pattern_type) == (ResourceType.UNKNOWN, PatternType.UNKNOWN)
    with pytest.raises(InvalidRequest):
        acl_messages.add_acls_request([rule], request_id="r", validate_only=False, reason="")


@pytest.mark.parametrize(
    ("acls", "error", "words"),
    [
        (RULE, TypeError, "one Acl where a list"),
        (AclFilter(), TypeError, "one AclFilter where a list"),
        ("rules", TypeError, "one str where a list"),
        (["rule"], TypeError, "'rule' is not a rule"),
        ([untyped_acl(principal=5)], TypeError, "principal: 5"),
        ([untyped_acl(operation="Fly")], InvalidRequest, "Fly"),
    ],
)
def test_what_is_no_rule_is_refused_with_words_that_name_it(
    acls: Any, error: type[Exception], words: str
) -> None:
    note: dict[str, Any] = {"request_id": "r", "validate_only": False, "reason": ""}
    with pytest.raises(error, match=words):
        acl_messages.remove_acls_request(acls, **note)
    with pytest.raises(TypeError, match="is not a rule"):
        untyped.add_acls_request([AclFilter()], **note)


def test_a_rule_reads_like_a_sentence() -> None:
    assert str(RULE) == ("Deny User:a from 10.0.0.1: DescribeConfigs Cluster literal kafka-cluster")
