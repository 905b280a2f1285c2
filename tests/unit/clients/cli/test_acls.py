"""`offsetd acls`: what is asked, what is printed, and how it ends."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import Ended, offsetd_of
from offsetd.v1 import acl_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_server import FakeServer
    from google.rpc.status_pb2 import Status

    Offsetd = Callable[..., Ended]

EU_READERS = (
    "--allow-principal User:a --operation Read --operation Describe --topic eu- --group eu-"
    " --resource-pattern-type prefixed"
)
TWO_HOSTS = (
    "--allow-principal User:a --allow-host 1.1.1.1 --allow-host 1.1.1.2 --deny-principal User:b"
    " --operation ClusterAction --cluster"
)
NOT_IN_FORCE = (
    "rules are not in force on this server (security.acl.enable): callers may do everything\n"
)


@pytest.fixture
def offsetd(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Offsetd:
    call = offsetd_of(fake_server.address, monkeypatch)
    return lambda *words: call("acls", *words)


def acl(
    name: str = "billing",
    operation: str = "READ",
    resource_type: str = "GROUP",
    pattern_type: str = "LITERAL",
    permission: str = "ALLOW",
    **fields: Any,
) -> pb.Acl:
    """A rule, by the contract's words."""
    return pb.Acl(
        **{
            "principal": "User:a",
            "host": "*",
            "permission": f"ACL_PERMISSION_{permission}",
            "operation": f"ACL_OPERATION_{operation}",
            "resource_type": f"RESOURCE_TYPE_{resource_type}",
            "name": name,
            "pattern_type": f"PATTERN_TYPE_{pattern_type}",
            **fields,
        }
    )


def resource(
    name: str, resource_type: str = "GROUP", pattern_type: str = "LITERAL", **fields: Any
) -> pb.AclFilter:
    """The filter for all rules of a resource, or for those that have some fields, too."""
    return pb.AclFilter(
        **{
            "resource_type": f"RESOURCE_TYPE_{resource_type}",
            "name": name,
            "pattern_type": f"PATTERN_TYPE_{pattern_type}",
            **fields,
        }
    )


ROW = {
    "resource_type": "Group",
    "name": "billing",
    "pattern_type": "literal",
    "principal": "User:a",
    "host": "*",
    "operation": "Read",
    "permission": "Allow",
}


def test_a_list_prints_the_rules_and_where_they_are_from(
    fake_server: FakeServer, offsetd: Offsetd
) -> None:
    fake_server.will_answer(
        "ListAcls",
        pb.ListAclsResponse(acls=[acl()], in_force=True, from_file=True),
        pb.ListAclsResponse(acls=[acl()], in_force=False),
    )
    ended = offsetd("list", "-o", "json")
    assert json.loads(ended.stdout) == [ROW]
    assert ended.stderr == "the rules come from the server's security.acl.file\n"
    assert fake_server.requests[-1].filter == pb.AclFilter(pattern_type="PATTERN_TYPE_ANY")
    ended = offsetd("list")
    assert ended.stdout.split()[:7] == [each.upper().replace("_", "-") for each in ROW]
    assert (ended.code, ended.stderr) == (0, NOT_IN_FORCE)


