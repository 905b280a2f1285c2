"""Unary commits of one turn of the loop: one run, and an outcome for each call by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from joined_calls import MESSAGE_BYTES_MAX, JoinedTurns, UnaryCall, door, quotas_of, used
from memory_commit_log import MemoryTopic
from memory_nodes import MemoryNode
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.grpc.joined_commits import JoinedCommits
from offsetd_coordinator.messages.commit_parser import CommitParser
from offsetd_coordinator.security.acl import Operation
from offsetd_storage.offsets_topic.placement import partition_of
from serving_nodes import METADATA_UNITS_MAX, commit_request, serving_node

if TYPE_CHECKING:
    from offsetd_coordinator.messages.method_access import MethodAccess
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.quotas.caller_quotas import Quotas
    from serving_nodes import ServingNode


class Joining(JoinedTurns):
    """The joined commits of a node."""

    def __init__(self, node: Node, **limits: Any) -> None:
        super().__init__("CommitOffsets", **limits)
        parser = CommitParser(
            metadata_units_max=METADATA_UNITS_MAX, message_bytes_max=MESSAGE_BYTES_MAX
        )
        self.joined = JoinedCommits(node, parser, self.calls)


def _door(quotas: Quotas | None = None) -> MethodAccess:
    return door("CommitOffsets", Operation.READ, quotas)


async def _log_offset(call: UnaryCall) -> int:
    code, message = await call.end()
    assert code is grpc.StatusCode.OK
    return offset_service_pb2.CommitOffsetsResponse.FromString(message).revision.log_offset


async def _values(serving: ServingNode, *group_ids: str) -> list[int]:
    return [each.offsets[0].offset for each in await serving.fetch(*group_ids)]


def _commit(group_id: str, value: int = 1, **fields: Any) -> bytes:
    return commit_request(group_id, value, **fields).SerializeToString()


def _conflicting(group_id: str) -> bytes:
    request = commit_request(group_id, 1)
    request.offsets[0].expected_offset = 3
    return request.SerializeToString()


def _by_member(group_id: str) -> bytes:
    request = commit_request(group_id, 1)
    request.member_id, request.generation_id = "nobody", 3
    return request.SerializeToString()


async def test_each_call_has_the_outcome_of_its_own_commit() -> None:
    async with serving_node() as serving:
        joining = Joining(serving.node)
        messages = [
            _commit("a"),
            _conflicting("b"),
            b"\xff garbage",
            _commit(""),
            _commit("c"),
            _by_member("d"),
            b"",
            _commit("e", partitions=20),
        ]
        calls, left = joining.take(messages)
        assert left == [2, 3, 6], "the handler of one call refuses these"
        codes = [
            (await call.end())[0].name for place, call in enumerate(calls) if place not in left
        ]
        assert codes == ["OK", "ABORTED", "OK", "NOT_FOUND", "OK"]
        assert await _values(serving, "a", "c") == [1, 1]
        joining.assert_all_ended()


async def test_commits_of_one_group_are_in_the_order_of_their_arrival() -> None:
    async with serving_node() as serving:
        calls, left = Joining(serving.node).take([_commit("g", value) for value in range(1300)])
        assert not left
        assert [await _log_offset(call) for call in calls] == list(range(1300))
        assert await _values(serving, "g") == [1299]


async def test_no_call_is_answered_before_its_commit_is_durable() -> None:
    async with serving_node(flushing=False) as serving:
        joining = Joining(serving.node)
        calls, _ = joining.take([_commit("a"), _conflicting("a"), _commit("b")])
        for _ in range(10):
            await asyncio.sleep(0)
        assert not any(call.is_answered for call in calls)
        assert joining.admission.requests == 3
        serving.runtime.start()
        assert [(await call.end())[0].name for call in calls] == ["OK", "ABORTED", "OK"]
        joining.assert_all_ended()


async def test_what_has_no_room_or_no_time_is_left() -> None:
    async with serving_node() as serving:
        message = _commit("g")
        joining = Joining(serving.node, in_flight_bytes_max=2 * len(message))
        calls = [UnaryCall() for _ in range(5)]
        calls[1].remaining_seconds = 0.0
        messages = [message, message, bytes(MESSAGE_BYTES_MAX + 1), message, message]
        assert joining.take_calls(calls, messages) == [1, 2, 4]
        assert [await _log_offset(calls[place]) for place in (0, 3)] == [0, 1]
        joining.assert_all_ended()


async def test_a_node_that_is_loading_or_draining_leaves_all() -> None:
    async with serving_node() as serving:
        joining = Joining(serving.node)
        serving.node.drain()
        assert joining.take([_commit("a"), _commit("b")])[1] == [0, 1]
        joining.assert_all_ended()


async def test_a_call_that_has_ended_is_not_answered() -> None:
    async with serving_node(flushing=False) as serving:
        joining = Joining(serving.node)
        calls, _ = joining.take([_commit("a"), _commit("b")])
        calls[0].is_done = True
        serving.runtime.start()
        assert (await calls[1].end())[0] is grpc.StatusCode.OK
        assert not calls[0].is_answered
        joining.assert_all_ended()
        assert await _values(serving, "a") == [1], "the commit stays"


@pytest.mark.parametrize("is_newest", [False, True])
async def test_a_partition_that_is_lost_refuses_its_own_calls_only(is_newest: bool) -> None:
    node = MemoryNode(MemoryTopic(4), range(4))
    groups = [f"g{number}" for number in range(40)]
    by_partition = {partition_of(group, 4): group for group in groups}
    kept, lost = by_partition[0], by_partition[1]
    node.log.holds = True
    joining = Joining(node.node)
    order = [kept, lost] if is_newest else [lost, kept]
    calls, _ = joining.take([_commit(group) for group in order])
    ends = dict(zip(order, calls, strict=True))
    node.lose(1)
    assert (await ends[lost].end())[0] is grpc.StatusCode.UNAVAILABLE
    assert not ends[kept].is_answered, "its commit is not durable"
    node.log.flush()
    assert (await ends[kept].end())[0] is grpc.StatusCode.OK
    joining.assert_all_ended()


@pytest.mark.parametrize("comes_alone", [False, True])
async def test_each_commit_needs_the_rights_of_its_own_caller(comes_alone: bool) -> None:
    async with serving_node() as serving:
        joining = Joining(serving.node, method_access=_door())
        asked = [
            ("alice", "of-alice"),
            ("alice", "of-bob"),
            ("bob", "of-bob"),
            ("carol", "of-carol"),
        ]
        calls = [UnaryCall(f"peer-{name}", certificate=name.encode()) for name, _ in asked]
        messages = [_commit(group_id) for _, group_id in asked]
        turns = [[place] for place in range(4)] if comes_alone else [list(range(4))]
        for turn in turns:
            assert not joining.take_calls(
                [calls[place] for place in turn], [messages[place] for place in turn]
            )
        codes = [(await call.end())[0].name for call in calls]
        assert codes == ["OK", "PERMISSION_DENIED", "OK", "PERMISSION_DENIED"]
        assert await _values(serving, "of-alice", "of-bob") == [1, 1]
        joining.assert_all_ended()


_RATES = ("call_rate", "request_byte_rate", "commit_rate", "offset_rate", "response_byte_rate")


def _quotas(**limits: int) -> Quotas:
    """Quotas of alice, those that are not named so high that they refuse nothing."""
    lines = [f"{name} = {limits.get(name, 1_000_000)}" for name in _RATES]
    return quotas_of("\n".join(['[[quota]]\nprincipal = "User:alice"', *lines]))


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({}, []),
        ({"call_rate": 3}, [3, 4, 5]),
        ({"request_byte_rate": 1}, [1, 2, 3, 4, 5]),
        ({"commit_rate": 2}, [2, 3, 4, 5]),
        ({"offset_rate": 7}, [2, 3, 4, 5]),
    ],
)
@pytest.mark.parametrize("comes_alone", [False, True])
async def test_quotas_are_taken_call_by_call(
    limits: dict[str, int], left: list[int], comes_alone: bool
) -> None:
    """Each commit has 4 offsets. For calls that are left, nothing is taken and none is counted."""
    quotas = _quotas(**limits)
    async with serving_node() as serving:
        joining = Joining(serving.node, method_access=_door(quotas))
        calls = [UnaryCall(f"peer-{place}", certificate=b"alice") for place in range(6)]
        message = _commit("of-alice", partitions=4)
        turns = [[place] for place in range(6)] if comes_alone else [list(range(6))]
        found = [
            turn[place]
            for turn in turns
            for place in joining.take_calls([calls[each] for each in turn], [message] * len(turn))
        ]
        assert found == left
        answers = [await each.end() for place, each in enumerate(calls) if place not in left]
        assert {code.name for code, _ in answers} == {"OK"}
        assert used(quotas) == {
            "call_rate": len(answers),
            "request_byte_rate": len(answers) * len(message),
            "commit_rate": len(answers),
            "offset_rate": 4 * len(answers),
            "response_byte_rate": sum(len(answer) for _, answer in answers),
        }
        assert not quotas.counters.refusals
        joining.assert_all_ended()


async def test_a_commit_without_a_right_counts_as_a_call_only() -> None:
    quotas = _quotas()
    async with serving_node() as serving:
        joining = Joining(serving.node, method_access=_door(quotas))
        calls = [UnaryCall(certificate=b"alice") for _ in range(2)]
        assert not joining.take_calls(calls, [_commit("of-bob"), _commit("of-alice")])
        codes = [(await call.end())[0].name for call in calls]
        assert codes == ["PERMISSION_DENIED", "OK"]
        assert (used(quotas)["call_rate"], used(quotas)["commit_rate"]) == (2, 1)
        joining.assert_all_ended()


async def test_a_connection_that_is_not_counted_yet_is_left() -> None:
    quotas = quotas_of('[[quota]]\nprincipal = "User:alice"\nconnections_max = 1')
    async with serving_node() as serving:
        joining = Joining(serving.node, method_access=_door(quotas))
        calls = [UnaryCall(certificate=b"alice") for _ in range(2)]
        assert joining.take_calls(calls[:1], [_commit("of-alice")]) == [0]
        connection = joining.admission.connections.all()[0]
        quotas.of("User:alice", "").note_connection(connection)
        assert not joining.take_calls(calls[1:], [_commit("of-alice")])
        assert (await calls[1].end())[0].name == "OK"
        joining.assert_all_ended()


@pytest.mark.parametrize("comes_alone", [False, True])
async def test_a_refusal_that_rests_on_nothing_leaves_at_once(comes_alone: bool) -> None:
    """While the disk hangs, a caller without a right is told so."""
    async with serving_node(flushing=False) as serving:
        joining = Joining(serving.node, method_access=_door())
        calls = [UnaryCall(certificate=name) for name in (b"alice", b"bob")]
        messages = [_commit("of-alice"), _commit("of-alice")]
        for turn in ((0,), (1,)) if comes_alone else ((0, 1),):
            joining.take_calls([calls[each] for each in turn], [messages[each] for each in turn])
        assert (await calls[1].end())[0] is grpc.StatusCode.PERMISSION_DENIED
        assert not calls[0].is_answered
        serving.runtime.start()
        assert (await calls[0].end())[0] is grpc.StatusCode.OK
        joining.assert_all_ended()


@pytest.mark.parametrize("others", [0, 2])
async def test_commits_to_a_group_that_a_large_change_holds_are_left(others: int) -> None:
    """The handler of one call waits for the change, for a while."""
    async with serving_node() as serving:
        joining = Joining(serving.node)
        shard = serving.runtime.shards[serving.runtime.partition_of(b"held")]
        shard.holds.begin(b"held")
        messages = [_commit("held"), *(_commit(f"other-{each}") for each in range(others))]
        calls, left = joining.take(messages)
        shard.holds.end(b"held")
        assert left == [0]
        assert [(await call.end())[0].name for call in calls[1:]] == ["OK"] * others
        joining.assert_all_ended()


async def test_a_defect_refuses_the_calls_of_its_turn_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving_node() as serving:
        joining = Joining(serving.node)

        def fail(*_: object) -> None:
            raise RuntimeError("a defect")

        monkeypatch.setattr(serving.node.commit_runs, "submit", fail)
        calls, left = joining.take([_commit("a"), _commit("b")])
        assert not left
        assert [(await call.end())[0].name for call in calls] == ["INTERNAL"] * 2
        joining.assert_all_ended()
