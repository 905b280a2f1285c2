"""What timestamps do to retention: no timestamp, one long ago, one months ahead; and the cures.

CreateTime, `log.retention.minutes=1`, a check each second, as it was seen with Kafka.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from changed_configs import with_settings
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.topic_configs import TopicConfigs
from offsetd_storage.disk.delayed_deletion import FileDeleter
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import InvalidTimestamp
from offsetd_storage.log_store import LogStore, LogStoreConfig, TopicSpec
from offsetd_storage.retention.log_retention import retain
from offsetd_storage.tasks.scheduler import LOG_RETENTION, PeriodicTask, Scheduler
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import bases, batch_of
from server_process import poll

if TYPE_CHECKING:
    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.retention.retention_rules import RetentionPlan

FOLDER = Path("/offsets")
EVENTS = TopicPartition("events", 0)
NO_TIMESTAMP = -1
LONG_AGO_MS = 1000
MONTHS_AHEAD_MS = 1_742_299_840_000
START_MS = 1_732_000_000_000
DAY_MS = 86_400_000
CONFIGS = TopicConfigs(
    static_server={"log.retention.minutes": "1", "log.retention.check.interval.ms": "1000"}
)
BATCH_BYTES = 400
AS_KAFKA = {
    "retention.age.from.roll": "false",
    "message.timestamp.after.max.ms": str(2**63 - 1),  # The default of Kafka before 4.0.
}


class Topic:
    """A log of two batches a segment in a real store, on a disk and under a clock of its own."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.clock = ManualClock(START_MS)
        self.files = SimulatedFiles(clock=self.clock)
        config = attrs.evolve(CONFIGS.log_config(EVENTS.topic), segment_bytes_max=1000)
        self._open(with_settings(config, settings))

    def _open(self, config: LogConfig) -> None:
        store_config = LogStoreConfig(
            partitions=1,
            other_topics=(TopicSpec(topic=EVENTS.topic, partitions=1, log=config),),
            journal_file_bytes=1 << 16,
            journal_header_bytes=512,
        )
        self.store = LogStore.open(
            self.files, FOLDER, store_config, clock=self.clock, random=Random(1)
        )
        self.log = self.store.logs[EVENTS]
        self.deleter = FileDeleter(self.files, self.clock)

    def append(self, *timestamps_ms: int) -> None:
        for timestamp_ms in timestamps_ms:
            sent = batch_of(0, timestamp_ms=timestamp_ms, size_bytes=BATCH_BYTES)
            self.store.produce(EVENTS, sent)
        self.store.flush()
        self.store.advance_recovery_points()

    def check(self) -> RetentionPlan:
        """What `kafka-log-retention` does."""
        self.store.roll(EVENTS, only_if_due=True)
        discard = partial(self.deleter.discard, delay_ms=self.log.config.file_delete_delay_ms)
        return retain(self.store, EVENTS, files=self.files, clock=self.clock, discard=discard)

    def restart(self) -> None:
        """The process is killed; the log comes back from its files and the journal."""
        config = self.log.config
        self.store.abandon()
        self.files = self.files.kill()
        self.files.clock = self.clock
        self._open(config)

    @property
    def records(self) -> int:
        found: int = self.log.offset_next - self.log.log_start_offset
        return found


def checks_until_empty(topic: Topic, checks_max: int) -> int | None:
    """How many checks, a second apart, the records outlive; None for all of them."""
    outlived: list[int] = []
    plans: list[RetentionPlan] = []

    def check() -> None:
        plans.append(topic.check())
        if topic.records:
            outlived.append(len(plans))

    task = PeriodicTask(
        name=LOG_RETENTION,
        interval_ms=CONFIGS.retention.check_interval_ms,
        initial_delay_ms=CONFIGS.retention.check_interval_ms,
        run=check,
    )
    scheduler = Scheduler([task], threads=1, clock=topic.clock)
    scheduler.start()
    try:
        for checks in range(1, checks_max + 1):
            topic.clock.advance(CONFIGS.retention.check_interval_ms)
            scheduler.wake()
            poll(lambda: scheduler.statuses[0].runs == checks, 60)  # noqa: B023
            assert scheduler.statuses[0].failures == 0, scheduler.statuses[0].last_error
    finally:
        scheduler.stop()
    return None if len(outlived) == checks_max else len(outlived)


