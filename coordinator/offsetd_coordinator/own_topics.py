"""The topics of the server's own beside `__consumer_offsets`, each of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_storage.store_config import TopicSpec
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_storage.topic_configs import TopicConfigs

CONFIG_TOPIC: Final = "__offsetd_config"
"""Settings that were changed while the server ran."""

AUDIT_TOPIC: Final = "__offsetd_audit"
"""Who changed what, and why."""

CONFIG_PARTITION: Final = TopicPartition(CONFIG_TOPIC, 0)
AUDIT_PARTITION: Final = TopicPartition(AUDIT_TOPIC, 0)

_SEGMENT_BYTES: Final = 16 << 20

BROUGHT: Final[Mapping[str, Mapping[str, str]]] = {
    CONFIG_TOPIC: {"cleanup.policy": "compact", "segment.bytes": str(_SEGMENT_BYTES)},
    AUDIT_TOPIC: {
        "cleanup.policy": "delete",
        "retention.ms": str(90 * 86_400_000),
        "retention.bytes": "-1",
        "segment.bytes": str(_SEGMENT_BYTES),
    },
}
"""What these topics bring, by setting: it goes before what is set for the whole server."""


def own_topic_specs(configs: TopicConfigs) -> tuple[TopicSpec, ...]:
    """The topics as a store is told of them."""
    return tuple(
        TopicSpec(topic=topic, partitions=1, log=configs.log_config(topic)) for topic in BROUGHT
    )
