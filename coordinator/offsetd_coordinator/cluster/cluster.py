"""A node's life in its cluster: it joins, takes partitions, gives them up, and leaves.

Threads: the group's (`PartitionAssignment`), the transactions', the copies', the takeovers' and the
directory's. They reach the node through the event loop.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Final

import attrs
import structlog

from offsetd_coordinator.cluster.backups.cluster_backups import MAKERS_PARTITION, ClusterBackups
from offsetd_coordinator.cluster.backups.node_streams import connected
from offsetd_coordinator.cluster.copy_checkpoint import write_copies
from offsetd_coordinator.cluster.copy_follower import CopyFollower
from offsetd_coordinator.cluster.frames import OpenFrame
from offsetd_coordinator.cluster.kafka_commit_log import KafkaCommitLog
from offsetd_coordinator.cluster.kafka_node_directory import KafkaNodeDirectory, client_id_of
from offsetd_coordinator.cluster.partition_assignment import PartitionAssignment
from offsetd_coordinator.cluster.shared_rules import SharedRules
from offsetd_coordinator.cluster.standby_copies import standby_partitions
from offsetd_coordinator.cluster.takeover import NodeIdentity, Takeovers
from offsetd_coordinator.cluster.transactions import Transactions
from offsetd_coordinator.cooperative_scheduling import call_soon
from offsetd_coordinator.counters import ClusterCounters
from offsetd_coordinator.runtime.commit_log import NodeFenced, PartitionState
from offsetd_coordinator.runtime.node_directory import ClusterNode, ClusterReport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from random import Random

    from offsetd_storage.clock import Clock
    from offsetd_storage.errors import StorageFailed

    from offsetd_coordinator.cluster.claims import Claim
    from offsetd_coordinator.cluster.cluster_start import OpenCluster
    from offsetd_coordinator.cluster.transactions import CommittedFrame
    from offsetd_coordinator.configuration.server_settings import Settings
    from offsetd_coordinator.counters import BackupCounters
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.shard.shard import Shard, ShardConfig

_log = structlog.get_logger(__name__)

_RELEASE_SECONDS: Final = 10.0
# A node tells operators when the brokers have not answered for longer than this.
_SILENT_SECONDS: Final = 10.0


def silence_problems(node_id: str, *, silent_s: float, unread_s: float) -> tuple[str, ...]:
    """The problems of a node to which the brokers do not answer.

    `silent_s`: the time since their last answer. `unread_s`: the time for which the rules in force
    may have been outdated.
    """
    silence = f"the Kafka cluster has not answered for {silent_s:.0f} s; commits and reads wait"
    unread = f"the access rules may have been outdated for {unread_s:.0f} s"
    told = ((silence, silent_s), (unread, unread_s))
    return tuple(f"node {node_id}: {each}" for each, since_s in told if since_s > _SILENT_SECONDS)


class Cluster:
    """Made on the event loop's thread. `start`, `leave` and `stop` block, on another thread."""

    def __init__(
        self,
        opened: OpenCluster,
        node: Node,
        settings: Settings,
        *,
        shard_config: ShardConfig,
        on_failed: Callable[[StorageFailed], None],
    ) -> None:
        # Set once the node has taken over what the group first assigned to it.
        self.has_joined = asyncio.Event()
        self.counters = ClusterCounters()
        self._opened = opened
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._has_rules_by_command = settings.has_rules_by_command
        self._standby_copies = settings.cluster_standby_copies
        lease_s = settings.cluster_read_lease_ms / 1000
        self._frames = OpenFrame()
        self.log = KafkaCommitLog(
            opened.store,
            self._frames,
            loop=self._loop,
            read_lease_seconds=lease_s,
            on_failed=on_failed,
            on_copied=opened.copies.note_positions,
        )
        fail_soon = self.log.fail_soon
        self._member = PartitionAssignment(
            opened.clients,
            client_id_of(node.node_id, node.address),
            on_assigned=self._note_assigned,
            on_revoked=self._note_revoked,
            on_lost=self._note_lost,
            on_failed=fail_soon,
        )
        self._transactions = Transactions(
            opened.clients,
            self._frames,
            self._member,
            producers=settings.cluster_producers,
            node_id=node.node_id,
            idle_seconds=lease_s,
            counters=self.counters,
            on_committed=self._note_committed,
            on_failed=fail_soon,
        )
        self._follower = CopyFollower(
            opened.clients,
            opened.store,
            opened.copies,
            folder=opened.folder,
            clock=opened.clock,
            on_failed=fail_soon,
            on_journal_filling=self._note_journal_filling,
        )
        self._takeovers = self._made_takeovers(settings, shard_config)
        self.directory = self._made_directory()
        self.rules = self._made_rules()

    def _made_rules(self) -> SharedRules:
        opened = self._opened
        return SharedRules(
            opened.clients,
            opened.rules,
            node_id=self._node.node_id,
            clock=opened.clock,
            reload=opened.reload_rules,
        )

    def _made_directory(self) -> KafkaNodeDirectory:
        return KafkaNodeDirectory(
            self._opened.clients,
            ClusterNode(self._node.node_id, self._node.address, ()),
            topic_id=self._opened.copies.topic_id,
            on_change=self._note_nodes,
            on_topic_gone=lambda why: self.log.fail_soon(NodeFenced(why)),
        )

    def _made_takeovers(self, settings: Settings, shard_config: ShardConfig) -> Takeovers:
        opened, node = self._opened, self._node
        return Takeovers(
            opened.clients,
            opened.store,
            opened.copies,
            self._follower,
            self._member,
            identity=NodeIdentity(
                node_id=node.node_id, address=node.address, producers=settings.cluster_producers
            ),
            shard_config=shard_config,
            read_lease_seconds=settings.cluster_read_lease_ms / 1000,
            counters=self.counters,
            is_member=self._is_member,
            commit_claims=self._commit_claims,
            serve=lambda *what: self._on_loop(self._serve, *what),
            on_taken=lambda: call_soon(self._loop, self.has_joined.set),
            on_failed=self.log.fail_soon,
        )

    def scheduled_backups(
        self, settings: Settings, counters: BackupCounters, *, clock: Clock, random: Random
    ) -> ClusterBackups:
        """The task that makes the cluster's backups, on one node at a time."""
        return ClusterBackups(
            settings,
            counters,
            folder_id=self._opened.copies.topic_id,
            makes=lambda: self.log.state(MAKERS_PARTITION) is PartitionState.SERVING,
            connect=lambda: connected(settings, self._node.address),
            clock=clock,
            random=random,
        )

    def start(self) -> None:
        """Fences an earlier process of this node, and joins the group. Raises KafkaException."""
        self._transactions.fence()
        self.rules.start()
        self._follower.start()
        self._transactions.start()
        self._takeovers.start()
        self._member.start()
        self.directory.start()

    def leave(self) -> None:
        """Gives up all partitions, and leaves the group. Calls then get the new owners."""
        self._member.leave()

    def stop(self) -> None:
        """Commits what is appended, then ends the threads."""
        self._transactions.stop()
        self._takeovers.stop()
        self._follower.stop()
        self.directory.stop()
        self.rules.stop()

    def note_closed(self) -> None:
        """Notes how far the copies reach, after the store was closed. Raises OSError."""
        opened = self._opened
        content = opened.copies.encode(now_ms=opened.clock.now_ms())
        write_copies(opened.files, opened.folder, content)

    def _note_committed(self, done: CommittedFrame) -> None:
        call_soon(self._loop, self.log.note_committed, done)

    def _note_journal_filling(self) -> None:
        self.log.on_journal_filling()

    def report(self) -> ClusterReport:
        """See `ClusterReport`. For any thread."""
        lags = {each: self._follower.lag(each) for each in range(self.log.partitions)}
        silent_s = max(self.log.unproved_seconds(), self.directory.silent_seconds())
        unread_s = self.rules.silent_seconds() if self._has_rules_by_command else 0.0
        return ClusterReport(
            problems=silence_problems(self._node.node_id, silent_s=silent_s, unread_s=unread_s),
            replication=self._opened.replication,
            copy_lags={each: lag for each, lag in lags.items() if lag is not None},
            epochs={each: claim.epoch for each, claim in dict(self._opened.copies.claims).items()},
        )

    # On the threads --------------------------------------------------------------------------

    def _on_loop(self, call: Callable[..., Any], *arguments: object) -> Any:
        """Calls on the event loop's thread, and waits for the result."""

        async def called() -> Any:
            return call(*arguments)

        return asyncio.run_coroutine_threadsafe(called(), self._loop).result()

    def _committed(self, claims: dict[int, Claim], seconds: float | None) -> None:
        """Writes claims, and waits until they are committed. Raises TimeoutError."""
        number = self._frames.claim(claims)

        async def committed() -> None:
            await self.log.frame_committed(number)

        asyncio.run_coroutine_threadsafe(committed(), self._loop).result(seconds)
        for partition, claim in claims.items():
            if partition in self._member.owned:
                self._opened.copies.note_claim(partition, claim)

    def _is_member(self, node_id: str) -> bool:
        return any(each.node_id == node_id for each in self.directory.nodes())

    def _commit_claims(self, claims: dict[int, Claim]) -> None:
        if claims:
            self._committed(claims, None)

    def _note_assigned(self, terms: Mapping[int, int]) -> None:
        _log.info("partitions assigned", count=len(terms))
        self._on_loop(self.log.begin_load, tuple(terms))
        self._takeovers.take(terms)
        self.directory.ask_soon()

    def _note_revoked(self, partitions: Collection[int]) -> None:
        """Gives partitions up: commits the waiting appends first, then answers no call for them."""
        _log.info("partitions revoked", count=len(partitions))
        self._follower.release(partitions)
        served = self._on_loop(self._stop_serving, partitions)
        claims = {
            each: attrs.evolve(self._opened.copies.claims[each], is_released=True)
            for each in served
            if each in self._opened.copies.claims
        }
        try:
            self._committed(claims, _RELEASE_SECONDS)
        except (TimeoutError, CancelledError) as error:
            _log.warning("partitions were not released cleanly", reason=str(error))
        except Exception as error:  # noqa: BLE001  The log has failed: the process ends.
            _log.warning("partitions were not released", reason=str(error))
        self._on_loop(self.log.lose, partitions)
        self.directory.ask_soon()

    def _note_lost(self, partitions: Collection[int]) -> None:
        """Forgets partitions that other nodes may have already."""
        _log.warning("partitions lost: the brokers did not hear from this node in time")
        self.counters.lost_partitions += len(partitions)
        self._follower.release(partitions)
        self._on_loop(self._stop_serving, partitions)
        self._on_loop(self.log.lose, partitions)
        self.directory.ask_soon()

    def _note_nodes(self, nodes: Sequence[ClusterNode]) -> None:
        wanted = standby_partitions(
            self._node.node_id,
            nodes,
            partitions=self.log.partitions,
            copies=self._standby_copies,
        )
        self._follower.follow(wanted, owned=self._member.assigned)

    # On the event loop -----------------------------------------------------------------------

    def _serve(self, partition: int, shard: Shard, term: int) -> None:
        """Serves a partition, unless it was given up meanwhile."""
        if partition not in self._member.still_assigned({partition: term}):
            return
        self.log.serve(partition)
        self._node.take(partition, shard)

    def _stop_serving(self, partitions: Collection[int]) -> list[int]:
        """Returns the partitions that were served."""
        runtime = self._node.runtime
        served = [each for each in partitions if runtime is not None and each in runtime.shards]
        for partition in partitions:
            self.log.leave(partition)
        for partition in served:
            self._node.release(partition)
        return served
