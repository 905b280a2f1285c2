"""The server's own topics at a start: of older folders, of damaged ones, and after a long time."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import structlog
from offsetd_coordinator.administration.audit import AuditEvent, AuditLog
from offsetd_coordinator.administration.internal_topics import InternalTopics, internal_topic_specs
from offsetd_coordinator.configuration.config_record import (
    ConfigKey,
    encode_config_key,
    encode_config_value,
)
from offsetd_coordinator.configuration.config_state import ConfigState, UpdateConfig
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
    CONFIG_TOPIC,
)
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.configuration.settings_sources import load_settings
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log_store import LogStore, LogStoreConfig
from offsetd_storage.recovery.quarantine import Damage

if TYPE_CHECKING:
    from offsetd_storage.topic_partition import TopicPartition

FOLDER = Path("/data")
WINDOW_MS = 60_000
CONFIGS = Settings().configs


def opened(files: SimulatedFiles, clock: ManualClock, *, is_older: bool = False) -> LogStore:
    """The folder, by this server or by one that did not have the topics yet."""
    return LogStore.open(
        files,
        FOLDER,
        LogStoreConfig(
            partitions=1,
            journal_file_bytes=1 << 20,
            other_topics=() if is_older else internal_topic_specs(CONFIGS),
        ),
        clock=clock,
        random=Random(1),
    )


def loaded(store: LogStore, clock: ManualClock) -> InternalTopics:
    return InternalTopics.load(
        store, CONFIGS, request_id_window_ms=WINDOW_MS, now_ms=clock.now_ms()
    )


def append(store: LogStore, topic_partition: TopicPartition, batch: bytes, count: int = 1) -> None:
    """The next batch of a log."""
    last_offset = store.logs[topic_partition].offset_next + count - 1
    store.append(topic_partition, batch, last_offset=last_offset, max_timestamp_ms=0)
    store.flush()


def set_threads(store: LogStore, clock: ManualClock, text: str) -> None:
    """As an operator's change is stored."""
    shard = ConfigState(CONFIGS, request_id_window_ms=WINDOW_MS)
    log = store.logs[CONFIG_PARTITION]
    shard.end_load(offset_next=log.offset_next, leader_epoch=log.leader_epoch)
    decision = shard.decide(
        UpdateConfig(topic=None, changes={"log.cleaner.threads": text}), clock.now_ms()
    )
    assert decision.batch is not None
    append(store, CONFIG_PARTITION, decision.batch)


def test_a_folder_of_an_older_server_gets_the_topics_also_after_a_crash() -> None:
    for ends in (LogStore.close, LogStore.abandon):
        clock = ManualClock()
        files = SimulatedFiles(clock=clock)
        ends(opened(files, clock, is_older=True))
        store = opened(files, clock)
        assert loaded(store, clock).shard.applied.configs.cleaner.threads == 1
        set_threads(store, clock, "2")
        ends(store)
        ends(opened(files, clock, is_older=True))  # Who goes back keeps what is there.
        store = opened(files, clock)
        assert loaded(store, clock).shard.applied.configs.cleaner.threads == 2
        store.close()


def test_settings_with_a_request_id_are_not_cleaned_within_its_window() -> None:
    configs = load_settings(assignments=["request.id.window.ms=5000"]).configs
    lags_ms = {spec.topic: spec.log.compaction_lag_ms_min for spec in internal_topic_specs(configs)}
    assert lags_ms[CONFIG_TOPIC] > 5000


def test_a_damaged_log_of_settings_keeps_nobody_from_starting() -> None:
    clock = ManualClock()
    store = opened(SimulatedFiles(clock=clock), clock)
    for topic_partition in (CONFIG_PARTITION, AUDIT_PARTITION):
        store.logs.pop(topic_partition)
        store.quarantined[topic_partition] = Damage(
            topic_partition=topic_partition, segment_base_offset=None, position=0, reason="rot"
        )
    own = loaded(store, clock)
    assert own.shard.texts == {}
    assert own.audit.offset_next == 0
    assert own.doubt is not None
    assert "their log is damaged: __offsetd_config-0: rot" in own.doubt


def test_what_is_not_used_is_warned_about() -> None:
    clock = ManualClock()
    store = opened(SimulatedFiles(clock=clock), clock)
    records = [
        (encode_config_key(ConfigKey(None, "log.of.a.newer.version")), encode_config_value("7")),
        (b"\0\7", b""),
        (b"", b""),
    ]
    batch = encode_batch(
        [
            Record(key=key, value=value, offset=place, timestamp_ms=0)
            for place, (key, value) in enumerate(records)
        ],
        base_offset=0,
    )
    append(store, CONFIG_PARTITION, batch, count=3)
    with structlog.testing.capture_logs() as lines:
        loaded(store, clock)
    assert [(line["log_level"], line["event"]) for line in lines] == [
        ("warning", "a setting is stored, but not used"),
        ("warning", "records of settings cannot be read"),
        ("error", "not all settings can be read: nothing expires, is cleaned or is deleted"),
    ]
    assert lines[2]["reason"] == "2 of the settings' records cannot be read"
    assert "--accept-default-settings" in lines[2]["remedy"]
    assert lines[0]["setting"] == "log.of.a.newer.version"
    assert (lines[1]["unknown"], lines[1]["undecodable"]) == (1, 1)
    store.close()


def test_of_the_audit_log_only_what_a_retry_may_ask_for_is_read() -> None:
    clock = ManualClock()
    store = opened(SimulatedFiles(clock=clock), clock)
    audit = AuditLog(request_id_window_ms=WINDOW_MS)
    for request_id in ("old", "new"):
        clock.advance(WINDOW_MS + 1)
        event = AuditEvent(
            time_ms=clock.now_ms(), method="M", topic=None, what={}, request_id=request_id
        )
        batch = audit.batch(event)
        audit.replay(batch)
        store.append(
            AUDIT_PARTITION,
            batch,
            last_offset=audit.offset_next - 1,
            max_timestamp_ms=event.time_ms,
        )
    store.flush()
    own = loaded(store, clock)
    assert own.audit.offset_next == 2
    assert own.audit.find("M", "new", clock.now_ms()) is not None
    assert ("M", "old") not in own.audit._known
    clock.advance(10 * WINDOW_MS)
    assert loaded(store, clock).audit.offset_next == 2
    store.close()
