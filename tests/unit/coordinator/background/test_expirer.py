"""Expiry on a whole node, by a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from offsetd.v1 import admin_service_pb2
from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.configuration import config_record
from offsetd_coordinator.configuration.config_state import UpdateConfig
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)
from offsetd_coordinator.errors import DiskFull, LogPartitionQuarantined
from offsetd_coordinator.expiry.expiry_guard import Hold
from offsetd_coordinator.expiry.uptime_marker import LAST_UP_NAME, read_marker
from offsetd_coordinator.services.server_admin import AdminService
from offsetd_storage.batch.record_batch import Record, decode_batches, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.errors import StorageFull
from offsetd_storage.recovery.quarantine import DamageFound
from serving_nodes import WAIT_SECONDS, ServingNode, serving_node
from set_clocks import SetClock

if TYPE_CHECKING:
    from offsetd_storage.disk.simulated_files import SimulatedFiles

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RETENTION_MS = 7 * DAY_MS
INTERVAL_MS = 600_000


async def look(node: ServingNode, passed_ms: int = 0) -> None:
    """Lets time pass as it does for a server that runs: clocks are looked at, checks are made."""
    node.clock.advance(passed_ms)
    await asyncio.wait_for(node.expirer.look(), WAIT_SECONDS)


async def begun_check(node: ServingNode) -> asyncio.Task[int]:
    """A look that has written a first slice, and has more to do."""
    checking = asyncio.create_task(node.expirer.look())
    async with asyncio.timeout(WAIT_SECONDS):
        while not node.expiry.expired_groups:  # noqa: ASYNC110  Of another task.
            await asyncio.sleep(0)
    return checking


async def offsets_in(node: ServingNode, group_id: str) -> int:
    [group] = await node.fetch(group_id)
    return len(group.offsets)


async def set_config(node: ServingNode, **changes: str) -> None:
    texts = {name.replace("_", "."): text for name, text in changes.items()}
    event = AuditEvent(time_ms=node.clock.now_ms(), method="UpdateConfig", topic=None, what={})
    await node.administration.update_config(UpdateConfig(topic=None, changes=texts), event)


def audited(node: ServingNode) -> list[dict[str, Any]]:
    """What the audit log says that nobody asked for."""
    node.store.flush()
    read = node.store.logs[AUDIT_PARTITION].read_chunks(1 << 20)
    chunks = [buffer[:end].tobytes() for buffer, end in read]
    batches = [batch for chunk in chunks for batch in decode_batches(chunk)]
    found = [json.loads(each.value or b"") for batch in batches for each in batch.records]
    return [each for each in found if each["method"] in ("ExpireOffsets", "SuspendExpiry")]


async def test_an_offset_goes_a_retention_after_its_commit_and_its_group_with_it() -> None:
    async with serving_node() as node:
        await node.commit("g", 1, partitions=3)
        await look(node, RETENTION_MS - 1)
        assert await offsets_in(node, "g") == 3
        await look(node, INTERVAL_MS)
        assert await offsets_in(node, "g") == 0
        assert (node.expiry.expired_offsets, node.expiry.expired_groups) == (3, 1)
        assert node.expiry.last_check_ms == node.clock.now_ms()
        [event] = audited(node)
    assert event["what"] == {
        "group": "g",
        "offset_count": 3,
        "topics": {"orders": 3},
        "group_deleted": True,
        "retention_ms": RETENTION_MS,
    }


async def test_what_has_expired_stays_so_after_a_restart() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        await look(node, RETENTION_MS)
        await node.commit("h", 1)
        files, clock = node.files, node.clock
    async with serving_node(files=files, clock=clock) as node:
        assert await offsets_in(node, "g") == 0
        assert await offsets_in(node, "h") == 1


async def test_checks_keep_their_distance() -> None:
    async with serving_node() as node:
        await look(node, INTERVAL_MS)
        checked_ms = node.expiry.last_check_ms
        await look(node, INTERVAL_MS - 1)
        assert node.expiry.last_check_ms == checked_ms
        await look(node, 1)
        assert node.expiry.last_check_ms == node.clock.now_ms()


async def test_a_retention_that_is_changed_counts_with_the_next_check() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        await set_config(node, offsets_retention_minutes="1")
        await look(node, INTERVAL_MS)
        assert await offsets_in(node, "g") == 0
        await node.commit("g", 1)
        await set_config(node, offsets_retention_minutes="-1")
        await look(node, 100 * RETENTION_MS)
        assert await offsets_in(node, "g") == 1


async def with_old_offset() -> tuple[SimulatedFiles, ManualClock]:
    """A node that stops when it has an offset that would expire a minute later."""
    async with serving_node() as node:
        await node.commit("g", 1)
        await look(node, RETENTION_MS - 60_000)
        await node.expirer._note_up()
        return node.files, node.clock


@pytest.mark.parametrize(
    ("stopped_ms", "expires_after_ms"),
    [(HOUR_MS, INTERVAL_MS), (DAY_MS, INTERVAL_MS), (DAY_MS + 1, DAY_MS), (30 * DAY_MS, DAY_MS)],
)
async def test_after_a_long_stop_nothing_expires_for_the_grace(
    stopped_ms: int, expires_after_ms: int
) -> None:
    files, clock = await with_old_offset()
    clock = ManualClock(clock.now_ms() + stopped_ms)
    async with serving_node(files=files, clock=clock) as node:
        await look(node, expires_after_ms - 1)
        assert await offsets_in(node, "g") == 1
        held = node.expiry.held
        assert (held is not None and held.hold is Hold.LONG_STOP) is (stopped_ms > DAY_MS)
        await look(node, INTERVAL_MS)
        assert await offsets_in(node, "g") == 0


async def test_a_restart_does_not_end_the_grace() -> None:
    files, clock = await with_old_offset()
    clock = ManualClock(clock.now_ms() + 30 * DAY_MS)
    async with serving_node(files=files, clock=clock) as node:
        await look(node, HOUR_MS)
        last_up = read_marker(node.files, node.expirer._folder)
        assert last_up is not None
        assert last_up.grace_until_ms == clock.now_ms() + DAY_MS - HOUR_MS
    clock = ManualClock(clock.now_ms() + 1000)
    async with serving_node(files=files, clock=clock) as node:
        await look(node, DAY_MS - HOUR_MS - 1001)
        assert await offsets_in(node, "g") == 1
        await look(node, INTERVAL_MS)
        assert await offsets_in(node, "g") == 0


async def test_a_server_that_nobody_commits_to_is_up_all_the_same() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        await look(node, RETENTION_MS - 60_000)
        files, clock = node.files, node.clock
    async with serving_node(files=files, clock=ManualClock(clock.now_ms() + 1000)) as node:
        await look(node, INTERVAL_MS)
        assert await offsets_in(node, "g") == 0


@pytest.mark.parametrize("jump_ms", [60_001, 30 * DAY_MS, -60_001])
async def test_a_clock_that_is_set_holds_expiry_for_one_check_period_and_that_is_said(
    jump_ms: int,
) -> None:
    clock = SetClock()
    async with serving_node(clock=clock) as node:
        await node.commit("g", 1)
        await look(node, RETENTION_MS + 61_000 - INTERVAL_MS)
        clock.set_by(jump_ms)
        await look(node, INTERVAL_MS)
        assert await offsets_in(node, "g") == 1
        assert node.expiry.clock_jumps == 1
        assert node.expiry.held is not None
        assert node.expiry.held.hold is Hold.CLOCK_JUMP
        assert node.expiry.held_until_ms == node.time.now_ms() + INTERVAL_MS
        [event] = audited(node)
        assert event["what"] == {"clock_jump_ms": jump_ms, "suspended_ms": INTERVAL_MS}
        await look(node, INTERVAL_MS - 1)
        assert await offsets_in(node, "g") == 1
        await look(node, 1)
        assert node.expiry.held is None
        assert await offsets_in(node, "g") == 0


async def test_a_clock_that_is_set_between_two_slices_ends_the_check() -> None:
    clock = SetClock()
    async with serving_node(clock=clock, partitions=1) as node:
        for number in range(200):
            await node.commit(f"g{number}", 1)
        clock.advance(RETENTION_MS)
        checking = await begun_check(node)
        clock.set_by(DAY_MS)
        await asyncio.wait_for(checking, WAIT_SECONDS)
        assert 0 < node.expiry.expired_groups < 200
        assert node.expiry.clock_jumps == 1
        await look(node, INTERVAL_MS)
        assert node.expiry.expired_groups == 200


@pytest.mark.parametrize(
    ("is_from_elsewhere", "enable", "expires"),
    [
        (False, "auto", True),
        (True, "auto", False),
        (True, "true", True),
        (False, "false", False),
    ],
)
async def test_in_a_folder_from_elsewhere_nothing_expires_until_that_is_allowed(
    is_from_elsewhere: bool, enable: str, expires: bool
) -> None:
    async with serving_node() as node:
        node.store.is_from_elsewhere = is_from_elsewhere
        await node.commit("g", 1)
        await set_config(node, offsets_expiry_enable=enable)
        [group] = await node.fetch("g")
        assert group.offsets[0].HasField("expire_time") is expires
        await look(node, RETENTION_MS)
        assert (await offsets_in(node, "g") == 0) is expires
        reason = None if node.expiry.held is None else node.expiry.held.hold
        assert (reason is None) is expires


async def test_a_disk_without_room_ends_a_check_and_the_next_one_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving_node() as node:
        await node.commit("g", 1)

        def refuse(*_: object, **__: object) -> None:
            raise StorageFull("no room")

        with monkeypatch.context() as full:
            full.setattr(node.log, "_append", refuse)
            await look(node, RETENTION_MS)
        assert await offsets_in(node, "g") == 1
        assert node.expiry.failures == 1
        await look(node, INTERVAL_MS)
        assert await offsets_in(node, "g") == 0


async def test_on_a_low_disk_goes_what_had_expired_before_and_nothing_for_refused_commits() -> None:
    async with serving_node() as node:
        node.runtime.disk = node.upkeep.disk
        await node.commit("dead", 1)
        node.clock.advance(INTERVAL_MS)
        await node.commit("alive", 1)
        node.clock.advance(RETENTION_MS - INTERVAL_MS)
        node.upkeep.disk.note_full(StorageFull("no room"))
        assert node.upkeep.disk.is_low
        with pytest.raises(DiskFull):
            await node.commit("alive", 2)
        await look(node, INTERVAL_MS)
        assert (await offsets_in(node, "dead"), await offsets_in(node, "alive")) == (0, 1)
        # The low disk lasts as long as the offset's retention, and is over.
        await look(node, RETENTION_MS)
        assert await offsets_in(node, "alive") == 1
        node.upkeep.disk.check()
        node.upkeep.disk.check()
        assert not node.upkeep.disk.is_low
        await look(node, INTERVAL_MS - 1)
        assert node.expiry.held is not None
        assert node.expiry.held.hold is Hold.LOW_DISK
        await node.commit("alive", 3)
        await look(node, 1)
        assert node.expiry.held is None
        assert await offsets_in(node, "alive") == 1


@pytest.mark.parametrize("change", [{"retention_minutes": -1}, {"enable": "false"}])
async def test_what_is_set_during_a_check_counts_with_the_next_slice(
    change: dict[str, Any],
) -> None:
    async with serving_node(partitions=1) as node:
        for number in range(200):
            await node.commit(f"g{number}", 1)
        node.clock.advance(RETENTION_MS)
        checking = await begun_check(node)
        node.runtime.expiry_config = attrs.evolve(node.runtime.expiry_config, **change)
        expired = node.expiry.expired_groups
        await asyncio.wait_for(checking, WAIT_SECONDS)
        assert 0 < node.expiry.expired_groups == expired < 200


async def test_what_cannot_be_recorded_does_not_expire() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        del node.store.logs[AUDIT_PARTITION]  # As where it is damaged.
        node.store.quarantined[AUDIT_PARTITION] = DamageFound("rot").of(AUDIT_PARTITION)
        await look(node, RETENTION_MS)
        assert await offsets_in(node, "g") == 1
        assert node.expiry.held is not None
        assert node.expiry.held.hold is Hold.AUDIT_DAMAGED
        answer = await AdminService(node.node).get_server_info(b"")
        told = admin_service_pb2.GetServerInfoResponse.FromString(answer)
        assert told.expiry_suspension.reason == "audit_damaged"
        [problem] = told.problems
        assert "offsetd log recreate --topic __offsetd_audit" in problem
        with pytest.raises(LogPartitionQuarantined, match="log recreate --topic __offsetd_audit"):
            node.administration.note_events(
                [
                    AuditEvent(
                        time_ms=0,
                        method="m",
                        topic=None,
                        what={},
                        reason="",
                        request_id="",
                        peer="",
                    )
                ]
            )


async def test_groups_are_counted_before_they_expire_and_logged_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with serving_node() as node:
        for number in range(30):
            await node.commit(f"g{number}", 1)
        await look(node, RETENTION_MS - DAY_MS - 1)
        assert node.expiry.warned_groups == 0
        await look(node, INTERVAL_MS)
        assert node.expiry.warned_groups == 30
        lines = [line for line in capsys.readouterr().out.splitlines() if "expire soon" in line]
        assert len(lines) == 21, "20 groups, and how many more"
        await look(node, INTERVAL_MS)
        assert node.expiry.warned_groups == 30
        assert "expire soon" not in capsys.readouterr().out


async def test_calls_are_answered_between_slices() -> None:
    async with serving_node(partitions=1) as node:
        for number in range(300):
            await node.commit(f"g{number}", 1)
        node.clock.advance(RETENTION_MS)
        checking = asyncio.create_task(node.expirer.look())
        answered = 0
        while not checking.done():
            await node.commit("other", answered)
            answered += 1
        await checking
        assert node.expiry.expired_groups == 300
        assert answered > 300 / 64
        assert await offsets_in(node, "other") == 1


async def test_it_runs_by_itself_and_notes_at_its_end_that_the_server_was_up() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        node.clock.advance(RETENTION_MS)
        node.expirer.start()
        async with asyncio.timeout(WAIT_SECONDS):
            while not node.expiry.expired_groups:  # noqa: ASYNC110  Of another task.
                await asyncio.sleep(0.005)
        node.clock.advance(1000)
        await node.expirer.stop()
        last_up = read_marker(node.files, node.expirer._folder)
        assert (last_up and last_up.up_ms) == node.clock.now_ms()


async def test_a_fetch_says_from_when_an_offset_expires_if_it_does() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        committed_ms = node.clock.now_ms()
        [group] = await node.fetch("g")
        assert group.offsets[0].expire_time.ToMilliseconds() == committed_ms + RETENTION_MS
        for change in ({"offsets_retention_minutes": "-1"}, {"offsets_expiry_enable": "false"}):
            await set_config(node, **change)
            [group] = await node.fetch("g")
            assert not group.offsets[0].HasField("expire_time")
            await set_config(node, offsets_retention_minutes="7")


async def test_a_crash_in_a_check_leaves_all_that_is_gone_in_the_audit_log() -> None:
    async with serving_node(partitions=1) as node:
        for number in range(100):
            await node.commit(f"g{number}", 1, partitions=2)
        node.clock.advance(RETENTION_MS)
        checking = await begun_check(node)
        files = node.files.power_cut()
        await asyncio.wait_for(checking, WAIT_SECONDS)
    async with serving_node(partitions=1, files=files, clock=node.clock) as node:
        counts = {f"g{n}": await offsets_in(node, f"g{n}") for n in range(100)}
        gone = {group_id for group_id, count in counts.items() if not count}
        assert set(counts.values()) <= {0, 2}, "batches are all or nothing"
        assert len(gone) < 100
        assert gone <= {event["what"]["group"] for event in audited(node)}
        await look(node, INTERVAL_MS)
        assert node.expiry.expired_groups == 100 - len(gone)


# Settings that cannot be read --------------------------------------------------------------------


def rotten(files: SimulatedFiles) -> tuple[Path, bytes, bytes]:
    """The log of settings with a wrong bit in its middle: where, and what it was and is."""
    path = Path("/data") / CONFIG_PARTITION.folder_name / f"{0:020d}.log"
    content = files.read_bytes(path)
    damaged = bytearray(content)
    damaged[len(content) // 2] ^= 1
    files.put_durable(path, bytes(damaged))
    return path, content, bytes(damaged)


async def test_while_settings_cannot_be_read_nothing_expires_and_mending_brings_them_back() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        for minutes in ("5", "-1"):
            await set_config(node, offsets_retention_minutes=minutes)
        files, clock = node.files, node.clock
    path, content, _ = rotten(files)
    async with serving_node(files=files, clock=clock) as node:
        for _ in range(3):
            await look(node, RETENTION_MS)
        assert await offsets_in(node, "g") == 1
        held = node.expirer.held()
        assert held is not None
        assert held.hold is Hold.SETTINGS_UNREADABLE
        assert held.remaining_ms is None
        assert "their log is damaged" in (node.node.settings_doubt or "")
        [group] = await node.fetch("g")
        assert not group.offsets[0].HasField("expire_time")
    files.put_durable(path, content)
    async with serving_node(files=files, clock=clock) as node:
        assert node.node.settings_doubt is None
        await look(node, 3 * RETENTION_MS)
        assert await offsets_in(node, "g") == 1, "-1 is in force again"


async def test_an_operator_may_accept_that_defaults_count() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        for minutes in ("5", "-1"):
            await set_config(node, offsets_retention_minutes=minutes)
        files, clock = node.files, node.clock
    rotten(files)
    async with serving_node(files=files, clock=clock, accepts_defaults=True) as node:
        assert node.node.settings_doubt is None
        for _ in range(2):  # A long stop is what the first looks see.
            await look(node, RETENTION_MS)
        assert await offsets_in(node, "g") == 0


async def test_a_setting_that_is_not_used_holds_expiry_until_it_is_taken_back() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        named = config_record.ConfigKey(None, "offsets.retention.minutes")
        key = config_record.encode_config_key(named)
        value = config_record.encode_config_value("some")
        record = Record(key=key, value=value, offset=0, timestamp_ms=0)
        batch = encode_batch([record], base_offset=0)
        node.store.append(CONFIG_PARTITION, batch, last_offset=0, max_timestamp_ms=0)
        files, clock = node.files, node.clock
    async with serving_node(files=files, clock=clock, cleaning=True) as node:
        assert "offsets.retention.minutes is set, and not used" in (node.node.settings_doubt or "")
        for _ in range(3):
            await look(node, RETENTION_MS)
        assert await offsets_in(node, "g") == 1
        assert node.upkeep.cleaner.status.held is not None
        event = AuditEvent(time_ms=clock.now_ms(), method="UpdateConfig", topic=None, what={})
        removal = UpdateConfig(topic=None, removals=("offsets.retention.minutes",))
        await node.administration.update_config(removal, event)
        assert node.node.settings_doubt is None
        assert node.upkeep.cleaner.status.held is None
        await look(node, RETENTION_MS)
        await look(node, RETENTION_MS)
        assert await offsets_in(node, "g") == 0


async def test_a_damaged_note_of_the_last_stop_holds_for_a_whole_grace() -> None:
    async with serving_node() as node:
        await node.commit("g", 1)
        await node.expirer.look()
        files, clock = node.files, node.clock
    files.put_durable(Path("/data") / LAST_UP_NAME, b"rot")
    async with serving_node(files=files, clock=clock) as node:
        held = node.expirer.held()
        assert held is not None
        assert (held.hold, held.remaining_ms) == (Hold.LONG_STOP, DAY_MS)