@pytest.mark.parametrize(
    ("timestamps_ms", "settings", "outlived"),
    [
        # Without timestamps the files' times count: deleted when they are more than a minute old.
        ([NO_TIMESTAMP] * 5, {}, 60),
        ([NO_TIMESTAMP] * 5, AS_KAFKA, 60),
        # Long ago: deleted at the first check, the active segment too.
        ([LONG_AGO_MS] * 5, {}, 0),
        ([LONG_AGO_MS] * 5, AS_KAFKA, 0),
        ([START_MS] * 5, AS_KAFKA, 60),
        # Months ahead: never; nor are the good ones behind it.
        ([MONTHS_AHEAD_MS] * 5, AS_KAFKA, None),
        ([MONTHS_AHEAD_MS] + [START_MS] * 5, AS_KAFKA, None),
        ([MONTHS_AHEAD_MS] + [LONG_AGO_MS] * 5, AS_KAFKA, None),
        # The cure: the time of the append, whatever the writer says.
        ([MONTHS_AHEAD_MS] * 5, AS_KAFKA | {"message.timestamp.type": "LogAppendTime"}, 60),
        ([LONG_AGO_MS] * 5, {"message.timestamp.type": "LogAppendTime"}, 60),
        # And ours: a segment is no younger than its roll, and ages from its last write before that.
        # The active one is rolled by the clock, after 10 s.
        (
            [MONTHS_AHEAD_MS] * 5,
            AS_KAFKA | {"retention.age.from.roll": "true", "segment.ms": "10000"},
            60,
        ),
        (
            [MONTHS_AHEAD_MS] + [START_MS] * 5,
            AS_KAFKA | {"retention.age.from.roll": "true", "segment.ms": "10000"},
            60,
        ),
    ],
)
def test_records_outlive_so_many_checks(
    timestamps_ms: list[int], settings: dict[str, str], outlived: int | None
) -> None:
    topic = Topic(settings)
    topic.append(*timestamps_ms)
    assert checks_until_empty(topic, 90) == outlived
    logs = [name for name in topic.files.list_folder(topic.log.folder) if name.endswith(".log")]
    assert len(logs) == len(bases(topic.log)) == (3 if outlived is None else 1)


def test_one_timestamp_ahead_holds_back_all_that_follows_until_the_clock_has_passed_it() -> None:
    topic = Topic(AS_KAFKA)
    topic.append(MONTHS_AHEAD_MS)
    for _ in range(20):
        topic.clock.advance(DAY_MS)
        topic.append(*[topic.clock.now_ms()] * 4)
        plan = topic.check()
        assert not plan.deletions
    assert plan.blocked is not None
    assert (plan.blocked.base_offset, plan.blocked.timestamp_ms) == (0, MONTHS_AHEAD_MS)
    assert plan.blocked.held_segments == len(bases(topic.log)) - 3  # The last day's.
    topic.clock.advance(MONTHS_AHEAD_MS + 60_000 - topic.clock.now_ms())
    assert not topic.check().deletions
    topic.clock.advance(1)
    assert topic.check().blocked is None
    assert topic.records == 0


def test_timestamps_so_far_ahead_are_refused_unless_that_is_switched_off() -> None:
    topic = Topic({})
    with pytest.raises(InvalidTimestamp, match=r"message\.timestamp\.after\.max\.ms"):
        topic.append(MONTHS_AHEAD_MS)
    assert topic.records == 0


@pytest.mark.parametrize("restarts_after_ms", [0, 30_000, 59_000])
def test_how_long_ago_a_segment_was_written_is_known_after_a_restart(
    restarts_after_ms: int,
) -> None:
    topic = Topic(AS_KAFKA | {"retention.age.from.roll": "true"})
    topic.append(*[MONTHS_AHEAD_MS] * 4)
    topic.clock.advance(restarts_after_ms)
    topic.restart()
    topic.clock.advance(60_000 - restarts_after_ms)
    assert not topic.check().deletions
    topic.clock.advance(1)
    assert len(topic.check().deletions) == 1  # The other one is active.


def test_a_warning_goes_when_what_blocked_is_gone() -> None:
    topic = Topic(AS_KAFKA | {"retention.age.from.roll": "true"})
    topic.append(*[MONTHS_AHEAD_MS] * 2, *[LONG_AGO_MS] * 3)
    blocked = []
    for _ in range(3):
        plan = topic.check()
        blocked.append(plan.blocked is not None)
        topic.clock.advance(30_001)
    assert blocked == [True, True, False]
    assert topic.records == 0


def test_a_changed_policy_counts_from_the_next_check_on() -> None:
    topic = Topic({"cleanup.policy": "compact"})
    topic.append(*[LONG_AGO_MS] * 3)
    assert not topic.check().deletions
    topic.log.config = with_settings(topic.log.config, {"cleanup.policy": "compact,delete"})
    assert len(topic.check().deletions) == 2
