"""Unary fetches of one turn of the loop: each has its own answer, or is left to its own handler."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from joined_calls import MESSAGE_BYTES_MAX, JoinedTurns, UnaryCall, door, quotas_of, used
from memory_commit_log import MemoryTopic
from memory_nodes import MemoryNode, group_in
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.calls.access_control import AccessControl
from offsetd_coordinator.calls.identities import Identities
from offsetd_coordinator.counters import AccessCounters
from offsetd_coordinator.grpc.joined_fetches import JoinedFetches
from offsetd_coordinator.messages.method_access import MethodAccess
from offsetd_coordinator.security.acl import Operation
from offsetd_coordinator.security.jwks import KeySet
from oidc_issuer import NOW_MS, Publication, jwks, signing_key, token
from serving_nodes import WAIT_SECONDS, commit_request, serving_node
from web_token_checks import ALICE, REFRESH_MS, verifier_with

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Coroutine, Iterable

    from offsetd_coordinator.node import Node
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.services.offset_calls import OffsetService
    from serving_nodes import ServingNode


class Joining(JoinedTurns):
    """The joined fetches of a node."""

    def __init__(self, node: Node, **limits: Any) -> None:
        super().__init__("FetchOffsets", **limits)
        self.joined = JoinedFetches(node, self.calls)


def _door() -> MethodAccess:
    return door("FetchOffsets", Operation.DESCRIBE)


def _fetch(*group_ids: str, partitions: Iterable[int] = (), is_stable: bool = False) -> bytes:
    named = [{"topic": "orders", "partition": each} for each in partitions]
    return offset_service_pb2.FetchOffsetsRequest(
        groups=[{"group_id": each, "partitions": named} for each in group_ids],
        require_stable=is_stable,
    ).SerializeToString()


async def _begun(runtime: Runtime, group_id: str, commit: Coroutine[Any, Any, Any]) -> Task[Any]:
    """The task of a group's first commit, which is appended and not durable."""
    task = asyncio.create_task(commit)
    async with asyncio.timeout(WAIT_SECONDS):
        while not runtime.ticket_of(group_id.encode()):  # noqa: ASYNC110
            await asyncio.sleep(0)
    return task


async def _response(call: UnaryCall) -> offset_service_pb2.FetchOffsetsResponse:
    code, message = await call.end()
    assert code is grpc.StatusCode.OK
    return offset_service_pb2.FetchOffsetsResponse.FromString(message)


async def _offsets(call: UnaryCall) -> dict[str, list[int]]:
    """The offsets of each group in an answer."""
    groups = (await _response(call)).groups
    return {each.group_id: [one.offset for one in each.offsets] for each in groups}


async def test_each_call_has_the_answer_of_its_own_fetch() -> None:
    async with serving_node() as serving:
        await serving.commit("a", 1)
        await serving.commit("b", 2, partitions=3)
        joining = Joining(serving.node)
        messages = [
            _fetch("a"),
            _fetch("b", partitions=[2, 7]),
            b"\xff garbage",
            _fetch("unknown"),
            _fetch("a", "b"),
            b"",
            _fetch("a", "a"),
            _fetch("b"),
        ]
        calls, left = joining.take(messages)
        assert left == [2, 6], "the handler of one call refuses these"
        assert [await _offsets(call) for place, call in enumerate(calls) if place not in left] == [
            {"a": [1]},
            {"b": [2]},
            {"unknown": []},
            {"a": [1], "b": [2, 2, 2]},
            {},
            {"b": [2] * 3},
        ]
        joining.assert_all_ended()


async def test_the_answer_is_that_of_the_handler_of_one_call() -> None:
    async with serving_node() as serving:
        await serving.commit("a", 1, partitions=20)
        message = _fetch("a", "unknown", partitions=range(10))
        calls, _ = Joining(serving.node).take([message])
        assert (await calls[0].end())[1] == await serving.offsets.fetch_offsets(message)


async def test_no_call_is_answered_before_what_it_read_is_durable() -> None:
    async with serving_node(flushing=False) as serving:
        joining = Joining(serving.node)
        commit = await _begun(serving.runtime, "a", serving.commit("a", 1))
        other = next(g for g in map(str, range(100)) if not _are_together(serving, g, "a"))
        calls, left = joining.take([_fetch("a"), _fetch(other), _fetch(other, "a")])
        assert not left
        assert await _offsets(calls[1]) == {other: []}, "it rests on nothing"
        for _ in range(10):
            await asyncio.sleep(0)
        assert not calls[0].is_answered
        assert not calls[2].is_answered
        serving.runtime.start()
        assert await _offsets(calls[0]) == {"a": [1]}
        assert await _offsets(calls[2]) == {other: [], "a": [1]}
        await commit
        joining.assert_all_ended()


