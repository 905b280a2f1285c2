"""The node: the identity of this process and its state (loading, serving or draining)."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)
from offsetd_coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable
from offsetd_coordinator.runtime.commit_runs import CommitRuns
from offsetd_coordinator.runtime.member_calls import MemberCalls
from offsetd_coordinator.runtime.storage_refusals import quarantined_own_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetd_coordinator.administration.administration import Administration
    from offsetd_coordinator.administration.audit_reader import AuditReader
    from offsetd_coordinator.background.backup_source import BackupSource
    from offsetd_coordinator.background.expirer import Expirer
    from offsetd_coordinator.background.lag_survey import LagSurvey
    from offsetd_coordinator.counters import ClusterCounters
    from offsetd_coordinator.errors import CoordinatorError
    from offsetd_coordinator.large_groups.large_changes import LargeChanges
    from offsetd_coordinator.runtime.node_directory import ClusterReport
    from offsetd_coordinator.runtime.runtime import Runtime
    from offsetd_coordinator.shard.shard import Shard


# Most loads take less time.
_LOAD_WAIT_SECONDS: Final = 0.5
_NOT_LOADED: Final = "a node that serves has been loaded"


class NodeState(enum.IntEnum):
    """The states of a node, with the numbers of `offsetd.v1.ServerState`."""

    LOADING = 1
    SERVING = 2
    DRAINING = 3


class Node:
    """One process that owns log partitions. For the event loop's thread.

    `partitions` and `folder_id` are None until the folder is open, `runtime` until it is loaded. In
    a cluster, `folder_id` is the cluster's id, the same on all nodes. `cluster_report` makes a part
    of the description of the cluster, and `cluster_counters` has the counts of this node's work in
    it; both are None without a cluster. `audit_log` is None if the local store has the audit log.
    """

    def __init__(self, *, node_id: str, address: str, start_ms: int) -> None:
        self.node_id = node_id
        self.address = address
        self.start_ms = start_ms
        self.state = NodeState.LOADING
        self.partitions: int | None = None
        self.folder_id: str | None = None
        self.stopped_cleanly: bool | None = None
        """How the folder's last use ended. None: the folder is new, or not open yet."""
        self.runtime: Runtime | None = None
        self.expirer: Expirer | None = None
        self.lag_survey: LagSurvey | None = None
        self.backup_source: BackupSource | None = None
        self.cluster_report: Callable[[], ClusterReport] | None = None
        self.cluster_counters: ClusterCounters | None = None
        self.audit_log: AuditReader | None = None
        self._administration: Administration | None = None
        self._commit_runs: CommitRuns | None = None
        self._members: MemberCalls | None = None
        self._large_changes: LargeChanges | None = None
        self._load_ended = asyncio.Event()
        self._on_drain: set[Callable[[], None]] = set()

    def serve(
        self, runtime: Runtime, large_changes: LargeChanges, administration: Administration
    ) -> None:
        """Makes the node serve: it answers calls."""
        self.runtime = runtime
        self._large_changes = large_changes
        self._administration = administration
        self._commit_runs = CommitRuns(runtime)
        self._members = MemberCalls(runtime, loop=asyncio.get_running_loop())
        self.state = NodeState.SERVING
        self._members.begin()
        self._load_ended.set()

    def drain(self) -> None:
        """Makes the node refuse new calls. Accepted calls are still answered."""
        self.state = NodeState.DRAINING
        self._load_ended.set()
        if self._members is not None:
            self._members.close(self.refusal_of_drain)
        for callback in tuple(self._on_drain):
            callback()

    @property
    def is_draining(self) -> bool:
        """Whether calls are refused because the server stops."""
        return self.state is NodeState.DRAINING

    def call_on_drain(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Has `callback` called when draining begins. Returns a function that cancels that."""
        self._on_drain.add(callback)
        return lambda: self._on_drain.discard(callback)

    async def load_ended(self, remaining_seconds: float | None) -> None:
        """Waits until the load and large changes have ended, but at most half a second.

        A call with a deadline waits at most half of `remaining_seconds`. Most loads take less than
        half a second. So most callers need no retry, and retries do not slow the load.
        """
        seconds = _LOAD_WAIT_SECONDS
        if remaining_seconds is not None:
            seconds = min(seconds, remaining_seconds / 2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._load_ended.wait()
                if self._large_changes is not None:
                    await self._large_changes.until_ended()

    def serving(self) -> Runtime:
        """The runtime. Raises CoordinatorLoadInProgress, or the error of `refusal_of_drain`."""
        if self.state is not NodeState.SERVING:
            if self.is_draining:
                raise self.refusal_of_drain()
            raise CoordinatorLoadInProgress("the server is loading its log")
        assert self.runtime is not None, "a node that serves has a runtime"
        return self.runtime

    def take(self, partition: int, shard: Shard) -> None:
        """Starts to serve a log partition. Its shard has replayed its log, and it is SERVING."""
        self.serving().take(partition, shard)
        self.members.begin_shard(shard)

    def release(self, partition: int) -> None:
        """Stops serving a log partition, which is not SERVING any more."""
        runtime = self.serving()
        shard = runtime.shards.get(partition)
        runtime.release(partition)
        if shard is not None:
            self.members.end_shard(shard, lambda: runtime.refusal(partition))

    @property
    def commit_runs(self) -> CommitRuns:
        """Submits the commits of streams. For a node that serves, or has served."""
        assert self._commit_runs is not None, _NOT_LOADED
        return self._commit_runs

    @property
    def members(self) -> MemberCalls:
        """The calls of group members. For a node that serves, or has served."""
        assert self._members is not None, _NOT_LOADED
        return self._members

    @property
    def large_changes(self) -> LargeChanges:
        """Changes of groups of any size. For a node that serves, or has served."""
        assert self._large_changes is not None, _NOT_LOADED
        return self._large_changes

    def administering(self) -> Administration:
        """The part that changes settings. Raises the errors of `serving`."""
        self.serving()
        assert self._administration is not None, "a node that serves can be administered"
        return self._administration

    @property
    def settings_doubt(self) -> str | None:
        """The reason why the settings in force may differ from those that were set, or None."""
        return None if self._administration is None else self._administration.settings_doubt

    def problems(self) -> Iterator[str]:
        """Other problems of the whole server, as text for operators."""
        runtime = self.runtime
        if runtime is None:
            return
        if runtime.disk.is_low:
            yield "the disk is nearly full: commits are refused; reads and deletions still work"
        for each in (CONFIG_PARTITION, AUDIT_PARTITION):
            if (damage := runtime.log.damage(each)) is not None:
                yield str(quarantined_own_log(each, damage))

    def refusal_of_drain(self) -> CoordinatorError:
        """The error for new calls: CoordinatorNotAvailable; after a failure, StorageUnavailable."""
        if self.runtime is not None and self.runtime.failed is not None:
            return self.runtime.log.unavailable()
        return CoordinatorNotAvailable("the server is stopping")
