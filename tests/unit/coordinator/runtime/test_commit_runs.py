"""A message's commits by runs, beside the same commits one after the other."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from offsetd.v1 import offset_service_pb2, types_pb2
from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig, ExpiryConfig
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.grpc.commit_stream import submitted_alone
from offsetd_coordinator.grpc.stream_results import ResultEncoder
from offsetd_coordinator.kernels.records.commit_batches import (
    ANSWER_LAST_OFFSET,
    ANSWER_LOG_PARTITION,
    ANSWER_SEQUENCE,
    RUN_END,
    RUN_FIRST,
)
from offsetd_coordinator.messages.statuses import status_of
from offsetd_coordinator.requests import AcquireGroup, CommitReply
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE, ReadCommits
from offsetd_storage.batch.batch_runs import AppendedRuns
from offsetd_storage.errors import StorageFull
from serving_nodes import PARTITIONS, ServingNode, commit_request, serving_node
from shards import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offsetd_coordinator.committed_offsets import CommittedOffset
    from offsetd_coordinator.kernels.columns import Int64s

pytestmark = pytest.mark.kernel

CommitOffsetsRequest = offset_service_pb2.CommitOffsetsRequest
StreamCommitsResponse = offset_service_pb2.StreamCommitsResponse

GROUPS = ("a", "b", "consumers", "größe", "held")
LEASED = b"held"
_SMALL = st.integers(0, 3)
CONDITIONS = st.sampled_from(
    [{}, {"monotonic": True}, {"must_not_exist": True}]
    + [{"expected_offset": number} for number in range(3)]
    + [{"expected_revision": number} for number in range(6)]
)


@st.composite
def commits(draw: st.DrawFn) -> CommitOffsetsRequest:
    partitions = draw(st.lists(_SMALL, min_size=1, max_size=4, unique=True))
    offsets: list[dict[str, Any]] = [
        {"topic": "t", "partition": each, "offset": draw(_SMALL), **draw(CONDITIONS)}
        for each in partitions
    ]
    if draw(st.booleans()):
        offsets[0]["end_offset"] = draw(_SMALL)
    return CommitOffsetsRequest(
        group_id=draw(st.sampled_from(GROUPS)),
        request_id=draw(st.sampled_from(["", "", "one", "two"])),
        offsets=[offset_service_pb2.OffsetCommit(**each) for each in offsets],
    )


@attrs.frozen(kw_only=True)
class Guards:
    """What holds against commits, beside their conditions."""

    unchanged_ms: int
    rate_max: int
    has_lease: bool


def committed(log_partition: int, reply: CommitReply) -> offset_service_pb2.CommitOffsetsResponse:
    """The answer to a commit."""
    return offset_service_pb2.CommitOffsetsResponse(
        revision=types_pb2.Revision(log_partition=log_partition, log_offset=reply.last_offset)
    )


def name_slots(serving: ServingNode) -> list[int]:
    """Of the names of each log partition's table."""
    shards = [serving.runtime.shards[partition] for partition in range(PARTITIONS)]
    return [shard._state.offsets._table.name_slots.size for shard in shards]


def new_only(group_id: str) -> CommitOffsetsRequest:
    """A commit that comes to nothing where its partition is committed."""
    request = commit_request(group_id, 3)
    request.offsets[0].must_not_exist = True
    return request


GUARDS = st.builds(
    Guards,
    unchanged_ms=st.sampled_from([0, 0, 1000]),
    rate_max=st.sampled_from([0, 0, 2]),
    has_lease=st.booleans(),
)


def prepare(serving: ServingNode, guards: Guards) -> None:
    serving.runtime.configure(
        CommitGuardConfig(rate_max=guards.rate_max, burst_max=2, top_groups_max=10),
        ExpiryConfig(unchanged_commit_ms=guards.unchanged_ms),
    )
    if guards.has_lease:
        serving.runtime.submit(AcquireGroup(group_id=LEASED, holder="h", ttl_ms=60_000))


def stream_message(requests: Sequence[CommitOffsetsRequest]) -> bytes:
    return offset_service_pb2.StreamCommitsRequest(
        commits=[
            offset_service_pb2.SequencedCommit(sequence=sequence, commit=each)
            for sequence, each in enumerate(requests)
        ]
    ).SerializeToString()


def by_runs(serving: ServingNode, message: bytes, commits_max: int) -> Iterator[tuple[int, bytes]]:
    """The ticket and the response of what is read at a time."""
    encoder = ResultEncoder()
    rest = serving.parser.open_stream(message)
    while not rest.is_read:
        read = rest.read(commits_max)
        if isinstance(read, ReadCommits):
            submitted = serving.node.commit_runs.submit(read)
            yield submitted.ticket, encoder.encode(submitted).response
        else:
            ticket, results, _ = submitted_alone(serving.runtime, encoder, *read)
            yield ticket, results.response