def _are_together(serving: ServingNode, *group_ids: str) -> bool:
    return len({serving.runtime.partition_of(each.encode()) for each in group_ids}) == 1


@pytest.mark.parametrize("newest", [0, 1])
async def test_a_partition_that_is_lost_refuses_the_calls_that_read_it(newest: int) -> None:
    node = MemoryNode(MemoryTopic(4), range(4))
    node.log.holds = True
    groups = [group_in(partition) for partition in (0, 1)]
    commits = [
        await _begun(node.runtime, groups[place], node.commit(groups[place], 1))
        for place in (1 - newest, newest)
    ]
    joining = Joining(node.node)
    calls, left = joining.take([_fetch(groups[0]), _fetch(groups[1]), _fetch(*groups)])
    assert not left
    node.lose(1)
    assert (await calls[1].end())[0] is grpc.StatusCode.UNAVAILABLE
    assert not calls[0].is_answered
    node.log.flush()
    assert await _offsets(calls[0]) == {groups[0]: [1]}
    assert (await calls[2].end())[0] is grpc.StatusCode.UNAVAILABLE
    await asyncio.gather(*commits, return_exceptions=True)
    joining.assert_all_ended()


async def test_groups_of_partitions_that_are_elsewhere_are_left() -> None:
    node = MemoryNode(MemoryTopic(4), [0])
    joining = Joining(node.node)
    calls, left = joining.take([_fetch(group_in(1)), _fetch(group_in(0)), _fetch(group_in(2))])
    assert left == [0, 2]
    assert await _offsets(calls[1]) == {group_in(0): []}
    joining.assert_all_ended()


async def test_what_has_no_room_or_no_time_is_left() -> None:
    async with serving_node(flushing=False) as serving:
        commit = await _begun(serving.runtime, "g", serving.commit("g", 1))
        message = _fetch("g")
        joining = Joining(serving.node, in_flight_bytes_max=2 * len(message))
        calls = [UnaryCall() for _ in range(5)]
        calls[1].remaining_seconds = 0.0
        messages = [message, message, bytes(MESSAGE_BYTES_MAX + 1), message, message]
        assert joining.take_calls(calls, messages) == [1, 2, 4]
        serving.runtime.start()
        assert [await _offsets(calls[place]) for place in (0, 3)] == [{"g": [1]}] * 2
        await commit
        joining.assert_all_ended()


async def test_a_node_that_is_loading_or_draining_leaves_all() -> None:
    async with serving_node() as serving:
        joining = Joining(serving.node)
        serving.node.drain()
        assert joining.take([_fetch("a"), _fetch("b")])[1] == [0, 1]
        joining.assert_all_ended()


async def test_large_fetches_are_left() -> None:
    """The handler of one call lets others run while it reads."""
    async with serving_node() as serving:
        await serving.commit("large", 1, partitions=257)
        await serving.commit("small", 1, partitions=256)
        joining = Joining(serving.node)
        messages = [
            _fetch("large"),
            _fetch("small"),
            _fetch("large", partitions=range(200)),
            _fetch(*map(str, range(5))),
            _fetch(*map(str, range(6))),
            _fetch("g" * 5000),
        ]
        calls, left = joining.take(messages)
        assert left == [0, 4, 5]
        assert await _offsets(calls[1]) == {"small": [1] * 256}
        assert await _offsets(calls[2]) == {"large": [1] * 200}
        calls[1].note_read()
        calls[2].note_read()
        joining.assert_all_ended()


async def _commit_metadata(offsets: OffsetService, group_id: str) -> None:
    request = commit_request(group_id, 1)
    request.offsets[0].metadata = "m" * 2000
    await offsets.commit_offsets(request.SerializeToString())


async def test_answers_count_from_their_reading_until_the_client_has_them() -> None:
    async with serving_node(flushing=False) as serving:
        commit = await _begun(serving.runtime, "g", _commit_metadata(serving.offsets, "g"))
        joining = Joining(serving.node, in_flight_bytes_max=1 << 14)
        held = joining.admission.answers
        calls, left = joining.take([_fetch("g"), _fetch("g"), _fetch("g")])
        assert left == [2], "half of 16 KiB has room for two copies of two answers, not of three"
        assert 2 * 2 * 2000 < held.bytes_held <= held.bytes_max
        connections = joining.admission.connections.all()
        assert not any(each.unread_answers for each in connections), "they have not left"
        calls[1].is_done = True  # Its client has gone.
        serving.runtime.start()
        await commit
        response = await _response(calls[0])
        assert held.bytes_held == 2 * response.ByteSize()
        assert [each.unread_answers for each in connections] == [1, 0, 0]
        calls[0].note_read()
        joining.assert_all_ended()


