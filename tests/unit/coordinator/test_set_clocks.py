"""A machine's clock that is wrong, or is set: nothing is lost by it, on a whole node."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from offsetd.v1 import admin_service_pb2
from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.configuration.config_state import UpdateConfig
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.expiry.expiry_guard import Hold
from offsetd_coordinator.expiry.uptime_marker import UptimeMarker, recorded_ms
from offsetd_coordinator.requests import DeleteOffsets
from offsetd_coordinator.services.server_admin import AdminService
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.tasks.scheduler import LOG_RETENTION
from serving_nodes import WAIT_SECONDS, ServingNode, serving_node
from set_clocks import SetClock

if TYPE_CHECKING:
    from offsetd_coordinator.requests import Reply

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
YEAR_MS = 365 * DAY_MS
CHECK_MS = 10 * MINUTE_MS
RETENTION_MS = 7 * DAY_MS


async def look(node: ServingNode, passed_ms: int = 0) -> None:
    """Lets time pass; the clocks are looked at, and all groups if it is time."""
    node.clock.advance(passed_ms)
    await asyncio.wait_for(node.expirer.look(), WAIT_SECONDS)


async def commit_time_ms(node: ServingNode, group_id: str) -> int | None:
    """When the group's one offset was committed; None: it is gone."""
    [group] = await node.fetch(group_id)
    times = [each.commit_time.ToMilliseconds() for each in group.offsets]
    return times[0] if times else None


def audited(node: ServingNode) -> list[dict[str, Any]]:
    node.store.flush()
    log = node.store.logs[AUDIT_PARTITION]
    return [
        json.loads(record.value or b"")
        for buffer, end in log.read_chunks(1 << 20)
        for batch in decode_batches(buffer[:end].tobytes())
        for record in batch.records
    ]


async def told_by(node: ServingNode) -> admin_service_pb2.GetServerInfoResponse:
    answer = await AdminService(node.node).get_server_info(b"")
    return admin_service_pb2.GetServerInfoResponse.FromString(answer)


async def test_a_clock_that_jumps_a_year_ahead_expires_nothing_that_is_not_old() -> None:
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        await node.commit("idle", 1)
        committed_ms = clock.now_ms()
        clock.set_by(YEAR_MS)
        await look(node)
        assert node.expiry.held is not None
        assert node.expiry.held.hold is Hold.CLOCK_JUMP
        for _ in range(2 * 24):  # Two days: more than `expiry.grace.ms`, too.
            await look(node, HOUR_MS)
        assert await commit_time_ms(node, "idle") == committed_ms
        assert node.expiry.expired_offsets == 0
        # What is written meanwhile has a time not far from the true one.
        await node.commit("alive", 1)
        assert (await commit_time_ms(node, "alive") or 0) - committed_ms <= 3 * DAY_MS
        clock.set_by(-YEAR_MS)
        for _ in range(2 * 24):
            await look(node, HOUR_MS)
        assert await commit_time_ms(node, "idle") == committed_ms
        for _ in range(5 * 24):
            await look(node, HOUR_MS)
        assert await commit_time_ms(node, "idle") is None, "it is old by now"


async def test_what_is_committed_while_the_clock_is_back_is_not_older_than_what_was_before() -> (
    None
):
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        await node.commit("before", 1)
        await look(node)
        clock.set_by(-YEAR_MS)
        await node.commit("back", 1)
        before_ms, back_ms = [await commit_time_ms(node, each) for each in ("before", "back")]
        assert before_ms is not None
        assert before_ms <= (back_ms or 0)
        files = node.files
    async with serving_node(files=files, clock=clock) as node:
        await node.commit("restarted", 1)
        restarted_ms = await commit_time_ms(node, "restarted")
        assert before_ms <= (back_ms or 0) <= (restarted_ms or 0)
        await look(node)
        assert node.expiry.clock_jumps == 1, "it is behind what is recorded"
        assert [each["method"] for each in audited(node)] == ["SuspendExpiry"]
        files = node.files
    clock.set_by(YEAR_MS)
    async with serving_node(files=files, clock=clock) as node:
        for _ in range(3 * 24):
            await look(node, HOUR_MS)
        for group_id in ("before", "back", "restarted"):
            assert await commit_time_ms(node, group_id) is not None
        assert node.expiry.expired_offsets == 0


async def test_a_start_with_a_clock_that_was_ahead_for_a_while_costs_nothing() -> None:
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        await node.commit("g", 1)
        await look(node)
        files = node.files
    clock.set_by(YEAR_MS)  # As a machine that boots without a battery may have it, ...
    async with serving_node(files=files, clock=clock) as node:
        await look(node, MINUTE_MS)
        clock.set_by(-YEAR_MS)  # ... until NTP sets it right.
        for _ in range(3 * 24):
            await look(node, HOUR_MS)
        assert await commit_time_ms(node, "g") is not None
        files = node.files
    async with serving_node(files=files, clock=clock) as node:
        for _ in range(3 * 24):
            await look(node, HOUR_MS)
        assert await commit_time_ms(node, "g") is not None


def deleted_at(node: ServingNode, request_id: bytes) -> Reply | Exception:
    request = DeleteOffsets(group_id=b"g", topics=(b"orders",), request_id=request_id)
    return node.runtime.submit(request)[1]


