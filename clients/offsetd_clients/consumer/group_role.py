"""A consumer's part in its group: how it gets partitions, keeps them, and loses them.

    APART ──enter──► ENTERING ──fetched──► ARRIVED ──take──► HOLDING
      ▲                  ▲                    │                │  │
      │                  └──── rebalance ─────┘    rebalance   │  │ fenced, or left
      └──revoked── YIELDING ◄──────────────────────────────────┘  │
      └──let_go─── LOST ◄──────(also from YIELDING)───────────────┘

Two callers share it. The iterating caller lists the source, takes partitions, and reports revoked
and lost ones to the user. The keeper works in the background, one `Step` after the other: it joins,
and sends heartbeats. Both change this object, but never at the same time: the driver guards it.
Times are in seconds, by a monotonic clock.
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
"""The pause after a call that the server could not answer in spite of its retries."""


class Phase(Enum):
    """The state of a consumer's partitions."""

    APART = auto()
    ENTERING = auto()
    ARRIVED = auto()
    HOLDING = auto()
    YIELDING = auto()
    LOST = auto()
    CLOSED = auto()


@attrs.frozen(kw_only=True)
class Standing:
    """The identity that commits carry: a member in a generation, or the epoch of a lease."""

    membership: Membership | None = None
    epoch: int | None = None


