"""The background task that expires offsets and groups without holding up the event loop.

A check reads the shards one by one, a slice at a time. It finds a slice, records it in the audit
log and writes it without interruption. The next slice follows once this one is durable and the task
has paused, so that calls get their turn.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

from offsetd_coordinator.background.expiry_audit import expired_event, suspended_event
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_coordinator.errors import CoordinatorError, LogPartitionQuarantined
from offsetd_coordinator.expiry.expiry_guard import (
    TIME_IN_DOUBT,
    ExpiryGuard,
    Held,
    Hold,
    grace_at_start_ms,
)
from offsetd_coordinator.expiry.uptime_marker import (
    UptimeMarker,
    newest_record_ms,
    read_marker,
    recorded_ms,
    write_marker,
)
from offsetd_coordinator.requests import ExpireOffsets
from offsetd_coordinator.runtime.commit_log import until_durable

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_storage.clock import SteadyClock
    from offsetd_storage.disk.files import Files
    from offsetd_storage.log_store import LogStore

    from offsetd_coordinator.administration.administration import Administration
    from offsetd_coordinator.configuration.dynamic_settings import ExpiryConfig
    from offsetd_coordinator.counters import ExpiryCounters
    from offsetd_coordinator.expiry.expiry_sweep import ShardSweep, WarnedGroup
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.shard.shard import Shard

_log = structlog.get_logger(__name__)

_LOOK_MS_MAX: Final = 10_000
"""The longest time until a jump of the wall clock is noticed."""
_LAST_UP_INTERVAL_MS: Final = 60_000
_REST_SHARE: Final = 6.0
"""The pause after each slice, as a multiple of the time that the slice and its flush took.