def one_by_one(serving: ServingNode, requests: Sequence[CommitOffsetsRequest]) -> bytes:
    """The response that the same commits get by themselves, as protobuf writes it."""
    response = StreamCommitsResponse()
    for sequence, request in enumerate(requests):
        commit = serving.parser.parse(request.SerializeToString())
        result = response.results.add(sequence=sequence)
        try:
            _, outcome = serving.runtime.submit(commit)
        except CoordinatorError as refusal:
            outcome = refusal
        if isinstance(outcome, CommitReply):
            partition = serving.runtime.partition_of(commit.group_id)
            result.committed.CopyFrom(committed(partition, outcome))
        else:
            assert isinstance(outcome, CoordinatorError)
            result.error.CopyFrom(status_of(outcome))
    return response.SerializeToString()


def logs_of(serving: ServingNode) -> dict[str, bytes]:
    """What is in each log."""
    serving.store.flush()
    found = {}
    for topic_partition, log in serving.store.logs.items():
        log.write()
        [segment] = log.segments
        found[str(topic_partition)] = segment.file.pread(segment.size_bytes, 0)
    return found


def stored_in(serving: ServingNode) -> list[list[CommittedOffset]]:
    """All offsets, with the end offsets that were reported, whether they are durable or not."""
    groups = [each.encode() for each in GROUPS]
    shard_of = serving.runtime.partition_of
    return [serving.runtime.shards[shard_of(each)].fetch(each) for each in groups]


@pytest.mark.slow
@example(
    requests=[commit_request("a", 1), commit_request("held", 1), commit_request("a", 2)],
    commits_max=9,
    guards=Guards(unchanged_ms=0, rate_max=0, has_lease=True),
)
@example(
    requests=[commit_request("a", 1), commit_request("a", 2)],
    commits_max=9,
    guards=Guards(unchanged_ms=0, rate_max=0, has_lease=False),
)
@example(
    requests=[commit_request("a", 1), commit_request("held", 2), new_only("a"), new_only("held")],
    commits_max=9,
    guards=Guards(unchanged_ms=0, rate_max=0, has_lease=False),
)
@given(
    requests=st.lists(commits(), min_size=1, max_size=25),
    commits_max=st.integers(1, 9),
    guards=GUARDS,
)
def test_commits_come_to_the_same_as_one_after_the_other(
    requests: list[CommitOffsetsRequest], commits_max: int, guards: Guards
) -> None:
    async def both() -> None:
        async with (
            serving_node(flushing=False) as together,
            serving_node(flushing=False) as alone,
        ):
            for each in (together, alone):
                prepare(each, guards)
            response = b""
            for ticket, part in by_runs(together, stream_message(requests), commits_max):
                response += part
                for each in StreamCommitsResponse.FromString(part).results:
                    if each.HasField("committed"):
                        partition = each.committed.revision.log_partition
                        assert ticket >= together.runtime._tickets[partition]
            assert response == one_by_one(alone, requests)
            assert logs_of(together) == logs_of(alone)
            for partition in range(PARTITIONS):
                shards = [each.runtime.shards[partition] for each in (together, alone)]
                first, second = map(state_of, shards)
                assert first == second
                assert shards[0].offset_next == shards[1].offset_next
            activity = [each.runtime.commit_guards.activity._counts for each in (together, alone)]
            assert activity[0] == activity[1]
            last_tickets = [max(each.runtime._tickets.values()) for each in (together, alone)]
            assert last_tickets[0] == last_tickets[1]
            assert stored_in(together) == stored_in(alone)

    asyncio.run(both())


async def test_tables_grow_while_runs_are_replayed() -> None:
    requests = [
        commit_request(f"group-{number % 2_400}", number, partitions=5) for number in range(4_800)
    ]
    async with (
        serving_node(flushing=False) as together,
        serving_node(flushing=False) as alone,
    ):
        sizes = name_slots(together)
        response = b"".join(
            part for _, part in by_runs(together, stream_message(requests), COMMITS_AT_ONCE)
        )
        assert response == one_by_one(alone, requests)
        for partition in range(PARTITIONS):
            shards = [each.runtime.shards[partition] for each in (together, alone)]
            first, second = map(state_of, shards)
            assert first == second
        assert all(
            after > before for before, after in zip(sizes, name_slots(together), strict=True)
        )


