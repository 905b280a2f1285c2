"""The log described, compacted, tried again and cut through the service."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from offsetd.v1 import admin_service_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    AUDIT_TOPIC,
    CONFIG_PARTITION,
    CONFIG_TOPIC,
)
from offsetd_coordinator.services.log_admin import LogAdmin
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import StorageFailed
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.recovery.quarantine import Damage
from offsetd_storage.retention.retention_rules import FutureTimestamp
from offsetd_storage.topic_partition import TopicPartition
from serving_nodes import PARTITIONS, WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Callable

WHERE = partition_of("g", PARTITIONS)
THE_LOG = TopicPartition(OFFSETS_TOPIC, WHERE)


class Admin:
    """The service, with messages in and out; its requests are remembered by it."""

    def __init__(self, serving: ServingNode) -> None:
        self._admin = LogAdmin(serving.node)

    async def describe(self, **fields: Any) -> list[admin_service_pb2.LogPartition]:
        request = admin_service_pb2.DescribeLogRequest(**fields)
        answer = await self._admin.describe_log(request.SerializeToString())
        return list(admin_service_pb2.DescribeLogResponse.FromString(answer).partitions)

    async def compact(self, **fields: Any) -> admin_service_pb2.CompactLogResponse:
        request = admin_service_pb2.CompactLogRequest(**fields)
        answer = self._admin.compact_log(request.SerializeToString())
        return admin_service_pb2.CompactLogResponse.FromString(
            await asyncio.wait_for(answer, WAIT_SECONDS)
        )

    async def retry(self, **fields: Any) -> admin_service_pb2.RetryPartitionResponse:
        request = admin_service_pb2.RetryPartitionRequest(**fields)
        answer = self._admin.retry_partition(request.SerializeToString())
        return admin_service_pb2.RetryPartitionResponse.FromString(
            await asyncio.wait_for(answer, WAIT_SECONDS)
        )

    async def delete(self, **fields: Any) -> admin_service_pb2.DeleteRecordsResponse:
        request = admin_service_pb2.DeleteRecordsRequest(**fields)
        answer = self._admin.delete_records(request.SerializeToString())
        return admin_service_pb2.DeleteRecordsResponse.FromString(
            await asyncio.wait_for(answer, WAIT_SECONDS)
        )


def audited(serving: ServingNode) -> list[tuple[str, str, dict[str, Any]]]:
    """Method, topic and what, of each record of the audit log."""
    events = []
    for buffer, end in serving.store.logs[AUDIT_PARTITION].read_chunks(1 << 16):
        for batch in decode_batches(buffer[:end].tobytes()):
            events += [json.loads(record.value or b"") for record in batch.records]
    return [(each["method"], each["topic"], each["what"]) for each in events]


def quarantine(serving: ServingNode, topic_partition: TopicPartition) -> None:
    """From now on it is damaged."""
    serving.store.quarantined[topic_partition] = Damage(
        topic_partition=topic_partition, segment_base_offset=None, position=0, reason="rot"
    )


async def commits(serving: ServingNode, count: int) -> None:
    """Overwrites one offset, so long ago that it can be cleaned."""
    for value in range(count):
        await serving.commit("g", value)
    serving.clock.advance(1)


async def until(condition: Callable[[], object]) -> None:
    """Returns once it holds."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110  What is waited for happens in other threads.
            await asyncio.sleep(0.005)


async def test_a_log_is_described_by_partition() -> None:
    async with serving_node() as serving:
        admin = Admin(serving)
        await serving.commit("g", 1, partitions=3)
        [partition] = await admin.describe(partitions=[WHERE])
        assert (partition.log_start_offset, partition.log_end_offset) == (0, 3)
        assert partition.recovery_point == 0
        assert partition.size_bytes > 0
        assert partition.quarantine_reason == ""
        [segment] = partition.segments
        assert segment.base_offset == 0
        assert segment.size_bytes == partition.size_bytes
        assert segment.largest_time.ToMilliseconds() == serving.clock.now_ms()
        serving.store.advance_recovery_points()
        [partition] = await admin.describe(partitions=[WHERE])
        assert partition.recovery_point == 3
        assert [each.partition for each in await admin.describe()] == list(range(PARTITIONS))
        for outside in (-1, PARTITIONS):
            with pytest.raises(errors.InvalidPartition):
                await admin.describe(partitions=[0, outside])
        with pytest.raises(errors.InvalidPartition, match="1 is named twice"):
            await admin.describe(partitions=[1, 0, 1])
        with pytest.raises(errors.InvalidTopic, match="no topic 'orders'"):
            await admin.describe(topic="orders")


