"""Internal topics: their default settings, and the bounds of their settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC, LogConfig
from offsetd_storage.configuration.topic_configs import Floor, TopicRule
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG_TOPIC: Final = "__offsetd_config"
AUDIT_TOPIC: Final = "__offsetd_audit"
# Each topic has one partition.
CONFIG_PARTITION: Final = TopicPartition(CONFIG_TOPIC, 0)
AUDIT_PARTITION: Final = TopicPartition(AUDIT_TOPIC, 0)

_AUDIT_RETENTION_MS: Final = 90 * 86_400_000


def brought_settings(*, offsets_segment_bytes: int) -> dict[str, Mapping[str, str]]:
    """The default settings that topics define themselves, as text, by topic."""
    return {
        OFFSETS_TOPIC: {"cleanup.policy": "compact", "segment.bytes": str(offsets_segment_bytes)},
        CONFIG_TOPIC: {"cleanup.policy": "compact"},
        AUDIT_TOPIC: {"cleanup.policy": "delete", "retention.ms": str(_AUDIT_RETENTION_MS)},
    }


def topic_floors(*, request_id_window_ms: int, history_ms: int = 0) -> tuple[Floor, ...]:
    """Lower limits of topics' settings, for the offsets' topic and the settings' topic."""
    window = Floor(
        topic=CONFIG_TOPIC,
        name="min.compaction.lag.ms",
        # A record as old as the window is still in the window; a record as old as the lag is
        # cleaned.
        least=request_id_window_ms + 1,
        setting="request.id.window.ms",
        reason="More than request.id.window.ms: the records hold the request ids.",
    )
    history = Floor(
        topic=OFFSETS_TOPIC,
        name="min.compaction.lag.ms",
        least=history_ms,
        setting="history.ms",
        reason="At least history.ms: every commit must stay readable for that time.",
    )
    keeps_longest = attrs.evolve(window, topic=OFFSETS_TOPIC)
    return (history if history.least > window.least else keeps_longest, window)


def topic_rules(*, message_bytes_max: int) -> tuple[TopicRule, ...]:
    """Rules for topics' settings. Shards write batches of up to `message_bytes_max`."""

    def keeps_all_keys(log: LogConfig) -> bool:
        return not log.is_deleted

    def needs_no_keys(log: LogConfig) -> bool:
        return not log.is_compacted

    def takes_what_is_written(log: LogConfig) -> bool:
        return log.message_bytes_max == message_bytes_max

    return (
        TopicRule(
            topic=OFFSETS_TOPIC,
            name="cleanup.policy",
            is_kept=keeps_all_keys,
            reason="Old segments hold live offsets, which would be lost without expiring.",
        ),
        TopicRule(
            topic=OFFSETS_TOPIC,
            name="max.message.bytes",
            is_kept=takes_what_is_written,
            reason="It needs a restart, with offsetd serve --set max.message.bytes=N: "
            "the largest commit is one such batch.",
            needs_restart=True,
        ),
        TopicRule(
            topic=CONFIG_TOPIC,
            name="cleanup.policy",
            is_kept=keeps_all_keys,
            reason="Old segments hold settings that are in force.",
        ),
        TopicRule(
            topic=AUDIT_TOPIC,
            name="cleanup.policy",
            is_kept=needs_no_keys,
            reason="Its records have no keys.",
        ),
    )