async def test_commits_to_a_quarantined_log_partition_are_refused_beside_others() -> None:
    async with serving_node(flushing=False) as serving:
        requests = [commit_request(each, 1) for each in ("a", "b", "c", "d", "a", "b")]
        lost = serving.runtime.partition_of(b"a")
        del serving.runtime.shards[lost]  # type: ignore[attr-defined]
        expected = [
            serving.runtime.partition_of(each.group_id.encode()) != lost for each in requests
        ]
        [(_, response)] = by_runs(serving, stream_message(requests), COMMITS_AT_ONCE)
        results = StreamCommitsResponse.FromString(response).results
        assert [each.HasField("committed") for each in results] == expected
        assert True in expected


async def test_a_full_disk_refuses_what_is_behind_and_keeps_what_went_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving_node(flushing=False) as serving:
        rooms = [2, 0]  # For so many batches, and then for none.

        def append_some(where: Any, content: Any, spans: Any) -> AppendedRuns:
            size = 12 + int.from_bytes(content[8:12].tobytes())
            spans = np.minimum(spans, rooms.pop(0) * size)
            done = append_runs(where, content, spans) if spans.any() else AppendedRuns([0], {})
            return done._replace(refusals={0: StorageFull("no room")})

        def append_none(*_: object, **__: object) -> None:
            raise StorageFull("no room")

        append_runs = serving.store.append_runs
        monkeypatch.setattr(serving.store, "append_runs", append_some)
        monkeypatch.setattr(serving.log, "_append", append_none)
        requests = [commit_request("g", value) for value in range(4)]
        [(ticket, response)] = by_runs(serving, stream_message(requests), COMMITS_AT_ONCE)
        results = StreamCommitsResponse.FromString(response).results
        assert [each.HasField("committed") for each in results] == [True, True, False, False]
        partition = serving.runtime.partition_of(b"g")
        assert [each.offset for each in serving.runtime.shards[partition].fetch(b"g")] == [1]
        assert ticket == serving.runtime._tickets[partition]


async def test_a_defect_in_the_replay_stops_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_node(flushing=False) as serving:
        monkeypatch.setattr(serving.node.commit_runs._decisions, "replay", None)
        requests = [commit_request("g", value) for value in range(2)]
        with pytest.raises(CoordinatorError):
            list(by_runs(serving, stream_message(requests), COMMITS_AT_ONCE))
        assert serving.runtime.failed is not None
        assert serving.failures


async def test_answers_name_sequence_partition_and_offset() -> None:
    async with serving_node(flushing=False) as serving:
        rest = serving.parser.open_stream(
            stream_message([commit_request(each, 1, partitions=3) for each in GROUPS])
        )
        read = rest.read(COMMITS_AT_ONCE)
        assert isinstance(read, ReadCommits)
        submitted = serving.node.commit_runs.submit(read)
        assert not submitted.refusals
        ends: defaultdict[int, int] = defaultdict(int)
        for place, group in enumerate(GROUPS):
            partition = serving.runtime.partition_of(group.encode())
            ends[partition] += 3
            answer = submitted.answers[place]
            assert answer[ANSWER_SEQUENCE] == place
            assert answer[ANSWER_LOG_PARTITION] == partition
            assert answer[ANSWER_LAST_OFFSET] == ends[partition] - 1


@pytest.mark.parametrize(("groups", "request_ids"), [(1, 512), (2, 512), (1, 1), (512, 1)])
async def test_commits_that_get_no_runs_are_not_looked_at_again_and_again(
    groups: int, request_ids: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving_node(flushing=False, partitions=1) as serving:
        commit_runs, looked_at = serving.node.commit_runs, []
        submit_together = commit_runs._submit_together

        def counted(runs: Int64s, read: ReadCommits, answers: Int64s) -> tuple[int, int]:
            looked_at.append(int((runs[:, RUN_END] - runs[:, RUN_FIRST]).sum()))
            return submit_together(runs, read, answers)

        monkeypatch.setattr(commit_runs, "_submit_together", counted)
        requests = [commit_request(f"g{number % groups}", number) for number in range(512)]
        for number, each in enumerate(requests):
            each.request_id = str(number % request_ids)
        message = stream_message(requests)
        for _ in range(2):  # The second time they are all known.
            list(by_runs(serving, message, COMMITS_AT_ONCE))
        assert 512 <= sum(looked_at) < 16 * 512


@pytest.mark.parametrize("sequence", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_result_alone_is_as_protobuf_writes_it(sequence: int) -> None:
    reply = CommitReply(2**40)
    expected = StreamCommitsResponse()
    expected.results.add(sequence=sequence).committed.CopyFrom(committed(0, reply))
    encoded = ResultEncoder().encode_one(sequence, 0, reply)
    assert encoded.response == expected.SerializeToString()
