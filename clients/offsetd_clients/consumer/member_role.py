"""The part of a member among others: it joins, is assigned partitions, and joins again."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from offsetd_clients.assignors import Subscription
from offsetd_clients.consumer.group_role import GroupRole, Phase, Standing
from offsetd_clients.consumer.settings import ConsumerSettings
from offsetd_clients.consumer.steps import Farewell, Fetch, Heartbeat, Join, Leave, Step, Sync
from offsetd_clients.consumer_protocol import (
    MalformedProtocol,
    assignments_by,
    decode_assignment,
    encode_subscription,
)
from offsetd_clients.errors import MemberIdRequired, OffsetdError
from offsetd_clients.membership_values import JoinedGroup, Membership

if TYPE_CHECKING:
    from offsetd_clients.values import TopicPartition


class _Stage(Enum):
    JOIN = auto()
    SYNC = auto()
    FETCH = auto()


class MemberRole(GroupRole):
    """A member of a group.

    It gives up all partitions before each generation (Kafka's eager protocol).
    """

    def __init__(self, settings: ConsumerSettings) -> None:
        super().__init__(settings)
        self._stage = _Stage.JOIN
        self._member_id = ""
        self._membership: Membership | None = None
        self._is_leader = False
        self._assignments: dict[str, bytes] = {}
        self._owned: tuple[TopicPartition, ...] = ()
        self._owned_generation_id = -1

    def note_answer(self, step: Step, answer: Any, began_s: float, now_s: float) -> None:
        """Like `GroupRole.note_answer`; it also handles Join and Sync."""
        match step:
            case Join():
                self._note_joined(step, answer)
            case Sync(membership):
                if self._is_current(step):
                    self._note_synced(membership, answer, began_s)
            case _:
                super().note_answer(step, answer, began_s, now_s)

    def _note_joined(self, step: Join, joined: JoinedGroup) -> None:
        self._member_id = joined.membership.member_id
        if not self._is_current(step):
            return  # The role was closed during the call. The member must still leave.
        self._membership = joined.membership
        self._is_leader = joined.is_leader
        self._stage = _Stage.SYNC
        try:
            self._assignments = assignments_by(joined, self._counts)
        except (MalformedProtocol, KeyError) as error:
            self.fail(error)

    def _note_synced(self, membership: Membership, assignment: bytes, began_s: float) -> None:
        try:
            self.topic_partitions = tuple(decode_assignment(assignment))
        except MalformedProtocol as error:
            self.fail(error)
            return
        self.standing = Standing(membership=membership)
        self.alive_until_s = began_s + self._session_s
        self.note_beat(began_s)
        self._stage = _Stage.FETCH

    @property
    def _session_s(self) -> float:
        return self.settings.session_timeout_s

    @property
    def _beat_interval_s(self) -> float:
        return self.settings.heartbeat_interval_s

    def _begin_entering(self) -> None:
        self._stage = _Stage.JOIN

    def _entering_step(self) -> Step:
        if self._stage is _Stage.JOIN:
            subscription = encode_subscription(
                Subscription(
                    topics=self._counts,
                    owned=self._owned,
                    generation_id=self._owned_generation_id,
                )
            )
            return Join(self._member_id, dict.fromkeys(self.settings.assignors, subscription))
        if self._stage is _Stage.SYNC:
            assert self._membership is not None
            return Sync(self._membership, self._assignments)
        return Fetch(self.topic_partitions)

    def _beat(self) -> Step:
        assert self._membership is not None
        return Heartbeat(self._membership)

    def _is_to_beat(self) -> bool:
        # The group waits for a joining member, which sends no heartbeats.
        is_joining = self.phase is Phase.ENTERING and self._stage is not _Stage.FETCH
        return super()._is_to_beat() and not is_joining

    def _is_outdated_by(self, counts: Mapping[str, int]) -> bool:
        """Whether the topics have changed.

        Only the leader also checks the numbers of their partitions.
        """
        return counts.keys() != self._counts.keys() or (self._is_leader and counts != self._counts)

    def _is_current(self, step: Step) -> bool:
        match step:
            case Join():
                return self.phase is Phase.ENTERING and self._stage is _Stage.JOIN
            case Sync(membership):
                return self._stage is _Stage.SYNC and membership == self._membership
            case Heartbeat(membership):
                return membership == self._membership
            case Fetch(topic_partitions):
                return topic_partitions == self.topic_partitions
            case _:
                return False

    def _farewell(self) -> Farewell | None:
        # The group waits for a static member, which may come back within its session.
        is_static = self.settings.instance_id is not None
        return Leave(self._member_id) if self._member_id and not is_static else None

    def _forget(self, *, keeps_id: bool = False) -> None:
        self.standing = self._membership = None
        self._is_leader = False
        self._owned = ()
        if not keeps_id:
            self._member_id = ""

    def _note_given_up(self) -> None:
        if self._membership is not None:
            self._owned = self.topic_partitions
            self._owned_generation_id = self._membership.generation_id

    def _note_refused(self, error: OffsetdError, now_s: float) -> None:
        if isinstance(error, MemberIdRequired):
            self._member_id = error.member_id  # It joins again with this id.
        else:
            super()._note_refused(error, now_s)