async def test_cleaning_is_described_where_a_log_is_compacted() -> None:
    async with serving_node(cleaning=True) as serving:
        admin = Admin(serving)
        await commits(serving, 10)
        serving.clock.advance(5000)
        [partition] = await admin.describe(partitions=[WHERE])
        cleaning = partition.cleaning
        assert cleaning.state == admin_service_pb2.CLEANING_STATE_IDLE
        assert (cleaning.first_dirty_offset, cleaning.last_stable_offset) == (0, 10)
        assert cleaning.oldest_dirty_age.ToMilliseconds() == 5001
        assert not cleaning.HasField("uncleanable")
        assert not cleaning.HasField("last_round")
        await admin.compact(partitions=[WHERE], roll_active=True)
        await until(lambda: serving.upkeep.cleaner.log_status(THE_LOG).last)
        await commits(serving, 1)
        serving.store.roll(THE_LOG)
        serving.store.settle_points()
        [partition] = await admin.describe(partitions=[WHERE])
        cleaning = partition.cleaning
        assert (cleaning.first_dirty_offset, cleaning.first_uncleanable_offset) == (10, 11)
        assert cleaning.cleanable_bytes > 0
        assert cleaning.dirty_ratio == cleaning.cleanable_bytes / (
            cleaning.cleanable_bytes + cleaning.clean_bytes
        )
        assert cleaning.last_round.records_before == 10
        assert cleaning.last_round.records_after == 1
        [audit] = await admin.describe(topic=AUDIT_TOPIC)
        assert not audit.HasField("cleaning")
        [config] = await admin.describe(topic=CONFIG_TOPIC)
        assert config.HasField("cleaning")


async def test_a_damaged_partition_is_described_as_far_as_it_can_be() -> None:
    async with serving_node() as serving:
        quarantine(serving, THE_LOG)
        [partition] = await Admin(serving).describe(partitions=[WHERE])
        assert "rot" in partition.quarantine_reason
        assert not partition.HasField("cleaning")


