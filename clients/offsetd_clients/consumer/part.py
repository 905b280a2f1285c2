"""A consumer's part in its group: how it comes by partitions, keeps them, and loses them.

    APART ──enter──► ENTERING ──fetched──► ARRIVED ──take──► HOLDING
      ▲                  ▲                    │                │  │
      │                  └──── rebalance ─────┘    rebalance   │  │ fenced, or left
      └──revoked── YIELDING ◄──────────────────────────────────┘  │
      └──let_go─── LOST ◄──────(also from YIELDING)───────────────┘

Two take part. Who iterates lists the source, takes partitions, and is told of revoked and lost
ones. The keeper, in the background, does one `Step` after the other: it joins, and sends
heartbeats. Both change this object, never at the same time: the driver guards it. Times are those
of a clock that is never set, in seconds.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

import attrs

from offsetd_clients.consumer.errors import fenced_by, not_asked_for
from offsetd_clients.consumer.settings import ConsumerSettings
from offsetd_clients.consumer.steps import (
    End,
    Farewell,
    Fetch,
    Heartbeat,
    Renew,
    Step,
    Wait,
)
from offsetd_clients.errors import (
    DeadlineExceeded,
    EpochFenced,
    FencedInstance,
    IllegalGeneration,
    OffsetdError,
    RebalanceInProgress,
    UnknownMember,
)
from offsetd_clients.membership_values import Membership
from offsetd_clients.values import CommittedOffset, TopicPartition

FENCED = (UnknownMember, IllegalGeneration, FencedInstance, EpochFenced)
AGAIN_AFTER_S = 1.0
"""So long it rests after a call that the server could not answer, however often that was tried."""


class Phase(Enum):
    """Where a consumer is with its partitions."""

    APART = auto()
    ENTERING = auto()
    ARRIVED = auto()
    HOLDING = auto()
    YIELDING = auto()
    LOST = auto()
    CLOSED = auto()


@attrs.frozen(kw_only=True)
class Standing:
    """What commits are made with: a generation's member, or the epoch of a lease."""

    membership: Membership | None = None
    epoch: int | None = None


