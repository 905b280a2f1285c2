"""What a stream's message may hold, and how much of it is read at once."""

from collections.abc import Iterator

import pytest
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.errors import InvalidCommitSize, InvalidField, InvalidRequest
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.commit_parser import (
    COMMITS_PER_MESSAGE_MAX,
    CommitParser,
    StreamMessage,
)
from offsetd_coordinator.requests import CommitOffsets
from offsetd_coordinator.wire.commit_reader import COMMITS_AT_ONCE, ReadCommits

MESSAGE_BYTES_MAX = 10_000

OffsetCommit = offset_service_pb2.OffsetCommit
CommitOffsetsRequest = offset_service_pb2.CommitOffsetsRequest
SequencedCommit = offset_service_pb2.SequencedCommit
# A field that the contract does not know is left to protobuf.
UNKNOWN_FIELD = b"\x10\x01"


def parser() -> CommitParser:
    return CommitParser(metadata_units_max=100, message_bytes_max=MESSAGE_BYTES_MAX)


def commit(group_id: str = "g", offsets: int = 1) -> CommitOffsetsRequest:
    return CommitOffsetsRequest(
        group_id=group_id,
        offsets=[OffsetCommit(topic="t", partition=number) for number in range(offsets)],
    )


def stream_message(*commits: CommitOffsetsRequest) -> bytes:
    return offset_service_pb2.StreamCommitsRequest(
        commits=[
            SequencedCommit(sequence=sequence, commit=each) for sequence, each in enumerate(commits)
        ]
    ).SerializeToString()


def outcomes(message: StreamMessage) -> Iterator[tuple[int, CommitOffsets | InvalidField]]:
    """What is read of a message, one by one."""
    while not message.is_read:
        read = message.read(1)
        assert not isinstance(read, ReadCommits)
        yield read


@pytest.mark.slow
@pytest.mark.parametrize("commit_fields", [b"", b"\x08\x01", b"\x08\x01\x12\x00"])
@pytest.mark.parametrize("beside", [b"", UNKNOWN_FIELD])
def test_a_message_with_too_many_commits_is_refused_at_once(
    commit_fields: bytes, beside: bytes
) -> None:
    one = b"\x0a" + bytes([len(commit_fields)]) + commit_fields
    message = one * COMMITS_PER_MESSAGE_MAX + beside
    assert len(list(outcomes(parser().open_stream(message)))) == COMMITS_PER_MESSAGE_MAX
    with pytest.raises(InvalidRequest, match=f"at most {COMMITS_PER_MESSAGE_MAX}"):
        parser().open_stream(one + message)


@pytest.mark.parametrize("beside", [b"", UNKNOWN_FIELD])
def test_messages_that_are_read_in_turns_do_not_mix(beside: bytes) -> None:
    shared = parser()
    count = 3 * COMMITS_AT_ONCE + 1
    names = ["a", "b"]
    messages = [stream_message(*[commit(name, 3)] * count) + beside for name in names]
    turns = zip(*(outcomes(shared.open_stream(each)) for each in messages), strict=True)
    for expected, turn in enumerate(turns):
        for name, (sequence, read) in zip(names, turn, strict=True):
            assert sequence == expected
            assert isinstance(read, CommitOffsets)
            assert (read.group_id, len(read.columns)) == (name.encode(), 3)
    assert expected == count - 1


@pytest.mark.parametrize("beside", [b"", UNKNOWN_FIELD])
def test_a_commit_of_more_offsets_than_fit_a_batch_is_refused_for_that(beside: bytes) -> None:
    most = validation.offsets_fitting(MESSAGE_BYTES_MAX)
    assert len(parser().parse(commit(offsets=most).SerializeToString()).columns) == most
    with pytest.raises(InvalidCommitSize):
        parser().parse(commit(offsets=most + 1).SerializeToString())
    message = stream_message(commit(), commit(offsets=most + 1), commit()) + beside
    kinds = [type(outcome) for _, outcome in outcomes(parser().open_stream(message))]
    assert kinds == [CommitOffsets, InvalidCommitSize, CommitOffsets]