async def test_what_blocks_retention_is_described(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving_node() as serving:
        blocked = FutureTimestamp(
            base_offset=3,
            timestamp_ms=1_742_299_840_000,
            held_segments=2,
            held_bytes=99,
            blocked_until_ms=1_742_299_900_001,
        )
        monkeypatch.setattr(serving.upkeep.retention, "_blocked", {AUDIT_PARTITION: blocked})
        [partition] = await Admin(serving).describe(topic=AUDIT_TOPIC)
        described = partition.blocked_retention
        assert (described.base_offset, described.held_segments, described.held_bytes) == (3, 2, 99)
        assert described.timestamp.ToMilliseconds() == 1_742_299_840_000
        assert described.blocked_until_time.ToMilliseconds() == 1_742_299_900_001


async def test_partitions_are_compacted_and_what_a_pass_would_save_is_told_before() -> None:
    async with serving_node(cleaning=True) as serving:
        admin = Admin(serving)
        await commits(serving, 50)
        before = serving.store.logs[THE_LOG].size_bytes
        looked = await admin.compact(roll_active=True, validate_only=True)
        assert not looked.HasField("revision")
        assert len(serving.store.logs[THE_LOG].segments) == 1
        assert serving.store.logs[THE_LOG].size_bytes == before
        assert audited(serving) == []
        assert [each.partition for each in looked.partitions] == list(range(PARTITIONS))
        assert [each.partition for each in looked.partitions if each.HasField("round")] == [WHERE]
        done = await admin.compact(roll_active=True, reason="full")
        assert done.revision.log_offset == 0
        for partition, previewed in zip(done.partitions, looked.partitions, strict=True):
            assert partition.HasField("round") == previewed.HasField("round")
            for figure in ("bytes_before", "bytes_after", "records_before", "records_after"):
                assert getattr(partition.round, figure) == getattr(previewed.round, figure)
        assert done.partitions[WHERE].round.records_before == 50
        assert done.partitions[WHERE].round.records_after == 1
        assert serving.store.logs[THE_LOG].size_bytes < before / 10
        assert audited(serving) == [
            (
                "CompactLog",
                OFFSETS_TOPIC,
                {"partitions": list(range(PARTITIONS)), "roll_active": True},
            )
        ]
        nothing = await admin.compact(partitions=[(WHERE + 1) % PARTITIONS])
        assert not nothing.partitions[0].HasField("round")
        assert nothing.partitions[0].failure == ""


async def test_a_preview_counts_what_is_appended_and_not_flushed_yet() -> None:
    async with serving_node(flushing=False) as serving:
        for value in range(20):
            asked = asyncio.ensure_future(serving.commit("g", value))
            await asyncio.sleep(0)
            assert not asked.done()
        await until(lambda: serving.store.logs[THE_LOG].offset_next == 20)
        serving.clock.advance(1)
        looked = await Admin(serving).compact(
            partitions=[WHERE], roll_active=True, validate_only=True
        )
        assert looked.partitions[0].round.records_before == 20
        assert looked.partitions[0].round.records_after == 1
        serving.runtime.start()
        await serving.commit("g", 1)


async def test_a_compaction_goes_on_when_its_caller_has_gone_and_a_retry_joins_it() -> None:
    async with serving_node(cleaning=True) as serving:
        admin = Admin(serving)
        await commits(serving, 10)
        compact = serving.upkeep.cleaner.compact
        asked: list[object] = []

        def counted(partitions: Any, **fields: Any) -> Any:
            asked.append(partitions)
            return compact(partitions, **fields)

        serving.upkeep.cleaner.__dict__["compact"] = counted
        serving.upkeep.cleaner.states.abort_and_pause(THE_LOG)
        fields = {"partitions": [WHERE], "roll_active": True, "request_id": "once"}
        first = asyncio.ensure_future(admin.compact(**fields))
        await until(lambda: asked)
        first.cancel()
        again = asyncio.ensure_future(admin.compact(**fields))
        await asyncio.sleep(0.01)
        serving.upkeep.cleaner.states.resume(THE_LOG)
        serving.upkeep.wake()
        assert (await again).partitions[0].round.records_after == 1
        assert len(asked) == 1
        assert len(audited(serving)) == 1
        assert (await admin.compact(**fields)).partitions[0].round.records_after == 1
        assert len(asked) == 1


async def test_partitions_that_cannot_be_compacted_do_not_keep_the_others_from_it() -> None:
    async with serving_node(cleaning=True) as serving:
        await commits(serving, 10)
        damaged = TopicPartition(OFFSETS_TOPIC, (WHERE + 1) % PARTITIONS)
        serving.store.logs.pop(damaged)
        quarantine(serving, damaged)
        for validate_only in (True, False):
            done = await Admin(serving).compact(roll_active=True, validate_only=validate_only)
            failures = [each.partition for each in done.partitions if each.failure]
            assert failures == [damaged.partition]
            assert "rot" in done.partitions[damaged.partition].failure
            assert done.partitions[WHERE].round.records_after == 1


async def test_what_is_not_compacted_cannot_be_compacted() -> None:
    async with serving_node(cleaning=True) as serving:
        for validate_only in (True, False):
            with pytest.raises(errors.PolicyViolation, match="no compact"):
                await Admin(serving).compact(topic=AUDIT_TOPIC, validate_only=validate_only)
        assert audited(serving) == []


async def test_a_partition_that_failed_is_tried_again() -> None:
    async with serving_node() as serving:
        admin = Admin(serving)
        assert not (await admin.retry(partition=WHERE)).HasField("uncleanable")
        serving.upkeep.cleaner.steps.failures.fail(
            THE_LOG,
            "CorruptBatch: rot",
            is_damaged=True,
            now_ms=serving.clock.now_ms(),
            monotonic_ms=serving.clock.monotonic_ms(),
        )
        [described] = await admin.describe(partitions=[WHERE])
        failure = described.cleaning.uncleanable
        assert (failure.reason, failure.is_damaged, failure.failures_in_row) == (
            "CorruptBatch: rot",
            True,
            1,
        )
        assert failure.first_failure_time.ToMilliseconds() == serving.clock.now_ms()
        assert failure.next_retry_time.ToMilliseconds() == serving.clock.now_ms() + 1000
        looked = await admin.retry(partition=WHERE, validate_only=True)
        assert looked.uncleanable == failure
        assert not looked.HasField("revision")
        tried = await admin.retry(partition=WHERE, reason="mended")
        assert tried.uncleanable == failure
        assert tried.revision.log_offset == 0
        status = serving.upkeep.cleaner.log_status(THE_LOG)
        assert status.uncleanable is not None
        assert status.uncleanable.retry_in_ms == 0
        assert audited(serving) == [
            (
                "RetryPartition",
                OFFSETS_TOPIC,
                {"partition": WHERE, "failure": "CorruptBatch: rot"},
            )
        ]
        quarantine(serving, THE_LOG)
        with pytest.raises(errors.LogPartitionQuarantined):
            await admin.retry(partition=WHERE)


async def record_some(serving: ServingNode, count: int) -> None:
    """Events for the audit log."""
    for number in range(count):
        await serving.administration.recorded(
            AuditEvent(
                time_ms=serving.clock.now_ms(), method="M", topic=None, what={"number": number}
            )
        )


async def test_records_are_deleted_up_to_an_offset_and_to_the_end() -> None:
    files = SimulatedFiles()
    async with serving_node(files=files) as serving:
        admin = Admin(serving)
        await record_some(serving, 5)
        log = serving.store.logs[AUDIT_PARTITION]
        first_bytes = log.size_bytes
        serving.store.roll(AUDIT_PARTITION)
        await record_some(serving, 5)
        looked = await admin.delete(topic=AUDIT_TOPIC, offset=5, validate_only=True)
        assert (looked.log_start_offset, looked.deleted_bytes) == (5, first_bytes)
        assert log.log_start_offset == 0
        done = await admin.delete(topic=AUDIT_TOPIC, offset=5, reason="old")
        assert (done.log_start_offset, done.deleted_bytes) == (5, first_bytes)
        assert done.revision.log_offset == 10
        assert (log.log_start_offset, log.segments[0].base_offset) == (5, 5)
        done = await admin.delete(topic=AUDIT_TOPIC, end=True)
        assert done.log_start_offset == 11
        assert audited(serving) == [
            (
                "DeleteRecords",
                AUDIT_TOPIC,
                {"partition": 0, "offset": 11, "bytes": done.deleted_bytes},
            )
        ]
        assert log.segments[0].base_offset == 11
        below = await admin.delete(topic=AUDIT_TOPIC, offset=7)
        assert (below.log_start_offset, below.deleted_bytes) == (11, 0)
        assert not below.HasField("revision")
    async with serving_node(files=files) as serving:
        assert serving.store.logs[AUDIT_PARTITION].log_start_offset == 11


async def test_a_retry_of_a_deletion_to_the_end_deletes_no_more() -> None:
    files = SimulatedFiles()
    fields = {"topic": AUDIT_TOPIC, "end": True, "request_id": "once"}
    async with serving_node(files=files) as serving:
        await record_some(serving, 5)
        admin = Admin(serving)
        first, joined = await asyncio.gather(admin.delete(**fields), admin.delete(**fields))
        assert first == joined
        assert first.log_start_offset == 5
        await record_some(serving, 5)
        assert await admin.delete(**fields) == first
    async with serving_node(files=files) as serving:
        assert await Admin(serving).delete(**fields) == first
        assert serving.store.logs[AUDIT_PARTITION].log_start_offset == 5


async def test_a_policy_that_changes_before_the_deletion_is_what_refuses_it() -> None:
    async with serving_node() as serving:
        await record_some(serving, 1)
        retention, log = serving.upkeep.retention, serving.store.logs[AUDIT_PARTITION]
        delete_records = retention.delete_records

        def delete_too_late(topic_partition: TopicPartition, offset: int) -> int:
            log.config = attrs.evolve(log.config, cleanup_policy=frozenset())
            return delete_records(topic_partition, offset)

        retention.__dict__["delete_records"] = delete_too_late
        with pytest.raises(errors.PolicyViolation, match="no delete"):
            await Admin(serving).delete(topic=AUDIT_TOPIC, end=True)
        assert log.log_start_offset == 0


async def test_a_deletion_goes_on_when_its_caller_has_gone() -> None:
    async with serving_node(flushing=False) as serving:
        flushed = serving.store.logs[AUDIT_PARTITION]
        recorded = asyncio.ensure_future(record_some(serving, 1))
        await asyncio.sleep(0)
        asked = asyncio.ensure_future(Admin(serving).delete(topic=AUDIT_TOPIC, end=True))
        await asyncio.sleep(0.01)
        asked.cancel()
        await asyncio.sleep(0)
        assert flushed.log_start_offset == 0
        serving.runtime.start()
        await recorded
        await until(lambda: flushed.log_start_offset == 1)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"topic": OFFSETS_TOPIC, "end": True}, errors.PolicyViolation),
        ({"topic": CONFIG_TOPIC, "offset": 0}, errors.PolicyViolation),
        ({"topic": AUDIT_TOPIC, "offset": 6}, errors.OffsetOutOfRange),
        ({"topic": AUDIT_TOPIC, "offset": -1}, errors.InvalidOffset),
        ({"topic": AUDIT_TOPIC, "end": False}, errors.InvalidRequest),
        ({"topic": AUDIT_TOPIC}, errors.InvalidRequest),
        ({"topic": AUDIT_TOPIC, "end": True, "reason": "x" * 1025}, errors.InvalidRequest),
        ({"topic": AUDIT_TOPIC, "end": True, "request_id": "x" * 65}, errors.InvalidRequestId),
        ({"topic": AUDIT_TOPIC, "partition": 1, "end": True}, errors.InvalidPartition),
        ({"topic": "", "end": True}, errors.InvalidTopic),
        ({"topic": "orders", "end": True}, errors.InvalidTopic),
    ],
)
async def test_what_cannot_be_deleted_is_refused_and_nothing_is_different(
    fields: dict[str, Any], error: type[Exception]
) -> None:
    async with serving_node() as serving:
        await record_some(serving, 5)
        for validate_only in (True, False):
            with pytest.raises(error):
                await Admin(serving).delete(**fields, validate_only=validate_only)
        log = serving.store.logs[AUDIT_PARTITION]
        assert (log.log_start_offset, log.offset_next, len(log.segments)) == (0, 5, 1)
        assert serving.store.logs[CONFIG_PARTITION].offset_next == 0


async def test_where_the_audit_log_is_damaged_nothing_is_changed() -> None:
    async with serving_node(cleaning=True) as serving:
        serving.store.logs.pop(AUDIT_PARTITION)
        quarantine(serving, AUDIT_PARTITION)
        with pytest.raises(errors.LogPartitionQuarantined):
            await Admin(serving).compact()
        with pytest.raises(errors.LogPartitionQuarantined):
            await Admin(serving).delete(topic=AUDIT_TOPIC, end=True)


async def test_a_disk_that_fails_during_a_deletion_fails_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving_node() as serving:
        await record_some(serving, 5)

        def fail(*_: object) -> None:
            raise StorageFailed("no disk")

        monkeypatch.setattr(serving.upkeep.retention, "delete_records", fail)
        with pytest.raises(errors.StorageUnavailable):
            await Admin(serving).delete(topic=AUDIT_TOPIC, offset=5)
        await until(lambda: serving.failures)
        serving.store.abandon()