Commits wait while a slice and its flush are running."""
_WARNED_MAX: Final = 65_536
"""The number of warned groups that are remembered. Above it, warnings may be repeated."""
_WARNING_LINES_MAX: Final = 20
"""The number of warnings that one check logs; further ones are only counted."""


def grace_of_folder_ms(
    store: LogStore, files: Files, folder: Path, *, now_ms: int, grace_ms: int
) -> int:
    """The time in milliseconds during which nothing may expire after this start.

    Call it before anything is written to the folder. Blocks. Raises OSError.
    """
    return grace_at_start_ms(
        now_ms=now_ms,
        newest_record_ms=newest_record_ms(store),
        last_up=read_marker(files, folder),
        grace_ms=grace_ms,
    )


def begin_where_left(clock: SteadyClock, store: LogStore, files: Files, folder: Path) -> None:
    """If the clock is earlier than the time of the folder's last server, continues that time.

    Blocks. Raises OSError.
    """
    time_ms = recorded_ms(newest_record_ms(store), read_marker(files, folder))
    if time_ms is not None:
        clock.begin_at(time_ms)


class Expirer:
    """The expirer of one node. For the event loop's thread."""

    def __init__(
        self,
        runtime: Runtime,
        administration: Administration,
        counters: ExpiryCounters,
        *,
        grace_left_ms: int,
        files: Files,
        folder: Path,
        clock: SteadyClock,
    ) -> None:
        self._runtime = runtime
        self._administration = administration
        self._counters = counters
        self._files = files
        self._folder = folder
        self.clock = clock
        started_ms = clock.monotonic_ms()
        # The guard starts with the server's time. If the wall clock is earlier, somebody set the
        # wall clock, and the first check reports it.
        self._guard = ExpiryGuard(
            now_ms=clock.now_ms(), monotonic_ms=started_ms, grace_left_ms=grace_left_ms
        )
        self._checked_ms = started_ms
        self._noted_up_ms: int | None = None
        self._warned: dict[bytes, None] = {}  # The groups that the previous check warned of.
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task. The first check runs after one interval."""
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends a running check between two slices, and notes that the server was up until now."""
        if self._running is None:
            return
        self._running.cancel()
        await asyncio.wait([self._running])
        self._running = None
        await self._note_up()

    async def _run(self) -> None:
        while True:
            try:
                look_ms = await self.look()
            except Exception:  # noqa: BLE001  Commits go on.
                self._counters.failures += 1
                _log.exception("a defect in expiry: it continues with the next check")
                look_ms = _LOOK_MS_MAX
            await asyncio.sleep(look_ms / 1000)

    async def look(self) -> int:
        """Checks the clocks, and all groups if it is time. Returns the ms until the next call."""
        self._observe()
        self._note_held(self.held())
        now_ms = self.clock.monotonic_ms()
        if self._noted_up_ms is None or now_ms - self._noted_up_ms >= _LAST_UP_INTERVAL_MS:
            await self._note_up()
        if now_ms >= self._checked_ms + self._config.check_interval_ms:
            self._checked_ms = now_ms
            await self._check()
        due_ms = self._checked_ms + self._config.check_interval_ms
        return max(min(due_ms - self.clock.monotonic_ms(), _LOOK_MS_MAX), 1)

    @property
    def _config(self) -> ExpiryConfig:
        return self._runtime.expiry_config  # In force now: it may change between two uses.

    # Reasons that suspend expiry -------------------------------------------------------------

    def held(self) -> Held | None:
        """The reason that holds expiry back now, if there is one."""
        config = self._config
        if self._administration.settings_doubt is not None:
            return Held(hold=Hold.SETTINGS_UNREADABLE)
        if self._runtime.log.damage(AUDIT_PARTITION) is not None:
            return Held(hold=Hold.AUDIT_DAMAGED)
        hold = config.hold(self._runtime.log.is_from_elsewhere)
        if hold is not None:
            return Held(hold=hold)
        return self._guard.held(
            monotonic_ms=self.clock.monotonic_ms(),
            grace_ms=config.grace_ms,
            is_disk_low=self._low_since_ms is not None,
        )

    @property
    def _low_since_ms(self) -> int | None:
        """The wall-clock time since which commits are refused because the disk is low, or None."""
        upkeep = self._runtime.upkeep
        return None if upkeep is None else upkeep.disk.status.low_since_ms

    def clock_offset_ms(self) -> int:
        """The milliseconds by which the wall clock is ahead of the server's time now."""
        return self.clock.wall_ms() - self.clock.now_ms()

    def _note_held(self, held: Held | None) -> None:
        counters = self._counters
        before = counters.held
        if held is not None and (before is None or before.hold is not held.hold):
            _log.warning("nothing expires", reason=held.hold.value, remaining_ms=held.remaining_ms)
        elif held is None and before is not None:
            _log.info("offsets expire again", after=before.hold.value)
        counters.held = held
        counters.held_until_ms = None if held is None else held.end_ms(self.clock.now_ms())

    def _observe(self) -> bool:
        """Checks the clocks, and handles a jump of the wall clock. Returns False if it jumped."""
        period_ms = self._config.check_interval_ms
        monotonic_ms = self.clock.monotonic_ms()
        if self._low_since_ms is not None:
            self._guard.note_disk_low(monotonic_ms=monotonic_ms, period_ms=period_ms)
        self._counters.clock_offset_ms = self.clock_offset_ms()
        jump_ms = self._guard.observe(
            now_ms=self.clock.wall_ms(), monotonic_ms=monotonic_ms, period_ms=period_ms
        )
        self._hold_retention(monotonic_ms)
        if jump_ms is None:
            return True
        self._counters.clock_jumps += 1
        held = self.held()
        _log.error(
            "the wall clock was set: nothing expires for a while, and the server's time follows"
            " slowly",
            jump_ms=jump_ms,
            clock_offset_ms=self._counters.clock_offset_ms,
        )
        self._note_held(held)
        try:
            self._administration.note_events([suspended_event(jump_ms, held, self.clock.now_ms())])
        except CoordinatorError as error:
            _log.warning("the audit log could not record a jump of the clock", error=str(error))
        return False

    def _hold_retention(self, monotonic_ms: int) -> None:
        """Stops retention by age, too, while the time is in doubt."""
        held = self._guard.held(monotonic_ms=monotonic_ms, grace_ms=self._config.grace_ms)
        upkeep = self._runtime.upkeep
        if upkeep is None or held is None or held.hold not in TIME_IN_DOUBT:
            return
        check_ms = upkeep.config.retention.check_interval_ms
        upkeep.retention.hold_age(max(held.remaining_ms or 0, check_ms))

    async def _note_up(self) -> None:
        """Notes durably that the server is up, so the next start knows how long it was stopped."""
        now_ms = self.clock.now_ms()
        self._noted_up_ms = self.clock.monotonic_ms()
        left_ms = self._guard.grace_left_ms(
            monotonic_ms=self._noted_up_ms, grace_ms=self._config.grace_ms
        )
        try:
            await asyncio.to_thread(
                write_marker,
                self._files,
                self._folder,
                UptimeMarker(up_ms=now_ms, grace_until_ms=now_ms + left_ms),
            )
        except OSError as error:
            # The next start assumes a longer stop, which only holds back more.
            _log.warning("it is not noted that the server is up", error=str(error))

    # A check ---------------------------------------------------------------------------------

    async def _check(self) -> None:
        if self.held() is not None:
            return
        begun_ms = self.clock.monotonic_ms()
        warnings = _Warnings(self._warned)
        expired_before = self._counters.expired_offsets, self._counters.expired_groups
        try:
            for partition, shard in sorted(self._runtime.shards.items()):
                if not await self._sweep(partition, shard, warnings):
                    return
        except CoordinatorError as error:
            self._counters.failures += 1
            _log.warning("offsets expire no further until the next check", error=str(error))
            return
        finally:
            self._log_expired(*expired_before)
        self._warned = warnings.noted
        warnings.log_rest()
        self._counters.warned_groups = warnings.count
        self._counters.last_check_ms = self.clock.now_ms()
        self._counters.check_seconds = (self.clock.monotonic_ms() - begun_ms) / 1000

    async def _sweep(self, partition: int, shard: Shard, warnings: _Warnings) -> bool:
        """Sweeps one shard. Returns False if expiry was suspended or a setting changed.

        Raises CoordinatorError.
        """
        config = self._config
        sweep = shard.expiry_rules(config.terms, self._runtime.moment()).sweep()
        while not sweep.is_done:
            await shard.holds.until_ended()
            if not self._observe() or self.held() is not None or self._config != config:
                return False
            if not self._serves(partition, shard):
                return True  # The other partitions continue.
            begun_seconds = time.perf_counter()
            try:
                ticket = self._take_slice(partition, sweep, warnings)
            except LogPartitionQuarantined:
                if self._runtime.serves(partition):
                    raise  # The audit log failed: without a record nothing expires.
                return True
            if ticket is not None:
                await until_durable(self._runtime.log, ticket)
            took_seconds = time.perf_counter() - begun_seconds
            await asyncio.sleep(took_seconds * _REST_SHARE)
        return True

    def _serves(self, partition: int, shard: Shard) -> bool:
        runtime = self._runtime
        return runtime.shards.get(partition) is shard and runtime.serves(partition)

    def _take_slice(self, partition: int, sweep: ShardSweep, warnings: _Warnings) -> int | None:
        """Finds, records and writes a slice. Returns the ticket if there was anything to write.

        Nothing may run between these steps: the offsets are expired as of now. While commits are
        refused because the disk is low, only offsets that had expired before that are taken.
        """
        now_ms = self.clock.age_now_ms()
        low_since_ms = self._low_since_ms
        found = sweep.next_slice(now_ms if low_since_ms is None else min(low_since_ms, now_ms))
        for each in found.warned:
            warnings.note(each)
        if not found.ends.size:
            return None
        audit_ms = self.clock.now_ms()
        self._administration.note_events([expired_event(each, audit_ms) for each in found.expired])
        gone = tuple(each.group_id for each in found.expired if each.is_gone)
        ticket = self._runtime.expire(
            partition, ExpireOffsets(keys=found.keys, ends=found.ends, gone=gone)
        )
        self._counters.expired_offsets += sum(each.offset_count for each in found.expired)
        self._counters.expired_groups += len(gone)
        return ticket

    def _log_expired(self, offsets_before: int, groups_before: int) -> None:
        offsets = self._counters.expired_offsets - offsets_before
        groups = self._counters.expired_groups - groups_before
        if offsets or groups:
            _log.info("offsets have expired", offsets=offsets, groups=groups)


class _Warnings:
    """Groups whose offsets expire soon: they are counted, and logged the first time."""

    def __init__(self, before: dict[bytes, None]) -> None:
        self.count = 0
        self.noted: dict[bytes, None] = {}
        self._before = before
        self._new = 0

    def note(self, warned: WarnedGroup) -> None:
        self.count += 1
        if len(self.noted) < _WARNED_MAX:
            self.noted[warned.group_id] = None
        if warned.group_id in self._before:
            return
        self._new += 1
        if self._new <= _WARNING_LINES_MAX:
            _log.warning(
                "offsets of a group expire soon: it does not commit",
                group=warned.group_id.decode(errors="replace"),
                offsets=warned.offset_count,
                first_ms=warned.first_ms,
            )

    def log_rest(self) -> None:
        if self._new > _WARNING_LINES_MAX:
            _log.warning(
                "offsets of more groups expire soon", groups=self._new - _WARNING_LINES_MAX
            )
