"""Access rules listed, changed and tested through the service; what counts after a restart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import acl_service_pb2 as pb
from offsetd_coordinator import errors
from offsetd_coordinator.configuration.internal_topic_configs import CONFIG_PARTITION
from offsetd_coordinator.messages.field_counts import ACLS_MAX
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFull
from served_acls import ADMIN, acl, rules

if TYPE_CHECKING:
    from served_acls import Rules


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


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\0\2\3\7", b"\0\0"),  # A pattern type of a newer version.
        (b"\0\1\2", b"\0\0"),
        (b"\0\0\3", b"\0\0"),
        (b"", b"\0\0"),
    ],
)
async def test_a_record_that_cannot_be_read_may_be_a_rule_that_denies(
    key: bytes, value: bytes
) -> None:
    files = SimulatedFiles()
    async with rules(files=files) as each:
        await each.add(acl())
        assert each.serving.administration.acls_doubt is None
        record = Record(key=key, value=value, offset=1, timestamp_ms=0)
        batch = encode_batch([record], base_offset=1)
        each.serving.log.append_internal(
            CONFIG_PARTITION, batch, replay=each.serving.own.shard.replay
        )
    async with rules(files=files) as each:
        assert each.serving.administration.acls_doubt == (
            "1 of the records of __offsetd_config cannot be read"
        )
        assert [rule.name for rule in (await each.listed()).acls] == ["billing"]