class Part(ABC):
    """What members and holders of a lease have alike."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self.settings = settings
        self.phase = Phase.APART
        self.topic_partitions: tuple[TopicPartition, ...] = ()
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        # Of partitions that arrived: where the user wants them to begin, whatever is committed.
        self.sought: dict[TopicPartition, int] = {}
        self.standing: Standing | None = None
        # By our own clock, counted from before the last call that the server took as a sign.
        self.alive_until_s = -math.inf
        self.away_since_s: float | None = None
        self._counts: dict[str, int] = {}
        self._problem: Exception | None = None
        self._is_told = False
        self._is_fenced_for_good = False
        self._beat_s = -math.inf
        self._not_before_s = -math.inf

    # Who iterates.

    def may_give(self, now_s: float) -> bool:
        """Whether an item may be handed out: the partitions are ours, and nobody else's yet."""
        return self.phase is Phase.HOLDING and now_s < self.alive_until_s

    def enter(self, counts: Mapping[str, int]) -> None:
        """Begins to come by partitions, of a source that has these."""
        assert self.phase is Phase.APART
        self._counts = dict(counts)
        self.phase = Phase.ENTERING
        self._begin_entering()

    def seek(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Where a partition is to begin that has arrived and is not held; or not, if it has not."""
        if self.phase is not Phase.ARRIVED or topic_partition not in self.topic_partitions:
            return False
        self.sought[topic_partition] = offset
        return True

    def take(self) -> bool:
        """The partitions are held from now on; or not, if they are to be given out anew already."""
        if self.phase is not Phase.ARRIVED:
            return False
        self.phase = Phase.HOLDING
        return True

    def note_source(self, counts: Mapping[str, int]) -> None:
        """What the source has now; it may take a rebalance."""
        if self.phase is Phase.HOLDING and self._is_outdated_by(counts):
            self.phase = Phase.YIELDING

    def give_up(self) -> None:
        """Whatever is held is to be revoked, as this is the end."""
        if self.phase is Phase.HOLDING:
            self.phase = Phase.YIELDING

    def begin_revoke(self) -> bool:
        """The user is told next; or not, if the partitions were lost by now."""
        if self.phase is not Phase.YIELDING:
            return False
        self._is_told = True
        return True

    def revoked(self) -> None:
        """The user was told, and holds nothing."""
        self._is_told = False
        self._note_given_up()
        self.topic_partitions = ()
        self.phase = Phase.LOST if self._problem else Phase.APART

    def let_go(self) -> Exception:
        """The user was told of lost partitions, if there were any; what is to be raised."""
        assert self.phase is Phase.LOST
        assert self._problem is not None
        problem, self.topic_partitions = self._problem, ()
        if not self._is_fenced_for_good:
            self.phase, self._problem = Phase.APART, None
        return problem

    def close(self) -> Farewell | None:
        """The end; what is left to be said to the server."""
        self.phase = Phase.CLOSED
        return self._take_farewell()

    def refused(self, standing: Standing, error: OffsetdError, now_s: float) -> None:
        """A commit failed that was made with `standing`."""
        if standing == self.standing:
            self._note_refused(error, now_s)

    # The keeper.

    def next_step(self, now_s: float) -> Step:
        """What is to be done in the background; then `note_…` what came of it."""
        if self.phase is Phase.CLOSED:
            # There is one where an answer came after the end.
            return self._take_farewell() or End()
        if self._is_away_too_long(now_s) and (farewell := self._leave_for_absence()):
            return farewell
        if self._is_to_beat() and now_s >= self._beat_s:
            return self._beat()
        if self.phase is Phase.ENTERING and now_s >= self._not_before_s:
            return self._entering_step()
        return Wait(self._wake_s(now_s))

    def note_answer(self, step: Step, answer: Any, began_s: float, now_s: float) -> None:
        """A step, begun at `began_s`, was answered: `answer` is what the client's call returned."""
        if isinstance(step, Heartbeat | Renew):
            self.note_beat(now_s)
            if self._is_current(step):
                self._note_alive(began_s)
        elif isinstance(step, Fetch) and self.phase is Phase.ENTERING and self._is_current(step):
            self.committed = dict(answer)
            self.sought = {}
            self.phase = Phase.ARRIVED

    def note_beat(self, now_s: float) -> None:
        """A sign of life was sent, whatever came of it."""
        self._beat_s = now_s + self._beat_interval_s

    def note_refusal(self, step: Step, error: OffsetdError, began_s: float, now_s: float) -> None:
        """A step failed."""
        if isinstance(step, Heartbeat | Renew):
            self.note_beat(now_s)
        if self._is_current(step):
            if isinstance(error, RebalanceInProgress):
                self._note_alive(began_s)
            self._note_refused(error, now_s)

    def committed_with(self, standing: Standing, began_s: float) -> None:
        """A commit was answered that was made with `standing`: a member's is a sign of life."""
        if standing == self.standing and standing.membership is not None:
            self._note_alive(began_s)

    def fail(self, error: Exception) -> None:
        """Whoever asks for items is to be told this, and then may ask again."""
        if self.phase not in (Phase.LOST, Phase.CLOSED):
            self._forget(keeps_id=True)
            self._lose(error)

    # What differs.

    @property
    @abstractmethod
    def _session_s(self) -> float: ...

    @property
    @abstractmethod
    def _beat_interval_s(self) -> float: ...

    @abstractmethod
    def _begin_entering(self) -> None: ...

    @abstractmethod
    def _entering_step(self) -> Step: ...

    @abstractmethod
    def _beat(self) -> Step: ...

    @abstractmethod
    def _is_outdated_by(self, counts: Mapping[str, int]) -> bool: ...

    @abstractmethod
    def _is_current(self, step: Step) -> bool:
        """Whether a step is still about what this is now."""

    @abstractmethod
    def _farewell(self) -> Farewell | None:
        """What ends what this is in the group; None if it is nobody, or is to be waited for."""

    @abstractmethod
    def _forget(self, *, keeps_id: bool = False) -> None:
        """It is nobody in the group now; `keeps_id`: or one who may join again as who it was."""

    def _note_given_up(self) -> None:  # noqa: B027  (a lease has nothing to note)
        """Partitions were revoked in good order."""

    # What is alike.

    def _note_alive(self, began_s: float) -> None:
        self.alive_until_s = max(self.alive_until_s, began_s + self._session_s)

    def _note_refused(self, error: OffsetdError, now_s: float) -> None:
        if isinstance(error, FENCED):
            self._fence(error)
        elif isinstance(error, RebalanceInProgress):
            self._rebalance()
        elif not (error.retriable or isinstance(error, DeadlineExceeded)):
            self.fail(error)
        else:
            self._not_before_s = now_s + AGAIN_AFTER_S

    def _rebalance(self) -> None:
        """All are to join again."""
        if self.phase is Phase.HOLDING:
            self.phase = Phase.YIELDING
        elif self.phase in (Phase.ARRIVED, Phase.ENTERING):
            self._enter_again()

    def _fence(self, error: OffsetdError) -> None:
        self._is_fenced_for_good = isinstance(error, FencedInstance)
        had = self._held()
        self._forget(keeps_id=isinstance(error, IllegalGeneration))
        if had or self._is_fenced_for_good:
            self._lose(fenced_by(error, had))
        elif self.phase in (Phase.ARRIVED, Phase.ENTERING):
            self._enter_again()
        else:
            self._part_with_nothing()

    def _lose(self, problem: Exception) -> None:
        """No partition is held any more, and who asks next is told why."""
        self._problem = problem
        self.topic_partitions = self._held()
        # Whoever is being told that they are revoked is not told that they are lost, too.
        if not (self.phase is Phase.YIELDING and self._is_told):
            self.phase = Phase.LOST

    def _part_with_nothing(self) -> None:
        """Nobody has to be told: there were no partitions, or none that the user knew of."""
        if self.phase in (Phase.ENTERING, Phase.ARRIVED, Phase.HOLDING) or (
            self.phase is Phase.YIELDING and not self._is_told
        ):
            self.topic_partitions = ()
            self.phase = Phase.APART

    def _held(self) -> tuple[TopicPartition, ...]:
        """What the user believes to have."""
        is_held = self.phase is Phase.HOLDING or (
            self.phase is Phase.YIELDING and not self._is_told
        )
        return self.topic_partitions if is_held else ()

    def _enter_again(self) -> None:
        self.topic_partitions = ()
        self.phase = Phase.ENTERING
        self._begin_entering()

    def _is_away_too_long(self, now_s: float) -> bool:
        return (
            self.away_since_s is not None
            and now_s - self.away_since_s >= self.settings.poll_interval_s_max
        )

    def _leave_for_absence(self) -> Farewell | None:
        """Nobody asks for items: others may have the partitions."""
        had, farewell = self._held(), self._take_farewell()
        if had:
            self._lose(not_asked_for(self.settings.poll_interval_s_max, had))
        else:
            self._part_with_nothing()
        return farewell

    def _take_farewell(self) -> Farewell | None:
        farewell = self._farewell()
        self._forget()
        return farewell

    def _is_to_beat(self) -> bool:
        return self.standing is not None

    def _wake_s(self, now_s: float) -> float | None:
        wakes = []
        if self._is_to_beat():
            wakes.append(self._beat_s)
        if self.phase is Phase.ENTERING:
            wakes.append(self._not_before_s)
        if self.standing is not None or self.phase in (Phase.ENTERING, Phase.ARRIVED):
            # Who asks now is counted from the moment when they go.
            away_s = now_s if self.away_since_s is None else self.away_since_s
            wakes.append(away_s + self.settings.poll_interval_s_max)
        return min(wakes, default=None)