@pytest.mark.parametrize(
    ("words", "filters"),
    [
        ("--group g", [resource("g")]),
        (
            "--group g --resource-pattern-type match",
            [resource("g", pattern_type="MATCH")],
        ),
        (
            "--topic * --cluster --resource-pattern-type PREFIXED",
            [
                resource("*", "TOPIC", "PREFIXED"),
                resource("kafka-cluster", "CLUSTER"),
            ],
        ),
        (
            "--principal User:a --principal User:b",
            [
                pb.AclFilter(principal="User:a", pattern_type="PATTERN_TYPE_ANY"),
                pb.AclFilter(principal="User:b", pattern_type="PATTERN_TYPE_ANY"),
            ],
        ),
    ],
)
def test_a_list_can_be_of_some_principals_and_resources(
    fake_server: FakeServer, offsetd: Offsetd, words: str, filters: list[pb.AclFilter]
) -> None:
    for _ in filters:
        fake_server.will_answer("ListAcls", pb.ListAclsResponse(acls=[acl()], in_force=True))
    ended = offsetd("list", *words.split(), "-o", "jsonl")
    assert [json.loads(line) for line in ended.stdout.splitlines()] == [ROW]  # Each rule once.
    assert [request.filter for request in fake_server.requests] == filters


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        ("--allow-principal User:a --group billing", [acl(operation="ALL")]),
        (
            "--allow-principal User:a --operation read --group billing",
            [acl()],
        ),
        (
            "--deny-principal User:* --deny-host 10.0.0.9 --cluster",
            [
                acl(
                    "kafka-cluster",
                    "ALL",
                    "CLUSTER",
                    permission="DENY",
                    principal="User:*",
                    host="10.0.0.9",
                )
            ],
        ),
        (
            EU_READERS,
            [
                acl("eu-", operation, resource_type, "PREFIXED")
                for resource_type in ("GROUP", "TOPIC")
                for operation in ("READ", "DESCRIBE")
            ],
        ),
        (
            TWO_HOSTS,
            [
                acl("kafka-cluster", "CLUSTER_ACTION", "CLUSTER", host="1.1.1.1"),
                acl("kafka-cluster", "CLUSTER_ACTION", "CLUSTER", host="1.1.1.2"),
                acl(
                    "kafka-cluster",
                    "CLUSTER_ACTION",
                    "CLUSTER",
                    permission="DENY",
                    principal="User:b",
                ),
            ],
        ),
        (
            "--allow-principal User:a --consumer --group g --topic t",
            [acl("g"), acl("g", "DESCRIBE"), acl("t", "READ", "TOPIC")],
        ),
    ],
)
def test_add_and_remove_mean_the_same_rules_by_the_same_options(
    fake_server: FakeServer, offsetd: Offsetd, words: str, rules: list[pb.Acl]
) -> None:
    fake_server.will_answer("AddAcls", pb.AddAclsResponse(added=rules, in_force=True))
    fake_server.will_answer("RemoveAcls", pb.RemoveAclsResponse(removed=rules, in_force=True))
    added = offsetd("add", *words.split(), "--reason", "why", "-o", "jsonl")
    removed = offsetd("remove", *words.split(), "--reason", "why", "-o", "jsonl")
    assert (added.code, added.stderr, removed.stderr) == (0, "", "")
    assert len(added.stdout.splitlines()) == len(rules)
    assert removed == added
    for request in fake_server.requests:
        assert list(request.acls) == rules
        assert (request.reason, request.validate_only) == ("why", False)
    assert not fake_server.requests[1].filters


def test_a_prefix_of_a_star_is_no_rule_for_all(fake_server: FakeServer, offsetd: Offsetd) -> None:
    rule = acl("*")
    rule.pattern_type = pb.PATTERN_TYPE_PREFIXED
    fake_server.will_answer("AddAcls", pb.AddAclsResponse(added=[rule], in_force=True))
    words = ("--allow-principal", "User:a", "--operation", "Read", "--group", "*")
    ended = offsetd("add", *words, "--resource-pattern-type", "prefixed")
    assert ended.code == 0
    assert "only for names that begin with *" in ended.stderr
    assert list(fake_server.requests[-1].acls) == [rule], "Kafka takes it, too"


def test_rules_that_are_there_are_counted(fake_server: FakeServer, offsetd: Offsetd) -> None:
    fake_server.will_answer("AddAcls", pb.AddAclsResponse(added=[acl("a")]))
    words = ("--group", "a", "--group", "b", "--group", "b", "--group", "c")
    ended = offsetd("add", "--allow-principal", "User:a", *words, "--dry-run")
    assert ended.code == 0
    assert ended.stderr == (
        f"2 rules were there already\ndry run: nothing was added\n{NOT_IN_FORCE}"
    )
    assert fake_server.requests[-1].validate_only


@pytest.mark.parametrize(
    ("words", "filters"),
    [
        ("--group g --cluster", [resource("g"), resource("kafka-cluster", "CLUSTER")]),
        (
            "--group g --resource-pattern-type any",
            [resource("g", pattern_type="ANY")],
        ),
        (
            "--principal User:a",
            [pb.AclFilter(principal="User:a", pattern_type="PATTERN_TYPE_ANY")],
        ),
        (
            "--principal User:a --topic t",
            [resource("t", "TOPIC", principal="User:a")],
        ),
        (
            "--allow-principal User:a --operation Read --group g --resource-pattern-type match",
            [
                resource(
                    "g",
                    pattern_type="MATCH",
                    principal="User:a",
                    host="*",
                    permission="ACL_PERMISSION_ALLOW",
                    operation="ACL_OPERATION_READ",
                )
            ],
        ),
    ],
)
def test_all_rules_of_a_resource_or_of_a_principal_can_be_removed(
    fake_server: FakeServer, offsetd: Offsetd, words: str, filters: list[pb.AclFilter]
) -> None:
    fake_server.will_answer("RemoveAcls", pb.RemoveAclsResponse(in_force=True))
    ended = offsetd("remove", *words.split(), "--dry-run")
    assert (ended.code, ended.stderr) == (
        0,
        "there is no such rule\ndry run: nothing was removed\n",
    )
    [request] = fake_server.requests
    assert list(request.filters) == filters
    assert (len(request.acls), request.validate_only) == (0, True)


