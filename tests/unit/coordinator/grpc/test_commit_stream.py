"""StreamCommits: results, refusals, bounds, and every way in which a stream can end."""

from __future__ import annotations

import asyncio
import errno
import gc

import grpc
import grpc.aio
import pytest
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.counters import CODES
from offsetd_coordinator.errors import InvalidGroupId
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE
from offsetd_storage.disk.simulated_faults import Fault, OperationKind
from open_streams import OpenStream, settled
from serving_nodes import WAIT_SECONDS, commit_request, serving_node


async def test_results_name_the_sequence_that_they_answer() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving)
        sequences = [2**64 - 1, 0, 7]
        for value, sequence in enumerate(sequences):
            stream.context.send((sequence, commit_request("g", value)))
        results = [await stream.context.result() for _ in sequences]
        assert [result.sequence for result in results] == sequences
        assert [result.committed.revision.log_offset for result in results] == [0, 1, 2]
        stream.context.half_close()
        await stream.end()
        assert stream.context.code is None


async def test_commits_of_any_groups_share_a_message_and_fail_one_by_one() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving)
        conflicting = commit_request("b", 1)
        conflicting.offsets[0].expected_offset = 3
        stream.context.send(
            (1, commit_request("a", 1)), (2, conflicting), (3, commit_request("", 1))
        )
        results = {}
        for _ in range(3):
            result = await stream.context.result()
            results[result.sequence] = result
        assert results[1].HasField("committed")
        assert results[2].error.code == grpc.StatusCode.ABORTED.value[0]
        assert results[3].error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
        stream.context.half_close()
        await stream.end()
        counted = dict(zip(CODES, stream.counters.result_codes, strict=True))
        assert {code: count for code, count in counted.items() if count} == {
            "OK": 1,
            "ABORTED": 1,
            "INVALID_ARGUMENT": 1,
        }
        assert sum(stream.counters.message_durations.counts) == 1


async def test_what_one_flush_made_durable_leaves_in_one_message() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving)
        for value in range(50):
            stream.context.send((value, commit_request("g", value)))
        await settled()
        assert stream.context.reads == 50
        assert stream.context.writes == 0, "a result left before the flush"
        serving.runtime.start()
        for value in range(50):
            assert (await stream.context.result()).sequence == value
        assert stream.context.writes == 1
        stream.context.half_close()
        await stream.end()


async def test_a_stream_with_too_much_unanswered_is_not_read() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving, unanswered_max=10)
        for value in range(100):
            stream.context.send((value, commit_request("g", value)))
        await settled()
        assert stream.context.reads == 10
        serving.runtime.start()
        for value in range(100):
            assert (await stream.context.result()).sequence == value
        stream.context.half_close()
        await stream.end()


async def test_a_client_that_does_not_read_its_results_is_held_back() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving, unanswered_max=10)
        stream.context.writable.clear()
        for value in range(100):
            stream.context.send((value, commit_request("g", value)))
        await asyncio.sleep(0.2)
        assert stream.context.reads <= 20
        stream.context.writable.set()
        for value in range(100):
            assert (await stream.context.result()).sequence == value
        stream.context.half_close()
        await stream.end()


async def test_a_message_beyond_the_budget_waits_for_its_turn_and_is_not_refused() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving, bytes_max=100)
        for sequence in range(10):
            stream.context.send((sequence, commit_request("g", sequence)))
        await settled()
        assert stream.context.reads < 10
        assert stream.admission.bytes_taken <= 100
        serving.runtime.start()
        results = [await stream.context.result() for _ in range(10)]
        assert all(result.HasField("committed") for result in results)
        assert [result.sequence for result in results] == list(range(10))
        stream.context.half_close()
        await stream.end()


@pytest.mark.parametrize("group_of_the_last", ["g", ""])
async def test_a_message_is_counted_in_whole_before_it_is_parsed_until_its_last_result_has_left(
    group_of_the_last: str,
) -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving, bytes_max=100)
        commits = [commit_request("g", value) for value in range(20)]
        commits.append(commit_request(group_of_the_last, 20))
        size = stream.context.send(*enumerate(commits))
        stream.context.send_bytes(b"\xff no message")
        await settled()
        assert (stream.admission.requests, stream.admission.bytes_taken) == (1, size)
        assert not stream.task.done()
        stream.context.writable.clear()
        serving.runtime.start()
        await serving.fetch("g")
        await settled()
        assert stream.admission.requests == 1, "its results have not left"
        stream.context.writable.set()
        assert len([await stream.context.result() for _ in commits]) == 21
        await stream.end()
        assert stream.context.reason == "INVALID_REQUEST"


