"""The topics of a cluster: made where they are missing, and checked at each start of a node.

A topic with weaker settings than the cluster needs is refused, with the command that mends it. A
node never changes a topic that is there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import attrs

from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_TOPIC
from offsetd_coordinator.errors import CoordinatorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from offsetd_coordinator.cluster.kafka_clients import ClusterNames
    from offsetd_coordinator.configuration.server_settings import Settings

CALL_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1
_OPENED_SECONDS: Final = 3.0
_MESSAGE_BYTES_BESIDE: Final = 64 * 1024
DELETE_RETENTION_MS: Final = 86_400_000
NEW_TOPIC_PARTITIONS: Final = 12
"""The log partitions of a new cluster. Each one costs the brokers a little in each transaction."""
FILLING_LAG_MS: Final = 2**63 - 1
"""The `min.compaction.lag.ms` of an offsets topic that `offsetd cluster init` is filling."""
_FOREVER_MS: Final = -1


class UnfitTopic(CoordinatorError):
    """A topic is missing, or weaker than the cluster needs. The message has the remedy."""

    reason = "KAFKA_UNAVAILABLE"


@attrs.frozen(kw_only=True)
class TopicNeed:
    """What the cluster needs of one topic. `least` has settings that may be larger.

    With `is_count_fixed`, the topic must have this number of partitions. Without it, the number is
    only for a new topic.
    """

    name: str
    partitions: int
    is_count_fixed: bool = True
    replication_factor: int
    exact: Mapping[str, str]
    least: Mapping[str, int]

    @property
    def settings(self) -> dict[str, str]:
        """The settings with which the topic is made."""
        return {**self.exact, **{name: str(value) for name, value in self.least.items()}}


def topic_needs(settings: Settings, names: ClusterNames, partitions: int | None) -> list[TopicNeed]:
    """The topics of a cluster with these settings.

    `partitions` is the number of log partitions; None: that of the topic that is there.
    """
    kept_ms = max(settings.history_ms, settings.request_id_window_ms)
    message_bytes = settings.log.message_bytes_max + _MESSAGE_BYTES_BESIDE
    replicas = {
        "min.insync.replicas": settings.cluster_min_insync_replicas,
        "max.message.bytes": message_bytes,
    }
    create_time = {"message.timestamp.type": "CreateTime"}
    compacted = {**create_time, "cleanup.policy": "compact"}
    needs: tuple[tuple[str, int, dict[str, str], dict[str, int]], ...] = (
        (
            names.offsets_topic,
            NEW_TOPIC_PARTITIONS if partitions is None else partitions,
            {**compacted, "unclean.leader.election.enable": "false"},
            {
                "min.compaction.lag.ms": kept_ms,
                "delete.retention.ms": DELETE_RETENTION_MS,
            },
        ),
        (names.config_topic, 1, compacted, {}),
        (
            names.audit_topic,
            1,
            {**create_time, "cleanup.policy": "delete"},
            {"retention.ms": settings.configs.log_config(AUDIT_TOPIC).retention_ms},
        ),
    )
    return [
        TopicNeed(
            name=name,
            partitions=count,
            is_count_fixed=name != names.offsets_topic or partitions is not None,
            replication_factor=settings.cluster_replication_factor,
            exact=exact,
            least={**replicas, **least},
        )
        for name, count, exact, least in needs
    ]


@attrs.frozen(kw_only=True)
class FoundTopic:
    """A topic as the brokers describe it."""

    topic_id: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]

    @property
    def is_being_filled(self) -> bool:
        """Whether `offsetd cluster init` is still filling the topic."""
        return self.settings.get("min.compaction.lag.ms") == str(FILLING_LAG_MS)


def weaknesses(need: TopicNeed, found: FoundTopic) -> Iterator[str]:
    """What is weaker in the topic than needed, with the command that mends it."""
    if found.is_being_filled:
        yield (
            f"topic {need.name} is being filled by offsetd cluster init, or an init was broken off:"
            f" let it end, or run the same init again"
        )
        return
    if need.is_count_fixed and found.partitions != need.partitions:
        yield (
            f"topic {need.name} has {found.partitions} partitions, and the cluster needs"
            f" {need.partitions}: start the nodes with"
            f" --set offsets.topic.num.partitions={found.partitions}"
        )
    if found.replication_factor < need.replication_factor:
        yield (
            f"topic {need.name} has {found.replication_factor} replicas, and"
            f" cluster.replication.factor is {need.replication_factor}: add replicas with"
            f" kafka-reassign-partitions.sh, or start the nodes with"
            f" --set cluster.replication.factor={found.replication_factor}"
        )
    wrong = {name: value for name, value in need.exact.items() if found.settings.get(name) != value}
    wrong |= {
        name: str(least)
        for name, least in need.least.items()
        if name not in found.settings or _is_less(name, int(found.settings[name]), least)
    }
    for name, value in wrong.items():
        yield (
            f"topic {need.name} has {name}={found.settings.get(name)}, and the cluster needs"
            f" {value}: kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics"
            f" --entity-name {need.name} --add-config {name}={value}"
        )


def _is_less(name: str, value: int, least: int) -> bool:
    if name == "retention.ms" and _FOREVER_MS in (value, least):
        return value != _FOREVER_MS
    return value < least


class ClusterTopics:
    """Makes and checks the topics of a cluster, through an admin client. Blocks."""

    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def prepare(self, needs: list[TopicNeed]) -> dict[str, FoundTopic]:
        """Makes topics that are missing, and checks all. Raises UnfitTopic."""
        found = self.found([each.name for each in needs])
        missing = [each for each in needs if each.name not in found]
        if missing:
            if len(missing) < len(needs):
                lost = ", ".join(each.name for each in missing)
                raise UnfitTopic(
                    "topics of the cluster are missing ({lost}) while others are there: bring them"
                    " back, or delete the others too, to begin anew",
                    lost=lost,
                )
            self.make(missing)
            found = self.found_all([each.name for each in needs])
        found = self._opened(found)
        problems = [why for each in needs for why in weaknesses(each, found[each.name])]
        if problems:
            raise UnfitTopic("{problems}", problems="; ".join(problems))
        return found

    def _opened(self, found: dict[str, FoundTopic]) -> dict[str, FoundTopic]:
        """The topics once more, if a broker may not know yet that an init has ended."""
        deadline_s = time.monotonic() + _OPENED_SECONDS
        while any(each.is_being_filled for each in found.values()):
            if time.monotonic() > deadline_s:
                break
            time.sleep(_POLL_SECONDS)
            found = self.found_all(list(found))
        return found

    def found_all(self, names: list[str]) -> dict[str, FoundTopic]:
        """The topics, once every broker knows them. Raises UnfitTopic."""
        deadline_s = time.monotonic() + CALL_SECONDS
        while len(found := self.found(names)) < len(names):
            if time.monotonic() > deadline_s:
                lost = ", ".join(set(names) - found.keys())
                raise UnfitTopic(
                    "topics were made, and brokers do not know them: {lost}", lost=lost
                )
            time.sleep(_POLL_SECONDS)
        return found

    def make(self, needs: list[TopicNeed]) -> None:
        """Makes topics, unless they are there. Raises UnfitTopic."""
        from confluent_kafka import (  # noqa: PLC0415
            KafkaError,
            KafkaException,
            admin,
        )

        new_topic: Any = admin.NewTopic  # type: ignore[attr-defined]
        topics = [
            new_topic(each.name, each.partitions, each.replication_factor, config=each.settings)
            for each in needs
        ]
        for name, future in self._admin.create_topics(topics).items():
            try:
                future.result(CALL_SECONDS)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise UnfitTopic(
                        "topic {name} cannot be made: {cause}", name=name, cause=error.args[0].str()
                    ) from error

    def found(self, names: list[str]) -> dict[str, FoundTopic]:
        """The topics that exist, by name. Raises UnfitTopic."""
        from confluent_kafka import (  # noqa: PLC0415
            KafkaError,
            TopicCollection,
            admin,
        )

        described = {}
        futures = self._admin.describe_topics(TopicCollection(names), request_timeout=CALL_SECONDS)
        for name, future in futures.items():
            if (topic := _unless_missing(future, KafkaError.UNKNOWN_TOPIC_OR_PART)) is not None:
                described[name] = topic
        resource_of: Any = admin.ConfigResource  # type: ignore[attr-defined]
        resources = [resource_of(resource_of.Type.TOPIC, name) for name in described]
        configs = self._admin.describe_configs(resources) if resources else {}
        settings = {}
        for resource, future in configs.items():
            # Another broker may answer, and not know a new topic yet.
            entries = _unless_missing(future, KafkaError.UNKNOWN_TOPIC_OR_PART)
            if entries is not None:
                settings[resource.name] = {each.name: each.value for each in entries.values()}
        return {
            name: FoundTopic(
                topic_id=str(topic.topic_id),
                partitions=len(topic.partitions),
                replication_factor=min(len(each.replicas) for each in topic.partitions),
                settings=settings[name],
            )
            for name, topic in described.items()
            if name in settings
        }


def _unless_missing(future: Any, missing: int) -> Any:
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        return future.result(CALL_SECONDS)
    except KafkaException as error:
        if error.args[0].code() == missing:
            return None
        raise UnfitTopic(
            "the brokers do not describe the topics: {cause}", cause=error.args[0].str()
        ) from error
