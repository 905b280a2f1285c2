"""The nodes of the cluster, as the brokers describe the nodes' group. A thread asks now and then.

A member's client id has the node's id and address. The same thread notices that the topic was
deleted: the node must not write to a topic that a broker made anew.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

import structlog

from offsetd_coordinator.cluster.topic_settings import CALL_SECONDS
from offsetd_coordinator.runtime.node_directory import ClusterNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offsetd_coordinator.cluster.kafka_clients import KafkaClients

_log = structlog.get_logger(__name__)

_ASK_SECONDS: Final = 0.5
_ASK_SECONDS_AFTER_CHANGE: Final = 0.05
_PREFIX: Final = "offsetd:"


def client_id_of(node_id: str, address: str) -> str:
    """The client id with which a node joins the group."""
    return f"{_PREFIX}{node_id}@{address}"


def node_of(client_id: str, partitions: Sequence[int]) -> ClusterNode | None:
    """The node of a member of the group, or None if the member is not a node."""
    node_id, separator, address = client_id.removeprefix(_PREFIX).rpartition("@")
    if not separator or not client_id.startswith(_PREFIX):
        return None
    return ClusterNode(node_id, address, tuple(sorted(partitions)))


class KafkaNodeDirectory:
    """A NodeDirectory. It keeps what it knows while the brokers do not answer."""

    def __init__(
        self,
        clients: KafkaClients,
        own: ClusterNode,
        *,
        topic_id: str,
        on_change: Callable[[Sequence[ClusterNode]], None],
        on_topic_gone: Callable[[str], None],
    ) -> None:
        """`own` is this node, without partitions. The callbacks run on the directory's thread."""
        self._clients = clients
        self._admin = clients.admin()
        self._names = clients.names
        self._own = own
        self._topic_id = topic_id
        self._on_change = on_change
        self._on_topic_gone = on_topic_gone
        self._nodes: tuple[ClusterNode, ...] = ()
        self._owners: dict[int, ClusterNode] = {}
        self._answered_s = time.monotonic()
        self._asks = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="directory", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Lets the thread end by itself."""
        self._is_stopping = True
        self._asks.set()

    def ask_soon(self) -> None:
        """Asks the brokers now. For any thread."""
        self._asks.set()

    def silent_seconds(self) -> float:
        """The time since the brokers last described the group. For any thread."""
        return time.monotonic() - self._answered_s

    def nodes(self) -> Sequence[ClusterNode]:
        """See `NodeDirectory.nodes`."""
        return self._nodes or (self._own,)

    def owner(self, partition: int) -> ClusterNode | None:
        """See `NodeDirectory.owner`."""
        return self._owners.get(partition)

    def _run(self) -> None:
        while not self._is_stopping:
            pause_s = _ASK_SECONDS
            try:
                if not self._ask():
                    pause_s = _ASK_SECONDS_AFTER_CHANGE
                self._answered_s = time.monotonic()
                self._check_topic()
            except Exception as error:  # noqa: BLE001  It keeps what it knows.
                _log.warning(
                    "the brokers do not describe the nodes' group", reason=str(error) or "no answer"
                )
                # The client may go on with what it knew before a coordinator changed.
                self._admin = self._clients.admin()
            self._asks.wait(pause_s)
            self._asks.clear()

    def _ask(self) -> bool:
        """Returns whether the group is not rebalancing."""
        from confluent_kafka import ConsumerGroupState  # noqa: PLC0415

        group = self._names.group
        futures = self._admin.describe_consumer_groups([group], request_timeout=CALL_SECONDS)
        described = futures[group].result(CALL_SECONDS)
        if described.state is not ConsumerGroupState.STABLE:
            return False
        found = []
        for member in described.members:
            assigned = [each.partition for each in member.assignment.topic_partitions]
            node = node_of(member.client_id, assigned)
            if node is not None:
                found.append(node)
        nodes = tuple(sorted(found))
        if nodes != self._nodes:
            self._owners = {each: node for node in nodes for each in node.partitions}
            self._nodes = nodes
            self._on_change(nodes)
        return True

    def _check_topic(self) -> None:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection  # noqa: PLC0415

        topic = self._names.offsets_topic
        futures = self._admin.describe_topics(TopicCollection([topic]))
        try:
            found = str(futures[topic].result(CALL_SECONDS).topic_id)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            self._on_topic_gone(f"topic {topic} was deleted")
            return
        if found != self._topic_id:
            self._on_topic_gone(f"topic {topic} was deleted and made anew")
