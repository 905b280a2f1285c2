"""The topics of our own: what they bring, and what an operator may not do to them."""

from __future__ import annotations

import pytest
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_TOPIC, CONFIG_TOPIC
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_storage.configuration.log_config import COMPACT, DELETE, OFFSETS_TOPIC
from offsetd_storage.errors import InvalidSetting

DAY_MS = 86_400_000


def test_each_topic_brings_what_its_records_need() -> None:
    configs = Settings().configs
    assert configs.topics == {OFFSETS_TOPIC, CONFIG_TOPIC, AUDIT_TOPIC}
    assert configs.log_config(OFFSETS_TOPIC).cleanup_policy == COMPACT
    assert configs.log_config(CONFIG_TOPIC).cleanup_policy == COMPACT
    audit = configs.log_config(AUDIT_TOPIC)
    assert (audit.cleanup_policy, audit.retention_ms) == (DELETE, 90 * DAY_MS)


@pytest.mark.parametrize(
    ("topic", "changes", "message"),
    [
        (OFFSETS_TOPIC, {"cleanup.policy": "delete"}, "Old segments hold live offsets"),
        (OFFSETS_TOPIC, {"cleanup.policy": "compact,delete"}, "Old segments hold live offsets"),
        (OFFSETS_TOPIC, {"max.message.bytes": "2000"}, "needs a restart"),
        (None, {"message.max.bytes": "2000"}, "needs a restart"),
        (CONFIG_TOPIC, {"cleanup.policy": "delete"}, "Old segments hold settings"),
        (AUDIT_TOPIC, {"cleanup.policy": "compact"}, "records have no keys"),
        (None, {"listen.address": "a:1"}, "needs a restart"),
        (None, {"request.id.window.ms": "1"}, "needs a restart"),
        (OFFSETS_TOPIC, {"max.compaction.lag.ms": "60000"}, "3600000 ms is above"),
    ],
)
def test_what_the_server_cannot_do_while_it_runs_is_refused(
    topic: str | None, changes: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidSetting, match=message):
        Settings().configs.with_changes(topic, changes)


def test_policies_that_keep_every_live_offset_are_taken() -> None:
    configs = Settings().configs.with_changes(AUDIT_TOPIC, {"cleanup.policy": ""})
    configs = configs.with_changes(OFFSETS_TOPIC, {"cleanup.policy": "compact"})
    assert configs.log_config(OFFSETS_TOPIC).cleanup_policy == COMPACT
