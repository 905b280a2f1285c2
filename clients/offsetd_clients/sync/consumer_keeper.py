# Made from aio/consumer_keeper.py by .ci/sync_from_aio: change that, then run `make sync`.
"""The background work of a consumer: it keeps its part in the group, and commits.

Heartbeats and commits run in separate tasks, so that neither waits for the other.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.consumer.errors import ConsumerFenced, fenced_before
from offsetd_clients.consumer.group_role import FENCED, GroupRole, Phase, Standing
from offsetd_clients.consumer.lease_role import LeaseRole
from offsetd_clients.consumer.member_role import MemberRole
from offsetd_clients.consumer.positions import Positions
from offsetd_clients.consumer.settings import ConsumerSettings
from offsetd_clients.consumer.steps import (
    Acquire,
    End,
    Farewell,
    Fetch,
    Heartbeat,
    Join,
    Leave,
    Release,
    Renew,
    Step,
    Sync,
    Wait,
)
from offsetd_clients.errors import ClientClosed, OffsetdError
from offsetd_clients.membership_values import MemberToRemove
from offsetd_clients.sync.client import OffsetClient
from offsetd_clients.sync.concurrency import Event, Guard, Lock, Task, spawn
from offsetd_clients.values import OffsetToCommit, TopicPartition

log = logging.getLogger("offsetd_clients.consumer")

TRIES_IN_SESSION = 3
"""A session is long enough for this many calls, so that one of them may fail."""


class Keeper:
    """The keeper of one consumer.

    `role` and `positions` are changed under `guard`; `changed` is set after a change.
    """

    def __init__(
        self,
        client: OffsetClient,
        group_id: str,
        settings: ConsumerSettings,
        monotonic_s: Callable[[], float],
    ) -> None:
        """It does nothing before `start`."""
        self.guard = Guard()
        self.positions = Positions()
        self.changed = Event()
        terms = settings.lease
        self.role: GroupRole = MemberRole(settings) if terms is None else LeaseRole(settings, terms)
        self._client = client
        self._group_id = group_id
        self._settings = settings
        session_s = settings.session_timeout_s if terms is None else terms.ttl_s
        self._brief = client.with_retry(RetryPolicy(timeout_s=session_s / TRIES_IN_SESSION))
        self._monotonic_s = monotonic_s
        self._prompt = Event()
        self._commit_prompt = Event()
        self._commit_lock = Lock()
        self._keeping: Task | None = None
        self._committing: Task | None = None

    def start(self) -> None:
        """Starts the work, or wakes it after a change."""
        if self._keeping is None:
            self._keeping = spawn(self._keep, name=f"offsetd keeper of {self._group_id}")
        if self._committing is None and self._settings.auto_commit_interval_s is not None:
            self._committing = spawn(self._commit_on, name=f"offsetd commits of {self._group_id}")
        self._prompt.set()

    def prompt(self) -> None:
        """Wakes the keeper: the iterating caller has changed the role."""
        self._prompt.set()

    def prompt_commit(self) -> None:
        """Wakes the committing task, so that a commit does not wait for its interval."""
        self._commit_prompt.set()

    def commit(self, offsets: Mapping[TopicPartition, OffsetToCommit] | None) -> None:
        """Commits all processed positions, or `offsets`. Raises the errors of the server.

        Commits run one at a time, so none arrives after a later one.
        """
        with self._commit_lock:
            with self.guard:
                standing = self.role.standing
                batch = self.positions.to_commit() if offsets is None else offsets
            if not batch:
                return
            if standing is None:
                raise fenced_before()
            began_s = self._monotonic_s()
            try:
                self._client.commit(
                    self._group_id, batch, membership=standing.membership, epoch=standing.epoch
                )
            except OffsetdError as error:
                self._note_refused(standing, batch, error)
                raise
            with self.guard:
                self.positions.note_committed(batch)
                self.role.committed_with(standing, began_s)

    def end(self, timeout_s: float) -> None:
        """Leaves the group, and ends. Raises no errors of the server."""
        with self.guard:
            farewell = self.role.close()
        self._prompt.set()
        self._commit_prompt.set()
        if farewell is not None:
            self._take_leave(farewell)
        for task in (self._keeping, self._committing):
            if task is not None:
                task.join(timeout_s)

    def _note_refused(
        self,
        standing: Standing,
        batch: Mapping[TopicPartition, OffsetToCommit],
        error: OffsetdError,
    ) -> None:
        with self.guard:
            if error.outcome_unknown:
                self.positions.note_in_doubt(batch)
            self.role.refused(standing, error, self._monotonic_s())
        self.changed.set()

    def _commit_on(self) -> None:
        try:
            while self.role.phase is not Phase.CLOSED:
                self._commit_prompt.wait(self._settings.auto_commit_interval_s)
                self._commit_prompt.clear()
                if self.role.standing is not None:
                    self._try_to_commit()
        except Exception as error:  # noqa: BLE001  (who asks for items is told, whatever it is)
            self._committing = None
            self._fail(error)

    def _try_to_commit(self) -> None:
        try:
            self.commit(None)
        except (ConsumerFenced, *FENCED):
            return  # The next request for items raises the error.
        except OffsetdError as error:
            log.warning("group %s: not committed yet: %s", self._group_id, error)

    def _keep(self) -> None:
        try:
            # A join may take long. This call reports a wrong address soon.
            self._client.get_server_info()
            self._do_steps()
        except Exception as error:  # noqa: BLE001  (as above)
            self._keeping = None
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Lets the next request for items raise the error. The request after it starts again."""
        with self.guard:
            self.role.fail(error)
        self.changed.set()

    def _do_steps(self) -> None:
        while True:
            self._prompt.clear()
            now_s = self._monotonic_s()
            with self.guard:
                step = self.role.next_step(now_s)
            if isinstance(step, End):
                return
            if isinstance(step, Wait):
                until_s = step.until_s
                self._prompt.wait(None if until_s is None else max(until_s - now_s, 0.0))
            elif isinstance(step, Leave | Release):
                self._take_leave(step)
            else:
                self._do(step)
            self.changed.set()

    def _do(self, step: Step) -> None:
        began_s = self._monotonic_s()
        try:
            answer = self._called(step)
        except ClientClosed:
            raise
        except OffsetdError as error:
            log.debug("group %s: %s: %s", self._group_id, type(step).__name__, error)
            with self.guard:
                self.role.note_refusal(step, error, began_s, self._monotonic_s())
        else:
            with self.guard:
                self.role.note_answer(step, answer, began_s, self._monotonic_s())

    def _called(self, step: Step) -> Any:
        """Makes the call for a step."""
        settings, group_id = self._settings, self._group_id
        match step:
            case Join(member_id, protocols):
                return self._client.join_group(
                    group_id,
                    protocols,
                    member_id=member_id,
                    instance_id=settings.instance_id,
                    client_id=settings.client_id,
                    session_timeout_s=settings.session_timeout_s,
                    rebalance_timeout_s=settings.poll_interval_s_max,
                    takes_member_id=False,
                )
            case Sync(membership, assignments):
                return self._client.sync_group(
                    membership, assignments, wait_s=settings.poll_interval_s_max
                )
            case Fetch(topic_partitions):
                return self._brief.fetch(group_id, topic_partitions, require_stable=True)
            case Heartbeat(membership):
                return self._brief.heartbeat(membership)
            case Acquire():
                assert settings.lease is not None
                ttl = timedelta(seconds=settings.lease.ttl_s)
                return self._brief.acquire_group(group_id, settings.lease.holder, ttl=ttl)
            case Renew(epoch):
                return self._brief.renew_group(group_id, epoch)
        raise AssertionError(f"{step} is not a call")

    def _take_leave(self, farewell: Farewell) -> None:
        """Leaves the group or releases the lease.

        If that fails, the session or the lease expires.
        """
        try:
            if isinstance(farewell, Leave):
                leaving = [MemberToRemove(member_id=farewell.member_id)]
                self._brief.leave_group(self._group_id, leaving)
            else:
                self._brief.release_group(self._group_id, farewell.epoch)
        except OffsetdError as error:
            log.warning("group %s was not left in good order: %s", self._group_id, error)
