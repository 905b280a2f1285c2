"""The part of a consumer that works alone: it holds the group's lease, and has all partitions."""

from collections.abc import Mapping
from typing import Any

from offsetd_clients.consumer.group_role import GroupRole, Phase, Standing
from offsetd_clients.consumer.settings import ConsumerSettings, LeaseTerms
from offsetd_clients.consumer.steps import Acquire, Farewell, Fetch, Release, Renew, Step
from offsetd_clients.errors import LeaseHeld, OffsetdError
from offsetd_clients.values import Lease, TopicPartition

RENEWALS_IN_TTL = 4


class LeaseRole(GroupRole):
    """The holder of a group's lease, or a candidate that waits for it."""

    def __init__(self, settings: ConsumerSettings, terms: LeaseTerms) -> None:
        super().__init__(settings)
        self._terms = terms
        self._epoch: int | None = None

    def note_answer(self, step: Step, answer: Any, began_s: float, now_s: float) -> None:
        """Does what `GroupRole.note_answer` does, also for the calls of the lease."""
        if isinstance(step, Acquire):
            self._note_acquired(step, answer, began_s)
        else:
            super().note_answer(step, answer, began_s, now_s)

    def _note_acquired(self, step: Acquire, lease: Lease, began_s: float) -> None:
        self._epoch = lease.epoch
        if not self._is_current(step):
            return  # The role was closed during the call. The lease must still be released.
        self.standing = Standing(epoch=lease.epoch)
        self.alive_until_s = began_s + self._session_s
        self.note_beat(began_s)

    @property
    def _session_s(self) -> float:
        return self._terms.ttl_s

    @property
    def _beat_interval_s(self) -> float:
        return self._terms.ttl_s / RENEWALS_IN_TTL

    def _begin_entering(self) -> None:
        self.topic_partitions = tuple(
            TopicPartition(topic, partition)
            for topic, count in self._counts.items()
            for partition in range(count)
        )

    def _entering_step(self) -> Step:
        return Acquire() if self.standing is None else Fetch(self.topic_partitions)

    def _beat(self) -> Step:
        assert self._epoch is not None
        return Renew(self._epoch)

    def _is_outdated_by(self, counts: Mapping[str, int]) -> bool:
        return counts != self._counts

    def _is_current(self, step: Step) -> bool:
        match step:
            case Acquire():
                return self.phase is Phase.ENTERING
            case Renew(epoch):
                return self.standing is not None and epoch == self._epoch
            case Fetch(topic_partitions):
                return topic_partitions == self.topic_partitions
            case _:
                return False

    def _farewell(self) -> Farewell | None:
        return None if self._epoch is None else Release(self._epoch)

    def _forget(self, *, keeps_id: bool = False) -> None:
        del keeps_id  # A lease has no member id.
        self.standing = self._epoch = None

    def _note_refused(self, error: OffsetdError, now_s: float) -> None:
        if isinstance(error, LeaseHeld) and self.phase is Phase.ENTERING:
            # Another holder has the lease: wait for it.
            self._not_before_s = now_s + self._beat_interval_s
        else:
            super()._note_refused(error, now_s)
