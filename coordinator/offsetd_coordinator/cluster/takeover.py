"""Taking a partition over: the steps from its assignment until the node serves it.

1. Read the group's committed offset of the partition. The brokers answer only once no transaction
   of a former owner has offsets pending there. A later one of it is refused.
2. Take the partition's end, and wait until all transactions below it are decided.
3. Read the copy up to that end, and load the shard from it.
4. Write a claim, with the first log offset that this node gives out. It is above all that was given
   out before, because each record of ours takes at least one Kafka offset.
5. If the former owner has not released the partition, wait for one read lease.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import structlog
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.cluster.claims import Claim
from offsetd_coordinator.cluster.copy_appends import fill_gap
from offsetd_coordinator.cluster.topic_reading import ask_ends
from offsetd_coordinator.cluster.transactional_producers import init_together
from offsetd_coordinator.runtime.shard_loader import load_shard
from offsetd_coordinator.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from offsetd_storage.log_store import LogStore

    from offsetd_coordinator.cluster.copy_checkpoint import CopyCheckpoint
    from offsetd_coordinator.cluster.copy_follower import CopyFollower
    from offsetd_coordinator.cluster.kafka_clients import KafkaClients
    from offsetd_coordinator.cluster.partition_assignment import PartitionAssignment
    from offsetd_coordinator.counters import ClusterCounters
    from offsetd_coordinator.shard.shard import ShardConfig

_log = structlog.get_logger(__name__)

_CALL_SECONDS: Final = 10.0
# Short: a broker that is gone does not answer, and the next attempt asks the new leader.
_ENDS_SECONDS: Final = 3.0
_POLL_SECONDS: Final = 0.02
_RENEW_SECONDS: Final = 0.1
# The time in which a transaction of the former owner may end by itself.
_OPEN_TRANSACTION_SECONDS: Final = 0.3


@attrs.frozen(kw_only=True)
class NodeIdentity:
    """The fields by which a claim names this node."""

    node_id: str
    address: str
    producers: int


class Takeovers:
    """Takes partitions over, on its own thread. Those of one assignment are taken together."""

    def __init__(
        self,
        clients: KafkaClients,
        store: LogStore,
        copies: CopyCheckpoint,
        follower: CopyFollower,
        member: PartitionAssignment,
        *,
        identity: NodeIdentity,
        shard_config: ShardConfig,
        read_lease_seconds: float,
        counters: ClusterCounters,
        is_member: Callable[[str], bool],
        commit_claims: Callable[[dict[int, Claim]], None],
        serve: Callable[[int, Shard, int], None],
        on_taken: Callable[[], None],
        on_failed: Callable[[BaseException], object],
    ) -> None:
        """`is_member` says whether a node is in the group.

        `commit_claims` blocks until the claims are committed. `serve` gets a partition, its shard
        and its term; it serves the partition if that term goes on. `on_taken` is called after each
        assignment.
        """
        self._clients = clients
        self._admin = clients.admin()
        self._store = store
        self._copies = copies
        self._follower = follower
        self._member = member
        self._identity = identity
        self._shard_config = shard_config
        self._lease_s = read_lease_seconds
        self._counters = counters
        self._is_member = is_member
        self._commit_claims = commit_claims
        self._serve = serve
        self._on_taken = on_taken
        self._on_failed = on_failed
        self._reader = clients.reader()
        self._tasks: queue.SimpleQueue[tuple[float, Mapping[int, int]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._guard, name="takeovers", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after its present step."""
        self._tasks.put(None)

    def take(self, terms: Mapping[int, int]) -> None:
        """Takes partitions over; they have just been assigned, with these terms."""
        self._tasks.put((time.monotonic(), terms))

    def _guard(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                assigned_s, terms = task
                if terms:
                    self._take(assigned_s, terms)
                self._on_taken()
        except BaseException as error:  # noqa: BLE001  The node would stay without partitions.
            self._on_failed(error)

    def _take(self, assigned_s: float, terms: Mapping[int, int]) -> None:
        begun_s = time.monotonic()
        self._wait_for_offsets(terms)
        ends = self._ends(self._member.still_assigned(terms), committed_only=False)
        self._wait_until_stable(ends, terms)
        self._read_copies(ends, terms)
        formers = {each: self._copies.claims.get(each) for each in ends}
        claims = {each: self._claim(formers[each], end, each) for each, end in ends.items()}
        shards = {}
        for partition in self._member.still_assigned(terms):
            shards[partition] = self._loaded(partition, claims[partition].first_offset)
        owned = self._member.may_write(terms) & shards.keys()
        self._commit_claims({each: claims[each] for each in owned})
        leases_s = [
            max(self._lease_s, former.read_lease_ms / 1000)
            for each in owned
            if (former := formers[each]) and not former.is_released
        ]
        time.sleep(max(0.0, assigned_s + max(leases_s, default=0.0) - time.monotonic()))
        for partition in sorted(owned):
            self._serve(partition, shards[partition], terms[partition])
        self._counters.taken_partitions += len(owned)
        self._counters.takeover_durations.note(time.monotonic() - assigned_s)
        _log.info(
            "partitions taken over",
            count=len(owned),
            seconds=round(time.monotonic() - begun_s, 3),
        )

    def _kafka_partition(self, partition: int) -> Any:
        from confluent_kafka import TopicPartition as KafkaPartition  # noqa: PLC0415

        return KafkaPartition(self._clients.names.offsets_topic, partition)

    def _wait_for_offsets(self, terms: Mapping[int, int]) -> None:
        """Waits until no transaction has offsets pending for these partitions."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        while left := self._member.still_assigned(terms):
            wanted = [self._kafka_partition(each) for each in sorted(left)]
            # The client asks again by itself while offsets are pending.
            with contextlib.suppress(KafkaException):
                found = self._reader.committed(wanted, _OPEN_TRANSACTION_SECONDS)
                if not any(each.error for each in found):
                    return
            self._read_copies(self._ends(left, committed_only=True), terms)
            self._end_transactions(left)

    def _ends(self, partitions: Collection[int], *, committed_only: bool) -> dict[int, int]:
        """The Kafka offsets after the last record, or after the last decided one."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        topic = self._clients.names.offsets_topic
        while partitions:
            try:
                return ask_ends(
                    self._admin,
                    topic,
                    partitions,
                    committed_only=committed_only,
                    seconds=_ENDS_SECONDS,
                )
            except (KafkaException, TimeoutError) as error:
                _log.warning("the ends of partitions", reason=str(error) or "no answer")
                time.sleep(_RENEW_SECONDS)
                # The client may still use what it knew before a leader changed.
                self._admin = self._clients.admin()
        return {}

    def _wait_until_stable(self, ends: Mapping[int, int], terms: Mapping[int, int]) -> None:
        """Waits until all transactions below `ends` are decided; ends those that stay open."""
        begun_s = time.monotonic()
        while left := self._member.still_assigned(terms) & ends.keys():
            stable = self._ends(left, committed_only=True)
            unstable = {each: end for each, end in stable.items() if end < ends[each]}
            if not unstable:
                return
            if time.monotonic() - begun_s > _OPEN_TRANSACTION_SECONDS:
                self._read_copies(unstable, terms)
                self._end_transactions(unstable)
                begun_s = time.monotonic()
            time.sleep(_POLL_SECONDS)

    def _end_transactions(self, partitions: Iterable[int]) -> None:
        """Ends the open transactions of nodes that claimed these partitions last and are gone."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        formers = {self._copies.claims.get(each) for each in partitions}
        for former in {(each.node_id, each.producers) for each in formers if each is not None}:
            node_id, producers = former
            # This node ended its own when it began. A node that lives ends its own, too.
            if node_id == self._identity.node_id or self._is_member(node_id):
                continue
            _log.info("ending the transactions of another node", node=node_id)
            ended = [self._clients.producer(each, node_id=node_id) for each in range(producers)]
            with contextlib.suppress(KafkaException):  # The caller checks, and tries again.
                init_together(ended, _CALL_SECONDS)

    def _read_copies(self, ends: Mapping[int, int], terms: Mapping[int, int]) -> None:
        left = self._member.still_assigned(terms) & ends.keys()
        for future in self._follower.catch_up({each: ends[each] for each in left}):
            while self._member.still_assigned(terms) and not future.done():
                time.sleep(_POLL_SECONDS / 4)

    def _claim(self, former: Claim | None, end: int, partition: int) -> Claim:
        shift = 0 if former is None else former.shift
        log = self._store.log(TopicPartition(OFFSETS_TOPIC, partition))
        return Claim(
            epoch=1 if former is None else former.epoch + 1,
            node_id=self._identity.node_id,
            address=self._identity.address,
            producers=self._identity.producers,
            first_offset=max(end + shift, log.offset_next),
            unused_from=log.offset_next,
            shift=shift,
            read_lease_ms=round(self._lease_s * 1000),
        )

    def _loaded(self, partition: int, first_offset: int) -> Shard:
        topic_partition = TopicPartition(OFFSETS_TOPIC, partition)
        fill_gap(self._store, topic_partition, first_offset, is_unused=True)
        shard = Shard(partition, self._shard_config)
        load_shard(shard, self._store.log(topic_partition))
        return shard
