"""Commits read by the kernel against protobuf and the validation, which have the last word."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from damaged_messages import damaged
from hypothesis import example, given
from hypothesis import strategies as st
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.kernels.columns import TOPIC_START
from offsetd_coordinator.kernels.wire import commit_fields as kernels
from offsetd_coordinator.messages import validation
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE, CommitReader, ReadCommits

if TYPE_CHECKING:
    from offsetd_coordinator.requests import CommitOffsets

pytestmark = pytest.mark.kernel

METADATA_UNITS_MAX = 20
OFFSETS_MAX = 5000
LARGEST = 2**63 - 1

OffsetCommit = offset_service_pb2.OffsetCommit
CommitOffsetsRequest = offset_service_pb2.CommitOffsetsRequest
StreamCommitsRequest = offset_service_pb2.StreamCommitsRequest


def reader() -> CommitReader:
    return CommitReader(metadata_units_max=METADATA_UNITS_MAX, offsets_max=OFFSETS_MAX)


class ReadCommit(NamedTuple):
    """One commit of a stream's message; `commit` is None if it is not plain."""

    sequence: int
    commit: CommitOffsets | None
    encoded: bytes


def read_stream(message: bytes, by: CommitReader | None = None) -> list[ReadCommit] | None:
    """The commits of a stream's message, or None if what is around them is not plain."""
    stream_reader = by or reader()
    count, names = stream_reader.count_stream(message)
    if names is None:
        return None
    position = 0
    found: list[ReadCommit] = []
    while position < len(message):
        read = stream_reader.read_stream(message, names, position, COMMITS_AT_ONCE)
        found += commits_of(read)
        position = read.position_next
    assert len(found) == count
    return found


def commits_of(read: ReadCommits) -> list[ReadCommit]:
    if len(read.commits) == 1:
        sequence, commit = read.alone
        if isinstance(commit, bytes):
            return [ReadCommit(sequence, None, commit)]
    return [
        ReadCommit(
            row[kernels.SEQUENCE] & (2**64 - 1),
            read.commit(place),
            read.message[row[kernels.MESSAGE_START] :][: row[kernels.MESSAGE_SIZE]],
        )
        for place, row in enumerate(read.commits.tolist())
    ]


def comparable(commit: CommitOffsets) -> tuple[Any, ...]:
    """A commit's content, wherever its names lie."""
    rows = []
    for row in commit.columns.tolist():
        topic_start, topic_size, partition, offset, epoch, start, size, *rest = row
        topic = commit.names[topic_start : topic_start + topic_size].tobytes()
        metadata = commit.names[start : start + size].tobytes()
        rows.append((topic, partition, offset, epoch, metadata, *rest))
    names = commit.names.tobytes()
    group_end = commit.group_start + len(commit.group_id)
    request_id_end = commit.request_id_start + len(commit.request_id)
    assert names[commit.group_start : group_end] == commit.group_id
    assert names[commit.request_id_start : request_id_end] == commit.request_id
    return commit.group_id, commit.request_id, commit.reports_end_offsets, rows


def by_protobuf(message: bytes) -> CommitOffsets | None:
    """The commit as the slow road has it; None if that refuses."""
    try:
        request = validation.parse(CommitOffsetsRequest, message)
        return validation.commit_offsets(
            request, metadata_units_max=METADATA_UNITS_MAX, message_bytes_max=1 << 30
        )
    except CoordinatorError:
        return None


def assert_no_contradiction(message: bytes) -> None:
    """What the kernel reads, protobuf reads the same; what protobuf refuses, it does not read."""
    read = reader().read_commit(message)
    if read is not None:
        slow = by_protobuf(message)
        assert slow is not None
        assert comparable(read) == comparable(slow)


def offset(topic: str = "orders", partition: int = 0, **more: Any) -> OffsetCommit:
    return OffsetCommit(topic=topic, partition=partition, **more)


def request(*offsets: OffsetCommit, group_id: str = "g", request_id: str = "") -> bytes:
    return CommitOffsetsRequest(
        group_id=group_id, offsets=offsets, request_id=request_id
    ).SerializeToString()


