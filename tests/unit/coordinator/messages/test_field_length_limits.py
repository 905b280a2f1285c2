"""Limits of requests: the kernels that read requests and the validation hold the same."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from offsetd.v1 import offset_service_pb2, types_pb2
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import InvalidField
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.fetch_parser import checked_selections
from offsetd_coordinator.wire.commit_reader import CommitReader
from offsetd_coordinator.wire.group_selections import SelectionReader

pytestmark = pytest.mark.kernel

ANY_METADATA = 1 << 20  # The setting allows more than Kafka's schema.
BATCH_BYTES_MAX = 1 << 20


class Limit(NamedTuple):
    """A field at its limit, and one step beyond it."""

    field: str
    longest: str
    too_long: str


COMMIT_LIMITS = (
    Limit("group_id", "x" * 32_767, "x" * 32_768),
    Limit("group_id", "é" * 16_383, "é" * 16_384),
    Limit("request_id", "x" * 64, "x" * 65),
    Limit("request_id", "é" * 32, "é" * 33),
    Limit("offsets[0].topic", "x" * 249, "x" * 250),
    Limit("offsets[0].topic", "日" * 249, "日" * 250),
    Limit("offsets[0].topic", "🚀" * 124, "🚀" * 125),
    Limit("offsets[0].metadata", "x" * 32_767, "x" * 32_768),
    Limit("offsets[0].metadata", "日" * 10_922, "日" * 10_923),
)
FETCH_LIMITS = (
    Limit("groups[0].group_id", "x" * 32_767, "x" * 32_768),
    Limit("groups[0].group_id", "é" * 16_383, "é" * 16_384),
    Limit("groups[0].partitions[0].topic", "x" * 249, "x" * 250),
    Limit("groups[0].partitions[0].topic", "日" * 249, "日" * 250),
    Limit("groups[0].partitions[0].topic", "🚀" * 124, "🚀" * 125),
)


def commit_of(field: str, text: str) -> offset_service_pb2.CommitOffsetsRequest:
    """A commit that is valid, but for this field."""
    texts = {"group_id": "g", "request_id": "", "topic": "t", "metadata": ""}
    texts[field.rpartition(".")[2]] = text
    return offset_service_pb2.CommitOffsetsRequest(
        group_id=texts["group_id"],
        request_id=texts["request_id"],
        offsets=[
            offset_service_pb2.OffsetCommit(
                topic=texts["topic"], offset=1, metadata=texts["metadata"]
            )
        ],
    )


def fetch_of(field: str, text: str) -> offset_service_pb2.FetchOffsetsRequest:
    """A fetch that is valid, but for this field."""
    fields = {"group_id": "g", "topic": "t"} | {field.rpartition(".")[2]: text}
    partition = types_pb2.TopicPartition(topic=fields["topic"])
    return offset_service_pb2.FetchOffsetsRequest(
        groups=[{"group_id": fields["group_id"], "partitions": [partition]}]
    )


def refused_by_commit(request: offset_service_pb2.CommitOffsetsRequest) -> str | None:
    """The field that the validation refuses; None: it takes the commit."""
    try:
        validation.commit_offsets(
            request, metadata_units_max=ANY_METADATA, message_bytes_max=BATCH_BYTES_MAX
        )
    except InvalidField as refusal:
        return refusal.field
    return None


async def refused_by_fetch(request: offset_service_pb2.FetchOffsetsRequest) -> str | None:
    """The same for a fetch."""
    try:
        await checked_selections(request, Turns())
    except InvalidField as refusal:
        return refusal.field
    return None


@pytest.mark.parametrize("limit", COMMIT_LIMITS, ids=lambda limit: limit.field)
def test_a_commits_field_has_the_same_limit_for_the_kernel_and_the_validation(
    limit: Limit,
) -> None:
    reader = CommitReader(metadata_units_max=ANY_METADATA, offsets_max=10)
    longest, too_long = (
        commit_of(limit.field, limit.longest),
        commit_of(limit.field, limit.too_long),
    )
    assert reader.read_commit(longest.SerializeToString()) is not None
    assert refused_by_commit(longest) is None
    assert reader.read_commit(too_long.SerializeToString()) is None
    assert refused_by_commit(too_long) == limit.field


@pytest.mark.parametrize("limit", FETCH_LIMITS, ids=lambda limit: limit.field)
async def test_a_fetchs_field_has_the_same_limit_for_the_kernel_and_the_validation(
    limit: Limit,
) -> None:
    reader = SelectionReader()
    longest, too_long = fetch_of(limit.field, limit.longest), fetch_of(limit.field, limit.too_long)
    assert reader.read(longest.SerializeToString()) is not None
    assert await refused_by_fetch(longest) is None
    assert reader.read(too_long.SerializeToString()) is None
    assert await refused_by_fetch(too_long) == limit.field
