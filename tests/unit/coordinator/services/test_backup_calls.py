"""StreamBackup on a node: what it sends, what it refuses, and what it leaves behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import backup_service_pb2 as pb
from offsetd_coordinator.background.backup_source import BackupSource
from offsetd_coordinator.errors import CoordinatorNotAvailable, InvalidRequest, PolicyViolation
from offsetd_coordinator.messages.backup_messages import chunk_of, head_of, joined
from offsetd_coordinator.services.backup_calls import BackupService
from offsetd_storage.backups.backup_errors import BackupDamaged
from offsetd_storage.backups.chunk_reading import Chunk
from offsetd_storage.backups.manifest import CHUNK_BYTES, LogEntry, Manifest, SegmentEntry
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.topic_partition import TopicPartition
from serving_nodes import WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

LOG = TopicPartition(OFFSETS_TOPIC, 0)


def with_source(serving: ServingNode, bytes_per_second_max: int = 0) -> BackupService:
    serving.node.backup_source = BackupSource(
        serving.store, clock=serving.time, bytes_per_second_max=bytes_per_second_max
    )
    return BackupService(serving.node)


def asked(service: BackupService, **fields: Any) -> AsyncIterator[bytes]:
    return service.stream_backup(pb.StreamBackupRequest(**fields).SerializeToString())


async def received(answers: AsyncIterator[bytes]) -> list[pb.StreamBackupResponse]:
    async with asyncio.timeout(WAIT_SECONDS):
        return [pb.StreamBackupResponse.FromString(each) async for each in answers]


async def test_the_head_comes_first_and_what_the_caller_has_is_left_out() -> None:
    async with serving_node() as serving:
        await serving.commit("billing", 1)
        service = with_source(serving)
        head, *chunks = await received(asked(service))
        told = head_of(head.head)
        assert told.folder_id == serving.store.folder_id
        assert not told.missing_partitions
        assert sum(each.size_bytes for each in told.logs) == sum(
            len(each.chunk.content) for each in chunks
        )
        digests = [each.chunk.digest for each in chunks]
        _, *again = await received(asked(service, held_digests=b"".join(digests)))
        assert [chunk_of(each.chunk) for each in again] == [
            (digest.hex(), None, 0) for digest in digests
        ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"held_digests": b"short"}, "a digest has 32 bytes"),
        ({"bytes_per_second_max": 65_535}, "it is below 65536"),
        ({"bytes_per_second_max": -1}, "it is below 65536"),
    ],
)
async def test_a_wrong_request_is_refused(fields: dict[str, Any], told: str) -> None:
    async with serving_node() as serving:
        with pytest.raises(InvalidRequest, match=told):
            await received(asked(with_source(serving), **fields))


async def test_a_quarantined_log_refuses_backups() -> None:
    async with serving_node() as serving:
        serving.store.quarantined[LOG] = DamageFound("a bad batch").of(LOG)
        with pytest.raises(PolicyViolation, match="is quarantined: repair it first"):
            await received(asked(with_source(serving)))


async def test_a_call_that_ends_early_leaves_room_for_the_next_one() -> None:
    async with serving_node() as serving:
        await serving.commit("billing", 1)
        service = with_source(serving)
        answers = asked(service)
        await anext(answers)
        with pytest.raises(PolicyViolation, match="is making a backup already"):
            await received(asked(service))
        await answers.aclose()  # type: ignore[attr-defined]
        assert await received(asked(service))


async def test_a_call_that_is_cancelled_while_it_pins_leaves_room_too() -> None:
    async with serving_node() as serving:
        service = with_source(serving)
        for _ in range(20):
            call = asyncio.ensure_future(received(asked(service)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
        assert await received(asked(service))


async def test_a_server_that_stops_does_not_wait_for_a_slow_backup() -> None:
    async with serving_node() as serving:
        await serving.commit("billing", 1, partitions=9)
        answers = asked(with_source(serving, bytes_per_second_max=1))  # An hour for each chunk.
        await anext(answers)
        await anext(answers)
        waiting = asyncio.ensure_future(anext(answers))
        serving.node.drain()
        with pytest.raises(CoordinatorNotAvailable):
            await asyncio.wait_for(waiting, WAIT_SECONDS)


def part(
    moment_ms: int, *logs: tuple[str, int, int], folder_id: str = "c"
) -> tuple[Manifest, Iterator[Chunk]]:
    """What a node sends: logs by topic and partition, each with so many bytes."""
    entries = tuple(
        LogEntry(
            topic_partition=TopicPartition(topic, partition),
            start_offset=0,
            end_offset=moment_ms,
            exact_from=0,
            segments=(SegmentEntry(base_offset=0, size_bytes=size),),
        )
        for topic, partition, size in logs
    )
    head = Manifest(
        moment_ms=moment_ms, folder_id=folder_id, offsets_partitions=3, logs=entries,
        is_from_elsewhere=False,
    )  # fmt: skip
    chunks = [
        Chunk(f"{moment_ms} {each.topic_partition} {place}", None)
        for each in entries
        for place in range(each.segments[0].chunk_count)
    ]
    return head, iter(chunks)


def test_the_parts_of_nodes_are_one_backup_of_the_earliest_moment() -> None:
    one = part(200, (OFFSETS_TOPIC, 2, 1), ("own", 0, CHUNK_BYTES + 1))
    other = part(100, (OFFSETS_TOPIC, 0, 1), ("own", 0, 7 * CHUNK_BYTES), (OFFSETS_TOPIC, 1, 1))
    head, chunks = joined([one, other])
    assert head.moment_ms == 100  # The offsets of a restored folder follow from it.
    assert [str(each.topic_partition) for each in head.logs] == [
        "__consumer_offsets-2",
        "own-0",
        "__consumer_offsets-0",
        "__consumer_offsets-1",
    ]
    assert [each.digest for each in chunks] == [
        "200 __consumer_offsets-2 0",
        "200 own-0 0",
        "200 own-0 1",
        "100 __consumer_offsets-0 0",
        "100 __consumer_offsets-1 0",
    ]
    assert not head.missing_partitions
    assert joined([part(1, (OFFSETS_TOPIC, 0, 1))])[0].missing_partitions == [1, 2]


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BackupDamaged, match="not of one cluster"):
        joined([part(1), part(1, folder_id="d")])
    head, chunks = part(1, (OFFSETS_TOPIC, 0, 2 * CHUNK_BYTES))
    one = next(chunks)
    with pytest.raises(BackupDamaged, match="fewer chunks"):
        list(joined([(head, iter([one]))])[1])
    with pytest.raises(BackupDamaged, match="more chunks"):
        list(joined([(head, iter([one] * 3))])[1])