PLAIN = {
    "one partition": request(offset(offset=1)),
    "every field": request(
        offset(
            "größe 🚀", 2**31 - 1, offset=LARGEST, leader_epoch=2**31 - 1, metadata="m" * 20,
            expected_offset=LARGEST, monotonic=True, end_offset=LARGEST,
        ),
        group_id="группа",
        request_id="r" * 64,
    ),
    "zeros that are there": request(
        offset(offset=0, leader_epoch=0, end_offset=0, expected_revision=0)
    ),
    "must not exist": request(offset(must_not_exist=True)),
    "fifty partitions": request(*(offset("orders", index, offset=index) for index in range(50))),
    "the same partition of other topics": request(offset("a"), offset("b"), offset("ab")),
    "the longest names": request(offset("t" * 249), group_id="g" * 32_767),
    "a topic of 249 UTF-16 units": request(offset("🚀" * 124 + "é")),
    "two thousand partitions": request(*(offset("t", index) for index in range(2000))),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_what_clients_send_is_plain_and_read_as_protobuf_reads_it(name: str) -> None:
    read, slow = reader().read_commit(PLAIN[name]), by_protobuf(PLAIN[name])
    assert read is not None
    assert slow is not None
    assert comparable(read) == comparable(slow)


INVALID = {
    "nothing": b"",
    "no group": request(offset(), group_id=""),
    "no offsets": request(),
    "no topic": request(offset("")),
    "a group too long": request(offset(), group_id="g" * 32_768),
    "a topic too long": request(offset("t" * 250)),
    "a topic too long in UTF-16": request(offset("🚀" * 125)),
    "a request id too long": request(offset(), request_id="r" * 65),
    "metadata too long": request(offset(metadata="m" * 21)),
    "metadata too long in UTF-16": request(offset(metadata="🚀" * 11)),
    "a negative partition": request(offset(partition=-1)),
    "a negative offset": request(offset(offset=-1)),
    "a negative leader epoch": request(offset(leader_epoch=-1)),
    "a negative end offset": request(offset(end_offset=-1)),
    "a negative expected offset": request(offset(expected_offset=-1)),
    "a negative expected revision": request(offset(expected_revision=-1)),
    "must not exist, false": request(offset(must_not_exist=False)),
    "a partition twice": request(offset(), offset("other"), offset()),
    "a partition twice among many": request(
        *(offset("t", index) for index in range(300)), offset("t", 17)
    ),
    "the second offset wrong": request(offset(), offset("other", offset=-1)),
    "a group that is not UTF-8": request(offset()).replace(b"\x0a\x01g", b"\x0a\x01\xff"),
    "a topic that is not UTF-8": request(offset("orders")).replace(b"orders", b"order\xff"),
    "cut short": request(offset(offset=300))[:-1],
}


@pytest.mark.parametrize("name", INVALID)
def test_kernel_leaves_invalid_commits_to_protobuf(name: str) -> None:
    assert by_protobuf(INVALID[name]) is None
    assert reader().read_commit(INVALID[name]) is None


ODD = {
    "an unknown field": request(offset()) + b"\x20\x01",
    "an unknown field in an offset": request() + b"\x0a\x01g\x12\x05\x0a\x01t\x58\x01",
    "a field key of two bytes": b"\x8a\x00\x01g" + request(offset(), group_id=""),
    "a group": b"\x0b\x0c" + request(offset()),
    "a group id twice": b"\x0a\x01h" + request(offset()),
    "a partition beyond int32": b"\x0a\x01g\x12\x09\x0a\x01t\x10\x85\x80\x80\x80\x10",
    "a varint of more than 64 bits": (b"\x0a\x01g\x12\x0e\x0a\x01t\x18" + b"\xff" * 9 + b"\x02"),
    "a bool that is 2": b"\x0a\x01g\x12\x05\x0a\x01t\x48\x02",
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_but_valid_is_left_to_protobuf(name: str) -> None:
    assert by_protobuf(ODD[name]) is not None
    assert reader().read_commit(ODD[name]) is None


texts = st.text(max_size=12) | st.sampled_from(["orders", "t" * 249, "t" * 250, "🚀" * 11])
numbers = st.sampled_from([-(2**63), -1, 0, 1, 127, 128, 2**31 - 1, LARGEST]) | st.integers(0, 1000)
int32s = st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1])
offset_commits = st.builds(
    OffsetCommit,
    topic=texts,
    partition=int32s,
    offset=numbers,
    leader_epoch=st.none() | int32s,
    metadata=texts,
    monotonic=st.booleans(),
    end_offset=st.none() | numbers,
) | st.builds(
    OffsetCommit,
    topic=texts,
    expected_offset=st.none() | numbers,
    expected_revision=st.none() | numbers,
    must_not_exist=st.none() | st.booleans(),
)
requests = st.builds(
    CommitOffsetsRequest,
    group_id=texts,
    offsets=st.lists(offset_commits, max_size=4),
    request_id=texts,
)