@pytest.mark.parametrize("set_ms", [2 * MINUTE_MS, YEAR_MS, -YEAR_MS])
async def test_a_retry_is_known_as_one_whatever_the_clock_was_set_to_meanwhile(
    set_ms: int,
) -> None:
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        await node.commit("g", 1)
        first = deleted_at(node, b"once")
        clock.set_by(set_ms)
        clock.advance(300)
        await node.commit("g", 2)
        assert deleted_at(node, b"once") == first
        [group] = await node.fetch("g")
        assert [each.offset for each in group.offsets] == [2], "the retry deleted nothing"
        clock.advance(20_000)
        assert deleted_at(node, b"once") == first


async def test_a_retried_change_of_settings_is_known_as_one_when_the_clock_was_set() -> None:
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        request = UpdateConfig(topic=None, changes={"log.cleaner.threads": "2"}, request_id=b"once")
        event = AuditEvent(
            time_ms=clock.now_ms(), method="UpdateConfig", topic=None, what={}, request_id="once"
        )
        first = await node.administration.update_config(request, event)
        clock.set_by(2 * MINUTE_MS)
        clock.advance(300)
        again = await node.administration.update_config(request, event)
        assert again._replace(batch=first.batch) == first
        assert again.batch is None, "nothing more is written"
        assert len(audited(node)) == 1


async def test_the_audit_log_keeps_all_when_the_clock_jumps() -> None:
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        for number in range(10):
            node.administration.note_events(
                [AuditEvent(time_ms=clock.now_ms(), method=f"M{number}", topic=None, what={})]
            )
            node.store.flush()
            node.store.roll(AUDIT_PARTITION)
        node.store.settle_points()
        clock.set_by(YEAR_MS)
        for _ in range(24):
            await look(node, HOUR_MS)
            node.upkeep.retention.check(AUDIT_PARTITION)
        assert len([each for each in audited(node) if each["method"].startswith("M")]) == 10
        assert node.upkeep.tasks, LOG_RETENTION


async def test_retention_by_age_is_held_while_the_time_is_in_doubt() -> None:
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        log = node.store.logs[AUDIT_PARTITION]
        log.config = attrs.evolve(log.config, retention_ms=HOUR_MS)
        node.administration.note_events(
            [AuditEvent(time_ms=clock.now_ms(), method="M", topic=None, what={})]
        )
        node.store.flush()
        node.store.roll(AUDIT_PARTITION)
        node.store.settle_points()
        await look(node, 2 * HOUR_MS)
        clock.set_by(YEAR_MS)
        await look(node, 10_000)
        node.upkeep.retention.check(AUDIT_PARTITION)
        assert "M" in [each["method"] for each in audited(node)]
        await look(node, HOUR_MS)
        node.upkeep.retention.check(AUDIT_PARTITION)
        assert "M" not in [each["method"] for each in audited(node)]


async def test_a_file_that_was_written_while_the_clock_was_back_is_not_old_for_retention() -> None:
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        await look(node)
        clock.set_by(-YEAR_MS)
        clock.advance(1000)
        node.administration.note_events(
            [AuditEvent(time_ms=node.time.now_ms(), method="M", topic=None, what={})]
        )
        node.store.flush()
        node.store.roll(AUDIT_PARTITION)
        node.store.settle_points()
        clock.set_by(YEAR_MS)
        for _ in range(3):
            await look(node, HOUR_MS)
            node.upkeep.retention.check(AUDIT_PARTITION)
        assert "M" in [each["method"] for each in audited(node)]


async def test_a_set_clock_is_told_until_the_two_agree() -> None:
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        await look(node)
        assert not (await told_by(node)).HasField("clock_offset")
        clock.set_by(2 * HOUR_MS)
        await look(node, 1000)
        told = await told_by(node)
        assert told.expiry_suspension.reason == "clock_jump"
        assert 2 * HOUR_MS - 1000 <= told.clock_offset.ToMilliseconds() <= 2 * HOUR_MS
        assert node.expiry.clock_offset_ms == told.clock_offset.ToMilliseconds()
        for _ in range(5):
            await look(node, HOUR_MS)
        assert not (await told_by(node)).HasField("clock_offset")
        assert node.expiry.clock_offset_ms == 0


@pytest.mark.parametrize(
    ("newest_ms", "up_ms", "expected_ms"),
    [
        (None, None, None),
        (YEAR_MS, None, None),  # Nobody knows whose clock stamped it.
        (None, YEAR_MS, YEAR_MS),
        (YEAR_MS - 1, YEAR_MS, YEAR_MS),
        (YEAR_MS + MINUTE_MS, YEAR_MS, YEAR_MS + MINUTE_MS),
        (YEAR_MS + DAY_MS, YEAR_MS, YEAR_MS + DAY_MS),
        (YEAR_MS + DAY_MS + 1, YEAR_MS, YEAR_MS),
    ],
)
def test_the_time_that_a_folder_had_got_to(
    newest_ms: int | None, up_ms: int | None, expected_ms: int | None
) -> None:
    last_up = None if up_ms is None else UptimeMarker(up_ms=up_ms, grace_until_ms=0)
    assert recorded_ms(newest_ms, last_up) == expected_ms
