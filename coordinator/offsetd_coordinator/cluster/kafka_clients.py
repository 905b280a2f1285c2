"""The Kafka clients of a node: producers of transactions, consumers, and the admin client."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import attrs

from offsetd_coordinator.errors import CoordinatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from offsetd_coordinator.configuration.cluster_settings import ClusterSettings


def lower_transaction_errors(record: logging.LogRecord) -> bool:
    """Gives librdkafka's lines about a failed transaction the level INFO. For `Logger.addFilter`.

    Transactions fail while partitions move. The node sends them again, and logs the reason.
    """
    if record.getMessage().startswith("TXNERR"):
        record.levelno, record.levelname = logging.INFO, "INFO"
    return True


# librdkafka's own lines, such as that a broker cannot be reached.
_log = logging.getLogger("offsetd_coordinator.cluster.librdkafka")
_log.addFilter(lower_transaction_errors)

# Settings that the node relies on. An operator's `cluster.kafka.` settings cannot change them.
_PRODUCER: Final = {
    "enable.idempotence": True,
    "acks": "all",
    # The flush ends this wait. So a partition gets all records of a frame in one batch.
    "linger.ms": 1000,
    "retry.backoff.ms": 2,
    "retry.backoff.max.ms": 100,
    "compression.type": "none",
    # The topics' max.message.bytes is the limit. librdkafka's own is too low for the largest batch.
    "message.max.bytes": 1_000_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
}
_READER: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
    "fetch.error.backoff.ms": 20,
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": 65_536,
}
_MEMBER: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "partition.assignment.strategy": "cooperative-sticky",
    "heartbeat.interval.ms": 100,
    "max.poll.interval.ms": 300_000,
}
_OF_ALL: Final = {
    "socket.keepalive.enable": True,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1000,
    "log_level": 4,
}


class KafkaClientMissing(CoordinatorError):
    """confluent-kafka is not installed."""

    reason = "KAFKA_UNAVAILABLE"


@attrs.frozen(kw_only=True)
class ClusterNames:
    """The names of one cluster's topics and of its nodes' group."""

    cluster_id: str

    @property
    def offsets_topic(self) -> str:
        """The topic of offsets, groups and leases."""
        return f"__{self.cluster_id}_offsets"

    @property
    def config_topic(self) -> str:
        """The topic of the nodes' settings."""
        return f"__{self.cluster_id}_config"

    @property
    def audit_topic(self) -> str:
        """The topic of the nodes' audit events."""
        return f"__{self.cluster_id}_audit"

    @property
    def group(self) -> str:
        """The consumer group of the nodes."""
        return f"__{self.cluster_id}_nodes"

    def transactional_id(self, node_id: str, number: int) -> str:
        """The transactional id of a node's producer."""
        return f"{self.cluster_id}-{node_id}-{number}"

    def rules_transactional_id(self, node_id: str) -> str:
        """The transactional id with which a node changes access rules."""
        return f"{self.cluster_id}-{node_id}-rules"


class KafkaClients:
    """Makes the clients. The settings that the node relies on override those of the operator."""

    def __init__(self, settings: ClusterSettings, *, node_id: str) -> None:
        try:
            import confluent_kafka  # noqa: PLC0415  A server without a cluster has no use for it.
        except ModuleNotFoundError as error:
            raise KafkaClientMissing(
                "a cluster needs confluent-kafka: pip install 'offsetd[server,kafka]'"
            ) from error
        self._kafka = confluent_kafka
        self._settings = settings
        self._node_id = node_id
        self.names = ClusterNames(cluster_id=settings.cluster_id)

    def _config(self, own: Mapping[str, object]) -> dict[str, Any]:
        return {
            "client.id": f"offsetd {self._node_id}",
            **_OF_ALL,
            **self._settings.cluster_kafka,
            **own,
            "bootstrap.servers": self._settings.cluster_bootstrap_servers,
            "logger": _log,
        }

    def admin(self) -> Any:
        """A `confluent_kafka.admin.AdminClient`."""
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415

        config = self._config({})
        logger = config.pop("logger")
        return AdminClient(config, logger=logger)

    def producer(self, number: int, *, node_id: str | None = None) -> Any:
        """A producer of this node, or of another. The latter ends that node's own producer."""
        return self._producer(
            self.names.transactional_id(self._node_id if node_id is None else node_id, number)
        )

    def rules_producer(self) -> Any:
        """The producer with which this node changes access rules."""
        return self._producer(self.names.rules_transactional_id(self._node_id))

    def _producer(self, transactional_id: str) -> Any:
        timeout_ms = self._settings.cluster_transaction_timeout_ms
        return self._kafka.Producer(
            self._config(
                {
                    **_PRODUCER,
                    "transactional.id": transactional_id,
                    "transaction.timeout.ms": timeout_ms,
                    "message.timeout.ms": timeout_ms,
                }
            )
        )

    def reader(self) -> Any:
        """A consumer without a group. It reads committed records of the partitions it is given."""
        return self._kafka.Consumer(self._config({**_READER, "group.id": self.names.group}))

    def member(self, client_id: str) -> Any:
        """A consumer that joins the group of the nodes. Brokers tell its `client_id` to others."""
        settings = self._settings
        own: dict[str, object] = {
            **_MEMBER,
            "group.id": self.names.group,
            "client.id": client_id,
            "session.timeout.ms": settings.cluster_session_timeout_ms,
        }
        if settings.cluster_group_protocol == "consumer":
            for name in (
                "partition.assignment.strategy",
                "heartbeat.interval.ms",
                "session.timeout.ms",
            ):
                own.pop(name)
            own["group.protocol"] = "consumer"
        return self._kafka.Consumer(self._config(own))