class GroupRole(ABC):
    """The common base of members and of lease holders."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self.settings = settings
        self.phase = Phase.APART
        self.topic_partitions: tuple[TopicPartition, ...] = ()
        self.committed: dict[TopicPartition, CommittedOffset] = {}
        # The user's start offsets for partitions that have arrived. They replace the committed
        # offsets.
        self.sought: dict[TopicPartition, int] = {}
        self.standing: Standing | None = None
        # The end of the session by our own clock. It counts from the start of the last call that
        # the server took as a sign of life.
        self.alive_until_s = -math.inf
        self.away_since_s: float | None = None
        self._counts: dict[str, int] = {}
        self._problem: Exception | None = None
        self._is_told = False
        self._is_fenced_for_good = False
        self._beat_s = -math.inf
        self._not_before_s = -math.inf

    # Methods for the iterating caller.

    def may_give(self, now_s: float) -> bool:
        """Whether an item may be handed out: the partitions are held, and the session lasts."""
        return self.phase is Phase.HOLDING and now_s < self.alive_until_s

    def enter(self, counts: Mapping[str, int]) -> None:
        """Begins to ask for partitions. `counts` are those of the source."""
        assert self.phase is Phase.APART
        self._counts = dict(counts)
        self.phase = Phase.ENTERING
        self._begin_entering()

    def seek(self, topic_partition: TopicPartition, offset: int) -> bool:
        """Sets the start of a partition that has arrived and is not held yet.

        Returns False if the partition has not arrived.
        """
        if self.phase is not Phase.ARRIVED or topic_partition not in self.topic_partitions:
            return False
        self.sought[topic_partition] = offset
        return True

    def take(self) -> bool:
        """Holds the partitions. Returns False if the group is already assigning them again."""
        if self.phase is not Phase.ARRIVED:
            return False
        self.phase = Phase.HOLDING
        return True

    def note_source(self, counts: Mapping[str, int]) -> None:
        """Notes the source's present partitions. A change may need a rebalance."""
        if self.phase is Phase.HOLDING and self._is_outdated_by(counts):
            self.phase = Phase.YIELDING

    def give_up(self) -> None:
        """Lets all held partitions be revoked, because the consumer closes."""
        if self.phase is Phase.HOLDING:
            self.phase = Phase.YIELDING

    def begin_revoke(self) -> bool:
        """Begins to report revoked partitions to the user. Returns False if they are lost."""
        if self.phase is not Phase.YIELDING:
            return False
        self._is_told = True
        return True

    def revoked(self) -> None:
        """Notes that the user knows of the revocation, and holds no partitions."""
        self._is_told = False
        self._note_given_up()
        self.topic_partitions = ()
        self.phase = Phase.LOST if self._problem else Phase.APART

    def let_go(self) -> Exception:
        """Notes that the user knows of the lost partitions, if there were any.

        Returns the error to raise.
        """
        assert self.phase is Phase.LOST
        assert self._problem is not None
        problem, self.topic_partitions = self._problem, ()
        if not self._is_fenced_for_good:
            self.phase, self._problem = Phase.APART, None
        return problem

    def close(self) -> Farewell | None:
        """Ends the role. Returns the last call to make to the server, if any."""
        self.phase = Phase.CLOSED
        return self._take_farewell()

    def refused(self, standing: Standing, error: OffsetdError, now_s: float) -> None:
        """Notes that a commit under `standing` failed."""
        if standing == self.standing:
            self._note_refused(error, now_s)

    # Methods for the keeper.

    def next_step(self, now_s: float) -> Step:
        """The next step of the background work. Call the matching `note_…` method afterwards."""
        if self.phase is Phase.CLOSED:
            # A late answer may have created a membership or lease, which must be released.
            return self._take_farewell() or End()
        if self._is_away_too_long(now_s) and (farewell := self._leave_for_absence()):
            return farewell
        if self._is_to_beat() and now_s >= self._beat_s:
            return self._beat()
        if self.phase is Phase.ENTERING and now_s >= self._not_before_s:
            return self._entering_step()
        return Wait(self._wake_s(now_s))

    def note_answer(self, step: Step, answer: Any, began_s: float, now_s: float) -> None:
        """Notes the answer of a step that began at `began_s`: the result of the client's call."""
        if isinstance(step, Heartbeat | Renew):
            self.note_beat(now_s)
            if self._is_current(step):
                self._note_alive(began_s)
        elif isinstance(step, Fetch) and self.phase is Phase.ENTERING and self._is_current(step):
            self.committed = dict(answer)
            self.sought = {}
            self.phase = Phase.ARRIVED

    def note_beat(self, now_s: float) -> None:
        """Notes that a heartbeat was sent. Its outcome does not matter."""
        self._beat_s = now_s + self._beat_interval_s

    def note_refusal(self, step: Step, error: OffsetdError, began_s: float, now_s: float) -> None:
        """Notes that a step has failed."""
        if isinstance(step, Heartbeat | Renew):
            self.note_beat(now_s)
        if self._is_current(step):
            if isinstance(error, RebalanceInProgress):
                self._note_alive(began_s)
            self._note_refused(error, now_s)

    def committed_with(self, standing: Standing, began_s: float) -> None:
        """Notes an answer to a commit under `standing`. A member's commit is a sign of life."""
        if standing == self.standing and standing.membership is not None:
            self._note_alive(began_s)

    def fail(self, error: Exception) -> None:
        """The next request for items raises this error. The caller may then ask again."""
        if self.phase not in (Phase.LOST, Phase.CLOSED):
            self._forget(keeps_id=True)
            self._lose(error)

    # Members and leases implement these methods differently.

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
        """Whether a step still belongs to the present membership or lease."""

    @abstractmethod
    def _farewell(self) -> Farewell | None:
        """The call that ends the membership or lease, if there is one and it must end."""

    @abstractmethod
    def _forget(self, *, keeps_id: bool = False) -> None:
        """Forgets the membership or lease. `keeps_id`: it may rejoin under the same member id."""

    def _note_given_up(self) -> None:  # noqa: B027  (a lease has nothing to note)
        """Notes that the partitions were revoked in good order."""

    # Members and leases share these methods.

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
        """The group rebalances: all members join again."""
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
        """Drops all partitions. The next request for items raises `problem`."""
        self._problem = problem
        self.topic_partitions = self._held()
        # While the user's callback for the revocation runs, the loss is not reported too.
        if not (self.phase is Phase.YIELDING and self._is_told):
            self.phase = Phase.LOST

    def _part_with_nothing(self) -> None:
        """Ends the role without a report: the user knew of no partitions."""
        if self.phase in (Phase.ENTERING, Phase.ARRIVED, Phase.HOLDING) or (
            self.phase is Phase.YIELDING and not self._is_told
        ):
            self.topic_partitions = ()
            self.phase = Phase.APART

    def _held(self) -> tuple[TopicPartition, ...]:
        """The partitions that the user believes it holds."""
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
        """Leaves because the caller asks for no items, so that other members get the partitions."""
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
            # The poll interval counts from the caller's last request for items. While a request
            # is running, the interval has not begun.
            away_s = now_s if self.away_since_s is None else self.away_since_s
            wakes.append(away_s + self.settings.poll_interval_s_max)
        return min(wakes, default=None)