async def test_an_answer_that_is_refused_counts_no_longer() -> None:
    node = MemoryNode(MemoryTopic(4), range(4))
    node.log.holds = True
    group = group_in(1)
    commit = await _begun(node.runtime, group, _commit_metadata(node.offsets, group))
    joining = Joining(node.node)
    calls, _ = joining.take([_fetch(group)])
    assert joining.admission.answers.bytes_held
    node.lose(1)
    assert (await calls[0].end())[0] is grpc.StatusCode.UNAVAILABLE
    await asyncio.gather(commit, return_exceptions=True)
    joining.assert_all_ended()


async def test_each_fetch_needs_the_rights_of_its_own_caller() -> None:
    """Carol may see one topic only, so that her answers have to be read again."""
    async with serving_node() as serving:
        joining = Joining(serving.node, method_access=_door())
        asked = [
            ("alice", ["of-alice"]),
            ("alice", ["of-bob"]),
            ("bob", ["of-bob"]),
            ("carol", ["of-carol"]),
            ("bob", ["of-bob", "of-alice"]),
        ]
        calls = [UnaryCall(f"peer-{name}", certificate=name.encode()) for name, _ in asked]
        left = joining.take_calls(calls, [_fetch(*group_ids) for _, group_ids in asked])
        assert left == [1, 3, 4]
        assert await _offsets(calls[0]) == {"of-alice": []}
        assert await _offsets(calls[2]) == {"of-bob": []}
        joining.assert_all_ended()


async def test_callers_with_web_tokens_are_taken_once_their_tokens_are_known() -> None:
    keys = KeySet(
        "https://issuer.example/jwks", refresh_ms=REFRESH_MS, fetch=Publication(jwks(signing_key()))
    )
    verifier, now_ms = verifier_with(keys), [NOW_MS]
    identities = Identities(now_ms=lambda: now_ms[0], web_tokens=verifier)
    control = AccessControl(identities, None, AccessCounters())
    async with serving_node() as serving:
        joining = Joining(serving.node, method_access=MethodAccess(control, "FetchOffsets"))
        calls = [UnaryCall(token=token(signing_key())) for _ in range(3)]
        assert joining.take_calls(calls[:1], [_fetch("g")]) == [0], "its key may have to be fetched"
        await control.enter(calls[0])
        assert not joining.take_calls(calls[1:2], [_fetch("g")])
        assert await _offsets(calls[1]) == {"g": []}
        now_ms[0] = ALICE.expires_ms or 0
        assert joining.take_calls(calls[2:], [_fetch("g")]) == [0], "it has expired"
        joining.assert_all_ended()


async def test_quotas_are_taken_call_by_call() -> None:
    """For fetches that are left, nothing is taken and nothing counted."""
    lines = ["call_rate = 2", "request_byte_rate = 99999", "response_byte_rate = 99999"]
    quotas = quotas_of("\n".join(['[[quota]]\nprincipal = "User:alice"', *lines]))
    async with serving_node() as serving:
        joining = Joining(
            serving.node, method_access=door("FetchOffsets", Operation.DESCRIBE, quotas)
        )
        messages = [
            _fetch("of-alice"),
            b"\xff garbage",
            _fetch("of-bob"),
            _fetch("of-alice", partitions=[1]),
            _fetch("of-alice"),
        ]
        calls = [UnaryCall(certificate=b"alice") for _ in messages]
        assert joining.take_calls(calls, messages) == [1, 2, 4]
        answers = [(await calls[place].end())[1] for place in (0, 3)]
        assert used(quotas) == {
            "call_rate": 2,
            "request_byte_rate": len(messages[0]) + len(messages[3]),
            "response_byte_rate": sum(map(len, answers)),
        }
        assert not quotas.counters.refusals
        joining.assert_all_ended()


async def test_a_group_whose_change_is_partly_written_is_left() -> None:
    """The handler of one call waits for the change."""
    async with serving_node() as serving:
        joining = Joining(serving.node)
        shard = serving.runtime.shards[serving.runtime.partition_of(b"held")]
        shard.holds.begin(b"held").is_writing = True
        calls, left = joining.take([_fetch("held"), _fetch("other")])
        shard.holds.end(b"held")
        assert left == [0]
        assert await _offsets(calls[1]) == {"other": []}
        joining.assert_all_ended()


async def test_a_defect_leaves_its_own_call_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_node() as serving:
        joining = Joining(serving.node)
        fetch_into = serving.runtime.fetch_into

        def fail(answer: Any, selection: Any, **more: Any) -> Any:
            if selection.group_id == b"defect":
                raise RuntimeError("a defect")
            return fetch_into(answer, selection, **more)

        monkeypatch.setattr(serving.runtime, "fetch_into", fail)
        calls, left = joining.take([_fetch("a"), _fetch("defect"), _fetch("b")])
        assert left == [1]
        assert [await _offsets(calls[place]) for place in (0, 2)] == [{"a": []}, {"b": []}]
        joining.assert_all_ended()