@pytest.mark.parametrize(
    ("answer", "code", "allowed", "rule", "told"),
    [
        (
            pb.TestAclResponse(allowed=True, acl=acl(), in_force=True),
            0,
            True,
            "Allow User:a from *: Read Group literal billing",
            "",
        ),
        (
            pb.TestAclResponse(acl=acl(permission="DENY"), in_force=True),
            1,
            False,
            "Deny User:a from *: Read Group literal billing",
            "error: denied by a rule\n",
        ),
        (pb.TestAclResponse(in_force=True), 1, False, None, "error: denied: no rule allows it\n"),
        (pb.TestAclResponse(allowed=True, is_super_user=True), 0, True, None, NOT_IN_FORCE),
    ],
    ids=["allowed", "denied", "no rule", "super user"],
)
def test_a_test_ends_with_its_verdict(
    fake_server: FakeServer,
    offsetd: Offsetd,
    answer: pb.TestAclResponse,
    code: int,
    allowed: bool,
    rule: str | None,
    told: str,
) -> None:
    fake_server.will_answer("TestAcl", answer)
    words = ("--principal", "User:a", "--operation", "Read", "--group", "billing")
    ended = offsetd("test", *words, "--host", "10.0.0.1", "-o", "json")
    assert (ended.code, ended.stderr) == (code, told)
    assert json.loads(ended.stdout) == [
        {
            "allowed": allowed,
            "principal": "User:a",
            "host": "10.0.0.1",
            "operation": "Read",
            "resource_type": "Group",
            "name": "billing",
            "super_user": answer.is_super_user,
            "rule": rule,
        }
    ]
    assert fake_server.requests == [
        pb.TestAclRequest(
            principal="User:a",
            host="10.0.0.1",
            operation="ACL_OPERATION_READ",
            resource_type="RESOURCE_TYPE_GROUP",
            name="billing",
        )
    ]


@pytest.mark.parametrize(
    "words",
    [
        "add --group g",
        "add --allow-principal User:a",
        "add --allow-principal User:a --group g --resource-pattern-type match",
        "add --allow-principal User:a --group g --operation Write",
        "add --allow-principal User:a --group g --operation Unknown",
        "add --allow-principal User:a --group g --deny-host 1.1.1.1",
        "add --deny-principal User:a --group g --allow-host 1.1.1.1",
        "add --allow-principal User:a --group g --consumer",
        "add --allow-principal User:a --topic t --consumer",
        "add --allow-principal User:a --topic t --group g --cluster --consumer",
        "add --allow-principal User:a --topic t --group g --consumer --operation Read",
        "add --deny-principal User:a --topic t --group g --consumer",
        "remove",
        "remove --operation Read --group g",
        "remove --allow-principal User:a",
        "remove --principal User:a --allow-principal User:a --group g",
        "remove --principal User:a --resource-pattern-type match",
        "list --resource-pattern-type prefixed",
        "list --group g --resource-pattern-type regex",
        "test --principal User:a --operation Read",
        "test --principal User:a --operation Read --group g --topic t",
        "test --principal User:a --operation Read --group g --group h",
        "test --principal User:a --group g",
        "test --operation Read --group g",
    ],
)
def test_wrong_use_is_told_without_a_call(
    fake_server: FakeServer, offsetd: Offsetd, words: str
) -> None:
    assert offsetd(*words.split()).code == 2
    assert fake_server.requests == []


def test_a_refusal_is_told_with_its_reason(
    fake_server: FakeServer, offsetd: Offsetd, failed: Callable[..., Status]
) -> None:
    refusal = failed("FAILED_PRECONDITION", "POLICY_VIOLATION", "the rules come from a file")
    fake_server.will_answer("RemoveAcls", refusal)
    ended = offsetd("remove", "--group", "g")
    assert (ended.code, ended.stdout) == (1, "")
    assert ended.stderr == "error: POLICY_VIOLATION: the rules come from a file\n"