async def test_a_message_is_not_looked_at_before_it_has_its_turn() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving, bytes_max=100)
        stream.admission.take(100)
        stream.context.send_bytes(b"\xff no message")
        await settled()
        assert not stream.task.done()
        stream.admission.give_back(100)
        await stream.end()
        assert stream.context.reason == "INVALID_REQUEST"


async def test_a_message_that_waits_for_its_turn_when_the_stream_ends_is_forgotten() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving, bytes_max=100)
        stream.admission.take(100)
        stream.context.send((1, commit_request("g", 5)))
        await settled()
        serving.node.drain()
        await stream.end_with(requests=1, bytes_taken=100)
        assert stream.context.reason == "COORDINATOR_NOT_AVAILABLE"
        stream.admission.give_back(100)
        stream.check_nothing_is_left()


async def test_a_message_with_more_commits_than_may_be_unanswered_is_submitted_bit_by_bit() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving, unanswered_max=10)
        stream.context.send(*((value, commit_request("g", value)) for value in range(100)))
        await settled()
        shard = serving.runtime.shards[serving.runtime.partition_of(b"g")]
        assert shard.offset_next == 10
        serving.runtime.start()
        for value in range(100):
            assert (await stream.context.result()).sequence == value
        stream.context.half_close()
        await stream.end()


async def test_others_have_their_turn_while_a_message_of_many_commits_is_read() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving, unanswered_max=100_000)
        commits = 5000
        stream.context.send(*((value, commit_request("g", value)) for value in range(commits)))
        shard = serving.runtime.shards[serving.runtime.partition_of(b"g")]
        largest_step, before = 0, 0
        while before < commits:
            await asyncio.sleep(0)
            largest_step, before = max(largest_step, shard.offset_next - before), shard.offset_next
        assert 0 < largest_step <= COMMITS_AT_ONCE
        serving.runtime.start()
        stream.context.half_close()
        await stream.end()


async def test_commits_that_are_not_plain_share_turns() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving)
        commits = [(value, commit_request("g", value)) for value in range(600)]
        for _, commit in commits:
            commit.retention.seconds = 60
        stream.context.send(*commits)
        shard = serving.runtime.shards[serving.runtime.partition_of(b"g")]
        steps = []
        while shard.offset_next < len(commits):
            before = shard.offset_next
            await asyncio.sleep(0)
            if shard.offset_next > before:
                steps.append(shard.offset_next - before)
        assert 10 < max(steps) < 100
        assert len(steps) < 60
        serving.runtime.start()
        stream.context.half_close()
        await stream.end()


async def test_long_refusals_leave_in_several_messages() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(
            serving, unanswered_max=10_000, bytes_max=1 << 24, request_bytes_max=1 << 24
        )
        conditions = [
            offset_service_pb2.OffsetCommit(topic="t" * 249, partition=each, expected_offset=1)
            for each in range(8)
        ]
        refused = offset_service_pb2.CommitOffsetsRequest(group_id="g", offsets=conditions)
        # The first one holds the others up, so that all may leave at once.
        commits = [(0, commit_request("g", 1)), *((value, refused) for value in range(1, 1200))]
        stream.context.send(*commits)
        stream.context.half_close()
        await settled()
        serving.runtime.start()
        await stream.end()
        assert stream.context.bytes_written > 2 << 20
        assert stream.context.largest_write < 2 << 20


async def test_refusals_that_wait_hold_nothing_of_what_was_called() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving)
        stream.context.send((1, commit_request("g", 1)), (2, commit_request("", 1)))
        await settled()
        assert not [each for each in gc.get_objects() if type(each) is InvalidGroupId]
        serving.runtime.start()
        stream.context.half_close()
        await stream.end()


async def test_a_message_over_the_limit_ends_the_stream_after_what_came_before() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving, request_bytes_max=1000)
        stream.context.send((1, commit_request("g", 5)))
        stream.context.send((2, commit_request("g", 6, partitions=100)))
        assert (await stream.context.result()).sequence == 1
        await stream.end()
        assert stream.context.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert stream.context.reason == "REQUEST_TOO_LARGE"


async def test_an_abandoned_stream_leaves_its_commits_and_nothing_else() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving)
        stream.context.send((1, commit_request("g", 5, partitions=3)))
        await settled()
        assert stream.admission.requests == 1
        stream.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stream.task
        await settled()
        stream.check_nothing_is_left()
        serving.runtime.start()
        [group] = await serving.fetch("g")
        assert [each.offset for each in group.offsets] == [5, 5, 5]


