"""Access rules listed, changed and tested through the service; what counts after a restart."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from memory_commit_log import MemoryTopic
from memory_nodes import MemoryNode
from offsetd.v1 import acl_service_pb2 as pb
from offsetd_coordinator import errors
from offsetd_coordinator.configuration.server_topics import AUDIT_PARTITION, CONFIG_PARTITION
from offsetd_coordinator.messages.field_counts import ACL_FILTERS_MAX, ACLS_MAX
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.security.authorizer import Authorizer
from offsetd_coordinator.services.acl_calls import AclCalls
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFull
from serving_nodes import WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.message import Message

ADMIN = "User:admin"


@attrs.frozen
class Rules:
    """A node, its authorizer, and the service."""

    serving: ServingNode
    authorizer: Authorizer
    calls: AclCalls

    async def _ask(self, method: Any, request: Message, answer: type[Any]) -> Any:
        message = await asyncio.wait_for(method(request.SerializeToString()), WAIT_SECONDS)
        return answer.FromString(message)

    async def listed(self, **fields: Any) -> Any:
        return await self._ask(
            self.calls.list_acls, pb.ListAclsRequest(**fields), pb.ListAclsResponse
        )

    async def add(self, *acls: pb.Acl, **fields: Any) -> Any:
        request = pb.AddAclsRequest(acls=acls, **fields)
        return await self._ask(self.calls.add_acls, request, pb.AddAclsResponse)

    async def remove(self, **fields: Any) -> Any:
        request = pb.RemoveAclsRequest(**fields)
        return await self._ask(self.calls.remove_acls, request, pb.RemoveAclsResponse)

    async def test(self, **fields: Any) -> Any:
        request = pb.TestAclRequest(**fields)
        return await self._ask(self.calls.test_acl, request, pb.TestAclResponse)

    def may_read(self, group_id: str, principal: str = "User:a") -> bool:
        """What the authorizer says."""
        return self.authorizer.allows(
            principal, "127.0.0.1", Operation.READ, ResourceType.GROUP, group_id
        )

    def ends(self) -> tuple[int, int]:
        """Where the topics of settings and of the audit end."""
        logs = self.serving.store.logs
        return logs[CONFIG_PARTITION].offset_next, logs[AUDIT_PARTITION].offset_next

    def audited(self) -> list[dict[str, Any]]:
        """The records of the audit log."""
        log = self.serving.store.logs[AUDIT_PARTITION]
        return [
            json.loads(record.value or b"")
            for buffer, end in log.read_chunks(1 << 16)
            for batch in decode_batches(buffer[:end].tobytes())
            for record in batch.records
        ]


@asynccontextmanager
async def rules(
    *,
    files: SimulatedFiles | None = None,
    in_force: bool = True,
    from_file: bool = False,
    flushing: bool = True,
) -> AsyncIterator[Rules]:
    """A node on an empty disk, or one that was served from before."""
    authorizer = Authorizer(super_users=frozenset({ADMIN}), acls=())
    apply = authorizer.set_acls
    async with serving_node(files=files, flushing=flushing, apply_acls=apply) as serving:
        calls = AclCalls(serving.node, authorizer, in_force=in_force, from_file=from_file)
        yield Rules(serving, authorizer, calls)


def acl(name: str = "billing", **fields: Any) -> pb.Acl:
    """A rule; what is not named is the plainest."""
    return pb.Acl(
        **{
            "principal": "User:a",
            "host": "*",
            "permission": "ACL_PERMISSION_ALLOW",
            "operation": "ACL_OPERATION_READ",
            "resource_type": "RESOURCE_TYPE_GROUP",
            "name": name,
            "pattern_type": "PATTERN_TYPE_LITERAL",
            **fields,
        }
    )


def number_in(field: str, number: int) -> pb.AclFilter:
    """A filter with a number that the contract does not have."""
    return pb.AclFilter(**{field: number})  # type: ignore[arg-type]


async def test_a_change_counts_once_it_is_answered_is_recorded_and_is_there_after_a_restart() -> (
    None
):
    files = SimulatedFiles()
    async with rules(files=files) as each:
        assert not each.may_read("billing")
        added = await each.add(acl("b"), acl("billing"), acl("b"), reason="früher")
        assert list(added.added) == [acl("b"), acl("billing")]
        assert (added.revision.log_offset, added.in_force) == (1, True)
        assert each.may_read("billing")
        removed = await each.remove(acls=[acl("b")], filters=[pb.AclFilter(name="b")])
        assert list(removed.removed) == [acl("b")]
        assert removed.revision.log_offset == 2
        assert not each.may_read("b")
        assert [(event["method"], event["topic"], event["what"]) for event in each.audited()] == [
            (
                "AddAcls",
                None,
                {
                    "acls": [
                        {
                            "principal": "User:a",
                            "host": "*",
                            "permission": "Allow",
                            "operation": "Read",
                            "resource_type": "Group",
                            "name": name,
                            "pattern_type": "literal",
                        }
                        for name in ("b", "billing")
                    ]
                },
            ),
            ("RemoveAcls", None, each.audited()[1]["what"]),
        ]
        assert [rule["name"] for rule in each.audited()[1]["what"]["acls"]] == ["b"]
        assert [event["reason"] for event in each.audited()] == ["früher", ""]
    async with rules(files=files) as each:
        assert each.may_read("billing")
        assert not each.may_read("b")
        assert list((await each.listed()).acls) == [acl("billing")]


async def test_what_is_left_out_has_its_usual_value() -> None:
    async with rules() as each:
        bare = acl(host="", pattern_type="PATTERN_TYPE_UNSPECIFIED")
        cluster = {"resource_type": "RESOURCE_TYPE_CLUSTER", "operation": "ACL_OPERATION_ALTER"}
        added = await each.add(bare, acl("", **cluster))
        assert list(added.added) == [acl(), acl("kafka-cluster", **cluster)]


async def test_a_host_is_compared_as_an_address_not_as_text() -> None:
    async with rules() as each:
        added = await each.add(acl(host="2001:DB8:0::1"), acl("b", host="unix"))
        assert [rule.host for rule in added.added] == ["unix", "2001:db8::1"]
        wanted = pb.AclFilter(host="2001:db8:0:0::1")
        assert [rule.name for rule in (await each.listed(filter=wanted)).acls] == ["billing"]
        question = {
            "principal": "User:a",
            "operation": "ACL_OPERATION_READ",
            "resource_type": "RESOURCE_TYPE_GROUP",
            "name": "billing",
        }
        assert (await each.test(host="2001:db8:0::1", **question)).allowed
        assert not (await each.test(host="2001:db8::2", **question)).allowed
        assert not (await each.test(**question)).allowed


async def test_what_changes_nothing_writes_nothing() -> None:
    async with rules() as each:
        await each.add(acl())
        ends = each.ends()
        assert (await each.add(acl())) == pb.AddAclsResponse(in_force=True)
        absent = await each.remove(acls=[acl("b")], filters=[pb.AclFilter(name="c")])
        assert absent == pb.RemoveAclsResponse(in_force=True)
        checked = await each.add(acl("b"), validate_only=True)
        assert checked == pb.AddAclsResponse(added=[acl("b")], in_force=True)
        checked = await each.remove(filters=[pb.AclFilter()], validate_only=True)
        assert checked == pb.RemoveAclsResponse(removed=[acl()], in_force=True)
        assert each.ends() == ends
        assert each.may_read("billing")


async def test_a_retry_is_answered_as_before_and_does_nothing() -> None:
    async with rules() as each:
        added = await each.add(acl(), acl("b"), request_id="r")
        everything = {"filters": [pb.AclFilter(principal="User:a")], "request_id": "r"}
        removed = await each.remove(**everything)
        await each.add(acl("c"))
        ends = each.ends()
        assert await each.add(acl(), acl("b"), request_id="r") == added
        assert await each.remove(**everything) == removed
        assert each.ends() == ends
        assert [rule.name for rule in (await each.listed()).acls] == ["c"]


async def appended(each: Rules, records: int) -> None:
    """Waits until the topic of settings has these records, and whoever waits for them waits."""
    while each.ends()[0] < records:  # noqa: ASYNC110
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_change_that_is_not_durable_is_neither_answered_nor_in_force() -> None:
    async with rules(flushing=False) as each:
        asked = [asyncio.ensure_future(each.add(acl(name))) for name in "ab"]
        again = asyncio.ensure_future(each.add(acl("a")))
        await appended(each, 2)
        assert not any(future.done() for future in (*asked, again))
        assert not each.may_read("a")
        assert not (await each.listed()).acls
        each.serving.runtime.start(None)
        await asyncio.gather(*asked)
        assert each.may_read("a")
        assert each.may_read("b")
        assert await again == pb.AddAclsResponse(in_force=True)


async def test_a_change_goes_on_when_its_caller_has_gone() -> None:
    async with rules(flushing=False) as each:
        asked = asyncio.ensure_future(each.add(acl("a")))
        await appended(each, 1)
        asked.cancel()
        await asyncio.wait([asked])
        each.serving.runtime.start(None)
        assert await each.add(acl("a")) == pb.AddAclsResponse(in_force=True)
        assert each.may_read("a")


async def test_pages_follow_one_another_whatever_changes_between_them() -> None:
    async with rules() as each:
        await each.add(*(acl(name) for name in "abcdef"), acl("t", resource_type=2))
        first = await each.listed(page_size=3)
        assert [rule.name for rule in first.acls] == ["t", "a", "b"]
        await each.remove(acls=[acl("b"), acl("c")])
        await each.add(acl("aa"), acl("dd"))
        second = await each.listed(page_size=3, page_token=first.next_page_token)
        assert [rule.name for rule in second.acls] == ["d", "dd", "e"]
        third = await each.listed(page_size=3, page_token=second.next_page_token)
        assert [rule.name for rule in third.acls] == ["f"]
        assert not third.next_page_token
        for token, fields in (
            (first.next_page_token, {"filter": pb.AclFilter(name="a")}),
            (first.next_page_token[:-4], {}),
            ("nonsense", {}),
        ):
            with pytest.raises(errors.InvalidPageToken):
                await each.listed(page_token=token, **fields)


async def test_a_page_of_long_names_ends_early() -> None:
    async with rules() as each:
        names = {f"{number:02}" + "x" * 32_000 for number in range(48)}
        for begin in range(0, 48, 4):
            await each.add(*map(acl, sorted(names)[begin : begin + 4]))
        token, found, pages = "", set(), 0
        while True:
            page = await each.listed(page_token=token)
            assert page.ByteSize() < 2 << 20
            found |= {rule.name for rule in page.acls}
            pages += 1
            token = page.next_page_token
            if not token:
                break
        assert found == names
        assert pages == 2


async def test_a_filter_names_a_resource_and_finds_the_rules_that_count_for_it() -> None:
    async with rules() as each:
        await each.add(acl("bill", pattern_type="PATTERN_TYPE_PREFIXED"), acl("*"), acl("other"))
        wanted = pb.AclFilter(name="billing", pattern_type="PATTERN_TYPE_MATCH")
        assert [rule.name for rule in (await each.listed(filter=wanted)).acls] == ["*", "bill"]
        assert len((await each.remove(filters=[wanted])).removed) == 2
        assert [rule.name for rule in (await each.listed()).acls] == ["other"]


async def test_the_rule_that_decides_is_named() -> None:
    async with rules() as each:
        deny = acl("billing-eu", permission="ACL_PERMISSION_DENY", principal="User:*")
        allow = acl("billing", pattern_type="PATTERN_TYPE_PREFIXED")
        await each.add(allow, deny)

        async def asked(principal: str, name: str) -> Any:
            return await each.test(
                principal=principal,
                host="10.0.0.1",
                operation="ACL_OPERATION_READ",
                resource_type="RESOURCE_TYPE_GROUP",
                name=name,
            )

        assert await asked("User:a", "billing-us") == pb.TestAclResponse(
            allowed=True, acl=allow, in_force=True
        )
        assert await asked("User:a", "billing-eu") == pb.TestAclResponse(acl=deny, in_force=True)
        assert await asked("User:b", "billing-us") == pb.TestAclResponse(in_force=True)
        assert await asked(ADMIN, "billing-eu") == pb.TestAclResponse(
            allowed=True, is_super_user=True, in_force=True
        )


async def test_rules_can_be_prepared_before_they_are_in_force() -> None:
    async with rules(in_force=False) as each:
        assert not (await each.add(acl())).in_force
        listed = await each.listed()
        assert (list(listed.acls), listed.in_force, listed.from_file) == ([acl()], False, False)
        tested = await each.test(
            principal="User:a",
            operation="ACL_OPERATION_READ",
            resource_type="RESOURCE_TYPE_GROUP",
            name="billing",
        )
        assert tested == pb.TestAclResponse(allowed=True, acl=acl(), in_force=False)
        assert not (await each.remove(acls=[acl()])).in_force


async def test_rules_of_a_file_are_listed_and_not_changed() -> None:
    async with rules(from_file=True) as each:
        for call in (each.add(acl()), each.remove(acls=[acl()])):
            with pytest.raises(errors.PolicyViolation, match=r"security\.acl\.file") as refused:
                await call
            assert refused.value.variables["setting"] == "security.acl.file"
        listed = await each.listed()
        assert (listed.from_file, listed.in_force) == (True, True)
        assert each.ends() == (0, 0)


async def test_a_node_of_a_cluster_takes_its_rules_from_a_file() -> None:
    class Directory:
        """Where other nodes are: nowhere, for this test."""

    node = MemoryNode(MemoryTopic(4), range(4), directory=Directory())  # type: ignore[arg-type]
    calls = AclCalls(
        node.node, Authorizer(super_users=frozenset(), acls=()), in_force=True, from_file=False
    )
    for method, request in (
        (calls.add_acls, pb.AddAclsRequest(acls=[acl()])),
        (calls.remove_acls, pb.RemoveAclsRequest(acls=[acl()])),
    ):
        with pytest.raises(errors.PolicyViolation, match=r"cluster.*security\.acl\.file"):
            await method(request.SerializeToString())
    answer = await calls.list_acls(b"")
    assert pb.ListAclsResponse.FromString(answer) == pb.ListAclsResponse(in_force=True)


@pytest.mark.parametrize(
    ("wrong", "field", "words"),
    [
        ({"principal": "a"}, ".principal", "not User:NAME"),
        ({"principal": "User:"}, ".principal", "not User:NAME"),
        ({"principal": "User:" + "é" * 510}, ".principal", "1025 bytes"),
        ({"host": "example.com"}, ".host", "not an IP address"),
        ({"host": "10.0.0.1:80"}, ".host", "not an IP address"),
        ({"permission": "ACL_PERMISSION_UNSPECIFIED"}, ".permission", "missing"),
        ({"permission": 1}, ".permission", "1, which is not known"),
        ({"operation": "ACL_OPERATION_UNSPECIFIED"}, ".operation", "missing"),
        ({"operation": 4}, ".operation", "4, which is not known"),
        ({"operation": "ACL_OPERATION_CLUSTER_ACTION"}, "", "not an operation of Group"),
        ({"resource_type": "RESOURCE_TYPE_UNSPECIFIED"}, ".resource_type", "missing"),
        ({"resource_type": 5}, ".resource_type", "5, which is not known"),
        ({"pattern_type": "PATTERN_TYPE_MATCH"}, ".pattern_type", "2, which is not known"),
        ({"pattern_type": "PATTERN_TYPE_ANY"}, ".pattern_type", "1, which is not known"),
        ({"name": ""}, ".name", "no name"),
        ({"name": "x" * 32_768}, ".name", "32768 bytes"),
        ({"name": "x" * 250, "resource_type": "RESOURCE_TYPE_TOPIC"}, ".name", "250 UTF-16"),
        (
            {"resource_type": "RESOURCE_TYPE_CLUSTER", "operation": "ACL_OPERATION_ALTER"},
            "",
            "kafka-cluster",
        ),
    ],
)
async def test_a_wrong_rule_is_refused_with_all_others(
    wrong: dict[str, Any], field: str, words: str
) -> None:
    async with rules() as each:
        bad = acl(**{"name": "n", **wrong})
        for call in (each.add(acl(), bad), each.remove(acls=[acl(), bad])):
            with pytest.raises(errors.InvalidField) as refused:
                await call
            assert refused.value.field == f"acls[1]{field}"
            assert words in str(refused.value)
        assert each.ends() == (0, 0)


@pytest.mark.parametrize(
    ("call", "fields", "field"),
    [
        ("add", {}, "acls"),
        ("remove", {}, "filters"),
        (
            "remove",
            {"filters": [pb.AclFilter(), number_in("operation", 99)]},
            "filters[1].operation",
        ),
        ("listed", {"filter": number_in("pattern_type", 9)}, "filter.pattern_type"),
        ("listed", {"page_size": -1}, "page_size"),
        ("remove", {"filters": [pb.AclFilter()] * (ACL_FILTERS_MAX + 1)}, "filters"),
        ("remove", {"acls": [acl()] * (ACLS_MAX + 1)}, "acls"),
        ("remove", {"acls": [acl()], "reason": "x" * 1025}, "reason"),
        ("remove", {"acls": [acl()], "request_id": "x" * 65}, "request_id"),
        ("test", {"principal": "User:a"}, "resource_type"),
    ],
)
async def test_a_wrong_request_is_refused(call: str, fields: dict[str, Any], field: str) -> None:
    async with rules() as each:
        with pytest.raises(errors.InvalidField) as refused:
            await getattr(each, call)(**fields)
        assert refused.value.field == field


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"operation": "ACL_OPERATION_ALL"}, "operation"),
        ({"operation": "ACL_OPERATION_ALTER_CONFIGS"}, "operation"),
        ({"operation": 0}, "operation"),
        ({"principal": "User:*"}, "principal"),
        ({"principal": "b"}, "principal"),
        ({"host": "*"}, "principal"),
        ({"host": "b"}, "host"),
        ({"name": ""}, "name"),
    ],
)
async def test_a_test_names_one_caller_one_operation_and_one_resource(
    wrong: dict[str, Any], field: str
) -> None:
    question = {
        "principal": "User:a",
        "operation": "ACL_OPERATION_READ",
        "resource_type": "RESOURCE_TYPE_GROUP",
        "name": "billing",
        **wrong,
    }
    async with rules() as each:
        with pytest.raises(errors.InvalidField) as refused:
            await each.test(**question)
        assert refused.value.field == field


async def test_the_largest_change_fits_the_log_and_the_audit_log() -> None:
    """Control characters take six characters of JSON each."""
    async with rules() as each:
        names = [f"{number:03}" + "\1" * 100 for number in range(ACLS_MAX)]
        added = await each.add(*map(acl, names))
        assert [rule.name for rule in added.added] == names
        removed = await each.remove(filters=[pb.AclFilter()])
        assert len(removed.removed) == ACLS_MAX
        assert [len(event["what"]["acls"]) for event in each.audited()] == [ACLS_MAX] * 2


async def test_nothing_changes_while_the_log_is_damaged_or_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with rules() as each:
        await each.add(acl())

        def full(*_: object, **__: object) -> None:
            raise StorageFull("no room")

        monkeypatch.setattr(each.serving.log, "_append", full)
        with pytest.raises(errors.DiskFull):
            await each.add(acl("b"))
        monkeypatch.undo()
        monkeypatch.setattr(each.serving.log, "damage", lambda _: "rot")
        for name in ("b", "billing"):  # The second one would write nothing.
            with pytest.raises(errors.LogPartitionQuarantined):
                await each.add(acl(name))
        assert each.serving.administration.acls_doubt is not None
        monkeypatch.undo()
        assert each.serving.administration.acls_doubt is None
        assert [rule.name for rule in (await each.listed()).acls] == ["billing"]
