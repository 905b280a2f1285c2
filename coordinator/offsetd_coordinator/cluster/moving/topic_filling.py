"""The topics of a cluster while `offsetd cluster init` fills them.

Until all is in them and checked, the offsets topic has a `min.compaction.lag.ms` that no node
accepts. So no node serves a part of the log, and Kafka compacts and deletes nothing meanwhile. A
later `init` knows by it that an earlier one was broken off, and continues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from offsetd_coordinator.cluster.moving.log_digest import MoveRefused
from offsetd_coordinator.cluster.topic_reading import topic_ends
from offsetd_coordinator.cluster.topic_settings import (
    CALL_SECONDS,
    FILLING_LAG_MS,
    ClusterTopics,
    FoundTopic,
    TopicNeed,
    weaknesses,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_coordinator.cluster.kafka_clients import KafkaClients

_LAG: Final = "min.compaction.lag.ms"
_RETENTION: Final = "retention.ms"


class TopicFilling:
    """Makes the topics or takes empty ones, and opens them to nodes at the end. Blocks."""

    def __init__(self, clients: KafkaClients, needs: list[TopicNeed]) -> None:
        self._clients = clients
        self._admin = clients.admin()
        self._topics = ClusterTopics(self._admin)
        self._needs = needs

    def check(self) -> bool:
        """Whether an earlier init was broken off. Changes nothing.

        Raises MoveRefused for topics that are not empty, and UnfitTopic.
        """
        found = self._topics.found([each.name for each in self._needs])
        if not found:
            return False
        lost = [each.name for each in self._needs if each.name not in found]
        if lost:
            raise MoveRefused(
                "topics of the cluster are missing ({lost}), while others are there: {remedy}",
                lost=", ".join(lost),
                remedy=self._remedy(found),
            )
        for need in self._needs:
            if found[need.name].partitions != need.partitions:
                raise MoveRefused(
                    "topic {topic} has {there} partitions, and the folder has {here}: {remedy}",
                    topic=need.name,
                    there=found[need.name].partitions,
                    here=need.partitions,
                    remedy=self._remedy(found),
                )
        if any(each.is_being_filled for each in found.values()):
            return True
        self._refuse_records(found)
        weak = [why for each in self._needs for why in weaknesses(each, found[each.name])]
        if weak:
            raise MoveRefused("{problems}", problems="; ".join(weak))
        return False

    def begin(self) -> None:
        """Makes missing topics, and closes all to nodes. Raises MoveRefused and UnfitTopic."""
        filling = [_while_filling(each) for each in self._needs]
        names = [each.name for each in self._needs]
        if not self._topics.found(names):
            self._topics.make(filling)
            self._topics.found_all(names)
        elif not self.check():
            self._change(filling)
            self._refuse_records(names)

    def end(self) -> None:
        """Lets nodes use the topics."""
        self._change(self._needs)

    def _refuse_records(self, names: Mapping[str, FoundTopic] | list[str]) -> None:
        for need in self._needs:
            if need.name not in names:
                continue
            partitions = range(need.partitions)
            starts = topic_ends(self._clients, need.name, partitions, is_start=True)
            if topic_ends(self._clients, need.name, partitions) != starts:
                raise MoveRefused(
                    "topic {topic} has records already: use another --cluster-id, or {remedy}",
                    topic=need.name,
                    remedy=self._remedy(names),
                )

    def _remedy(self, names: Mapping[str, FoundTopic] | list[str]) -> str:
        deletions = " && ".join(
            f"kafka-topics.sh --bootstrap-server HOST:PORT --delete --topic {each}"
            for each in sorted(names)
        )
        return f"if nothing in them is needed, delete them: {deletions}"

    def _change(self, needs: list[TopicNeed]) -> None:
        from confluent_kafka import admin  # noqa: PLC0415

        kafka: Any = admin
        resources = [
            kafka.ConfigResource(
                kafka.ConfigResource.Type.TOPIC,
                need.name,
                incremental_configs=[
                    kafka.ConfigEntry(
                        name,
                        need.settings[name],
                        incremental_operation=kafka.AlterConfigOpType.SET,
                    )
                    for name in (_LAG, _RETENTION)
                    if name in need.settings
                ],
            )
            for need in needs
            if {_LAG, _RETENTION} & need.settings.keys()
        ]
        for future in self._admin.incremental_alter_configs(resources).values():
            future.result(CALL_SECONDS)


def _while_filling(need: TopicNeed) -> TopicNeed:
    held = {_LAG: FILLING_LAG_MS, _RETENTION: -1}
    return attrs.evolve(need, least={name: held.get(name, at) for name, at in need.least.items()})