async def test_a_client_that_is_gone_when_it_is_answered_leaves_nothing() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving)

        async def broken(_: bytes) -> None:
            raise grpc.aio.InternalError("the client hung up")

        stream.context.__dict__["write"] = broken
        stream.context.send((1, commit_request("g", 5)))
        with pytest.raises(grpc.aio.InternalError):
            await asyncio.wait_for(stream.task, WAIT_SECONDS)
        await settled()
        stream.check_nothing_is_left()


async def test_a_half_closed_stream_is_answered_to_its_end() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving)
        for sequence in range(5):
            stream.context.send((sequence, commit_request("g", sequence)))
        stream.context.half_close()
        await settled()
        assert not stream.task.done()
        serving.runtime.start()
        await stream.end()
        assert [(await stream.context.result()).sequence for _ in range(5)] == [0, 1, 2, 3, 4]


async def test_a_message_that_is_none_ends_the_stream_after_what_came_before() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving)
        stream.context.send((1, commit_request("g", 5)))
        stream.context.send_bytes(b"\xff\xff")
        stream.context.send((2, commit_request("g", 6)))
        assert (await stream.context.result()).sequence == 1
        await stream.end()
        assert stream.context.code is grpc.StatusCode.INVALID_ARGUMENT
        assert stream.context.reason == "INVALID_REQUEST"
        [group] = await serving.fetch("g")
        assert group.offsets[0].offset == 5


async def test_a_commit_that_is_not_utf8_is_refused_alone() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving)
        good = commit_request("g", 5).SerializeToString()
        bad = b"\x0a\x02\xff\xfe" + good[3:]
        commits = b"".join(
            b"\x0a" + bytes([len(each) + 4]) + b"\x08" + bytes([sequence, 0x12, len(each)]) + each
            for sequence, each in ((1, good), (2, bad), (3, good))
        )
        stream.context.send_bytes(commits)
        outcomes = {}
        for _ in range(3):
            result = await stream.context.result()
            outcomes[result.sequence] = result.WhichOneof("outcome")
        assert outcomes == {1: "committed", 2: "error", 3: "committed"}
        stream.context.half_close()
        await stream.end()


async def test_draining_answers_what_was_taken_and_ends_the_stream() -> None:
    async with serving_node(flushing=False) as serving:
        stream = OpenStream(serving)
        stream.context.send((1, commit_request("g", 5)))
        await settled()
        serving.node.drain()
        stream.context.send((2, commit_request("g", 6)))
        await settled()
        assert not stream.task.done()
        serving.runtime.start()
        await stream.end()
        assert (await stream.context.result()).sequence == 1
        assert stream.context.code is grpc.StatusCode.UNAVAILABLE
        assert stream.context.reason == "COORDINATOR_NOT_AVAILABLE"


async def test_an_idle_stream_ends_when_the_server_drains() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving)
        await settled()
        serving.node.drain()
        await stream.end()
        assert stream.context.reason == "COORDINATOR_NOT_AVAILABLE"


async def test_a_stream_of_a_server_that_drains_is_refused_at_once() -> None:
    async with serving_node() as serving:
        serving.node.drain()
        stream = OpenStream(serving)
        await stream.end()
        assert stream.context.reason == "COORDINATOR_NOT_AVAILABLE"
        assert stream.context.reads == 0


async def test_a_stream_with_a_spent_deadline_is_refused_at_once() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving)
        stream.context.remaining_seconds = 0.0
        await stream.end()
        assert stream.context.code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert stream.context.reads == 0


async def test_a_disk_that_fails_ends_the_stream_without_a_result() -> None:
    async with serving_node() as serving:
        stream = OpenStream(serving)
        stream.context.send((1, commit_request("g", 5)))
        assert (await stream.context.result()).sequence == 1
        serving.files.faults.append(Fault(kind=OperationKind.SYNC, errno=errno.EIO))
        stream.context.send((2, commit_request("g", 6)))
        await stream.end()
        assert stream.context.code is grpc.StatusCode.UNAVAILABLE
        assert stream.context.reason == "STORAGE_FAILED"
        assert stream.context.writes == 1


async def test_after_the_disk_failed_idle_and_new_streams_are_told_that() -> None:
    async with serving_node() as serving:
        idle = OpenStream(serving)
        await settled()
        serving.files.faults.append(Fault(kind=OperationKind.SYNC, errno=errno.EIO))
        busy = OpenStream(serving)
        busy.context.send((1, commit_request("g", 5)))
        await asyncio.wait_for(busy.task, WAIT_SECONDS)
        serving.node.drain()
        await idle.end()
        late = OpenStream(serving)
        await late.end()
        assert idle.context.reason == late.context.reason == "STORAGE_FAILED"
