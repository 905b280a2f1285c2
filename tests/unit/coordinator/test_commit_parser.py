"""What a stream's message may hold."""

import pytest
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.errors import InvalidRequest
from offsetd_coordinator.service.commit_parser import COMMITS_PER_MESSAGE_MAX, CommitParser


@pytest.mark.parametrize("plain", [True, False])
def test_a_message_with_too_many_commits_is_refused(plain: bool) -> None:
    sequenced = offset_service_pb2.SequencedCommit(sequence=1)
    message = offset_service_pb2.StreamCommitsRequest(
        commits=[sequenced] * COMMITS_PER_MESSAGE_MAX
    ).SerializeToString()
    more = sequenced.SerializeToString()
    one = b"\x0a" + bytes([len(more)]) + more
    # A field that the contract does not know is left to protobuf.
    unknown = b"" if plain else b"\x10\x01"
    parser = CommitParser(metadata_units_max=100)
    assert len(parser.parse_stream(message + unknown)) == COMMITS_PER_MESSAGE_MAX
    with pytest.raises(InvalidRequest, match=f"at most {COMMITS_PER_MESSAGE_MAX}"):
        parser.parse_stream(message + one + unknown)