@pytest.mark.slow
@given(requests)
def test_the_kernel_reads_a_message_exactly_if_the_validation_takes_it(
    message: CommitOffsetsRequest,
) -> None:
    encoded = message.SerializeToString()
    read, slow = reader().read_commit(encoded), by_protobuf(encoded)
    assert (read is None) == (slow is None)
    assert_no_contradiction(encoded)


@given(damaged(requests))
def test_the_kernel_never_contradicts_protobuf_on_damaged_messages(encoded: bytes) -> None:
    assert_no_contradiction(encoded)


@given(st.binary(max_size=60))
@example(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
@example(b"\x12\xff\xff\xff\xff\x0f")
def test_the_kernel_never_contradicts_protobuf_on_any_bytes(message: bytes) -> None:
    assert_no_contradiction(message)
    read = read_stream(message)
    if read is not None:
        assert len(read) == len(StreamCommitsRequest.FromString(message).commits)


sequences = st.integers(0, 2**64 - 1)


@given(st.lists(st.tuples(sequences, requests), max_size=5))
def test_a_stream_is_split_into_its_commits(
    commits: list[tuple[int, CommitOffsetsRequest]],
) -> None:
    message = StreamCommitsRequest(
        commits=[
            offset_service_pb2.SequencedCommit(sequence=sequence, commit=commit)
            for sequence, commit in commits
        ]
    ).SerializeToString()
    read = read_stream(message)
    assert read is not None
    assert [each.sequence for each in read] == [sequence for sequence, _ in commits]
    for each, (_, commit) in zip(read, commits, strict=True):
        encoded = commit.SerializeToString()
        assert each.encoded == encoded
        slow = by_protobuf(encoded)
        assert (each.commit is None) == (slow is None)
        if each.commit is not None and slow is not None:
            assert comparable(each.commit) == comparable(slow)


def test_a_message_with_more_commits_and_partitions_than_ever_is_read_whole() -> None:
    many = reader()
    commit = CommitOffsetsRequest(
        group_id="g", offsets=[offset("t", partition) for partition in range(7)]
    )
    sequenced = [
        offset_service_pb2.SequencedCommit(sequence=number, commit=commit) for number in range(500)
    ]
    read = read_stream(StreamCommitsRequest(commits=sequenced).SerializeToString(), many)
    assert read is not None
    assert [each.sequence for each in read] == list(range(500))
    assert all(each.commit is not None and len(each.commit.columns) == 7 for each in read)


@pytest.mark.parametrize(
    "message",
    [
        b"\x0a\x02\x08\x01",  # no commit
        b"\x0a\x04\x12\x00\x12\x00",  # two
        b"\x10\x01",
        b"\x0a\x05\x08",
        b"\x0a\x06\x08\x01\x12\x00\x18\x01",
    ],
)
def test_a_stream_message_that_is_odd_around_its_commits_is_left_to_protobuf(
    message: bytes,
) -> None:
    assert read_stream(message) is None


@pytest.mark.parametrize("partitions", [OFFSETS_MAX, OFFSETS_MAX + 1])
def test_room_that_was_made_for_a_large_commit_is_not_kept(partitions: int) -> None:
    grown = reader()
    before = grown.reserved_bytes
    offsets = (offset("t", partition) for partition in range(partitions))
    read = grown.read_commit(request(*offsets))
    assert (read is None) == (partitions > OFFSETS_MAX)
    assert grown.reserved_bytes == before


def test_a_stream_is_read_a_few_commits_at_a_time() -> None:
    shared = reader()
    commit = CommitOffsetsRequest(group_id="g", offsets=[offset("t", each) for each in range(100)])
    message = StreamCommitsRequest(
        commits=[offset_service_pb2.SequencedCommit(commit=commit)] * 1000
    ).SerializeToString()
    _, names = shared.count_stream(message)
    assert names is not None
    position = 0
    for commits_max in itertools.cycle([COMMITS_AT_ONCE, 1, 7]):
        read = shared.read_stream(message, names, position, commits_max)
        assert 1 <= len(read.commits) <= commits_max
        position = read.position_next
        if position == len(message):
            break
    assert shared.reserved_bytes < 1_000_000


def test_a_commit_stays_as_it_is_when_the_next_one_is_read() -> None:
    shared = reader()
    first = shared.read_commit(PLAIN["every field"])
    assert first is not None
    before = comparable(first)
    assert first.columns[0, TOPIC_START] > 0
    shared.read_commit(PLAIN["fifty partitions"])
    assert comparable(first) == before
