"""Histories of one group: good ones, bad ones with a planted fault, and lives drawn at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from history_checker import (
    Acquire,
    Call,
    Commit,
    Condition,
    Deleted,
    DeleteGroup,
    DeleteOffsets,
    Fetch,
    Fetched,
    GroupState,
    Operation,
    Outcome,
    Refused,
    Release,
    Written,
    decide,
)

if TYPE_CHECKING:
    from random import Random


def op(called: float, answered: float, call: Call, outcome: Outcome) -> Operation:
    return Operation(call, called, answered, outcome)


def lost(called: float, call: Call) -> Operation:
    """Called, and never answered."""
    return Operation(call, called)


def both(value: int, **more: Any) -> Commit:
    """A commit of two partitions: `value` and the one behind it."""
    return Commit(((0, value), (1, value + 1)), **more)


def read(value: int, revision: int) -> Fetched:
    """What is stored after `both(value)`, whose last revision was `revision`."""
    return Fetched(((0, value, revision - 1), (1, value + 1, revision)))


NOTHING = Fetched(())
FIRST = op(0, 1, both(10), Written(1))
SECOND = op(2, 3, both(20), Written(3))
TAKEN = op(0, 1, Acquire("a", force=False), Written(0))
TAKEN_OVER = op(2, 3, Acquire("b", force=True), Written(1))

GOOD = {
    "nothing at all": [],
    "one after the other": [
        FIRST,
        op(1.5, 1.8, Fetch(), read(10, 1)),
        SECOND,
        op(4, 5, Fetch(), read(20, 3)),
    ],
    "a read beside a write sees what was before it": [
        FIRST,
        attrs.evolve(SECOND, answered=9),
        op(4, 5, Fetch(), read(10, 1)),
        op(6, 7, Fetch(), read(20, 3)),
    ],
    "an unanswered commit was done": [
        FIRST,
        lost(2, both(20)),
        op(3, 4, Fetch(), read(10, 1)),
        op(5, 6, Fetch(), read(20, 3)),
    ],
    "an unanswered commit was not done": [
        FIRST,
        lost(2, both(20)),
        op(3, 4, both(30), Written(3)),
        op(5, 6, Fetch(), read(30, 3)),
    ],
    "an unanswered commit was overwritten unseen": [
        FIRST,
        lost(2, both(20)),
        op(3, 4, both(30), Written(5)),
        op(5, 6, Fetch(), read(30, 5)),
    ],
    "an unanswered deletion was done late": [
        FIRST,
        lost(2, DeleteOffsets()),
        op(3, 4, Fetch(), read(10, 1)),
        op(5, 6, Fetch(), NOTHING),
    ],
    "a deletion found what an unanswered commit left": [
        lost(0, both(10)),
        op(2, 3, DeleteOffsets(), Deleted(3, 2)),
    ],
    "one of two conditions holds": [
        FIRST,
        op(2, 4, both(20, condition=Condition(0, offset=10)), Written(3)),
        op(
            2,
            4,
            both(30, condition=Condition(0, offset=10)),
            Refused("OFFSET_CONFLICT", stored=(20, 2)),
        ),
    ],
    "a condition was met by an unanswered commit": [
        FIRST,
        lost(2, both(20, condition=Condition(0, revision=0))),
        op(
            3,
            4,
            both(30, condition=Condition(0, offset=10)),
            Refused("OFFSET_CONFLICT", stored=(20, 2)),
        ),
        op(5, 6, Fetch(), read(20, 3)),
    ],
    "a lease is taken over, and the old epoch is refused": [
        TAKEN,
        op(1.1, 1.2, both(10, epoch=0), Written(2)),
        attrs.evolve(TAKEN_OVER, outcome=Written(3)),
        op(4, 5, both(20, epoch=0), Refused("EPOCH_FENCED", "b", 3)),
        op(6, 7, both(30), Refused("LEASE_HELD", "b", 3)),
        op(8, 9, Release(3), Written(4)),
        op(10, 11, both(40), Written(6)),
        op(12, 13, Fetch(), read(40, 6)),
    ],
    "an unanswered acquisition fences": [
        TAKEN,
        lost(2, Acquire("b", force=True)),
        op(4, 5, both(20, epoch=0), Refused("EPOCH_FENCED", "b", 1)),
    ],
    "an unanswered release lets others in": [
        TAKEN,
        lost(2, Release(0)),
        op(4, 5, both(20), Written(3)),
    ],
    "a group is deleted once": [
        FIRST,
        op(2, 5, DeleteGroup(), Deleted(4, 2)),
        op(3, 6, DeleteGroup(), Refused("GROUP_ID_NOT_FOUND")),
        op(7, 8, DeleteOffsets(), Deleted(None, 0)),
    ],
}


BAD = {
    "a stale read": [FIRST, SECOND, op(4, 5, Fetch(), read(10, 1))],
    "reads that go back": [
        FIRST,
        attrs.evolve(SECOND, answered=9),
        op(4, 5, Fetch(), read(20, 3)),
        op(6, 7, Fetch(), read(10, 1)),
    ],
    "an acknowledged commit is lost": [FIRST, op(2, 3, Fetch(), NOTHING)],
    "an acknowledged commit is lost, and another was never answered": [
        FIRST,
        SECOND,
        lost(4, both(30)),
        op(5, 6, Fetch(), read(10, 1)),
    ],
    "what was read is lost in a crash": [
        FIRST,
        lost(2, both(20)),
        op(3, 4, Fetch(), read(20, 3)),
        op(5, 6, Fetch(), read(10, 1)),
    ],
    "a commit of two partitions is torn": [
        FIRST,
        SECOND,
        op(4, 5, Fetch(), Fetched(((0, 20, 2), (1, 11, 1)))),
    ],
    "an unanswered commit is torn": [
        FIRST,
        lost(2, both(20)),
        op(4, 5, Fetch(), Fetched(((0, 20, 2), (1, 11, 1)))),
    ],
    "two win with the same condition": [
        FIRST,
        op(2, 9, both(20, condition=Condition(0, offset=10)), Written(3)),
        op(2, 9, both(30, condition=Condition(0, offset=10)), Written(5)),
    ],
    "two find nothing, and write": [
        op(0, 9, both(20, condition=Condition(0)), Written(1)),
        op(0, 9, both(30, condition=Condition(0)), Written(3)),
    ],
    "a condition that holds is refused": [
        FIRST,
        op(
            2,
            3,
            both(20, condition=Condition(0, offset=10)),
            Refused("OFFSET_CONFLICT", stored=(10, 0)),
        ),
    ],
    "a refusal tells of something else than was stored": [
        FIRST,
        op(
            2,
            3,
            both(20, condition=Condition(0, revision=7)),
            Refused("OFFSET_CONFLICT", stored=None),
        ),
    ],
    "a commit with an old epoch is taken": [
        TAKEN,
        TAKEN_OVER,
        op(4, 5, both(20, epoch=0), Written(3)),
    ],
    "a commit without an epoch is taken while a lease is held": [
        TAKEN,
        op(4, 5, both(20), Written(2)),
    ],
    "an epoch does not grow": [TAKEN, attrs.evolve(TAKEN_OVER, outcome=Written(0))],
    "two hold the lease without force": [
        TAKEN,
        op(2, 3, Acquire("b", force=False), Written(1)),
    ],
    "a refusal names who held the lease before": [
        TAKEN,
        TAKEN_OVER,
        op(4, 5, both(20), Refused("LEASE_HELD", "a", 0)),
    ],
    "a deletion leaves a partition": [
        FIRST,
        op(2, 3, DeleteOffsets(), Deleted(3, 2)),
        op(4, 5, Fetch(), Fetched(((1, 11, 1),))),
    ],
    "a deletion is seen half done": [
        FIRST,
        op(2, 5, DeleteOffsets(), Deleted(3, 2)),
        op(3, 4, Fetch(), Fetched(((1, 11, 1),))),
    ],
    "a deleted offset comes back": [
        FIRST,
        op(2, 3, DeleteOffsets(), Deleted(3, 2)),
        op(4, 5, Fetch(), NOTHING),
        op(6, 7, Fetch(), read(10, 1)),
    ],
    "a deletion finds less than there is": [FIRST, op(2, 3, DeleteGroup(), Deleted(3, 1))],
    "revisions do not go with time": [FIRST, attrs.evolve(SECOND, outcome=Written(0))],
    "two writes have one revision": [FIRST, attrs.evolve(SECOND, outcome=Written(2))],
    "a value that nobody wrote": [FIRST, op(2, 3, Fetch(), read(50, 3))],
    "a value that is written later": [op(0, 1, Fetch(), read(20, 3)), SECOND],
    "a later unanswered commit is read": [op(0, 1, Fetch(), read(20, 3)), lost(2, both(20))],
}


class Life:
    """Clients of one group that is what `decide` says: calls that overlap, answers that go lost."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.state = GroupState()
        self.revision = -1
        self.value = 0
        self.operations: list[Operation] = []
        self.now = 0.0
        # What clients were told: they know nothing else. Nothing ever has these.
        self.stored = (1, -2)
        self.epoch = -2

    def run(self, length: int, clients: int) -> list[Operation]:
        waiting: list[tuple[Call, float, Outcome | None]] = []
        for _ in range(length):
            self.now += 1
            if len(waiting) < clients and self.rng.random() < 0.6:
                waiting.append((self.call(), self.now, None))
            elif waiting:
                at = self.rng.randrange(len(waiting))
                call, called, outcome = waiting[at]
                if outcome is None:
                    waiting[at] = (call, called, self.take_place(call))
                else:
                    del waiting[at]
                    self.answer(call, called, outcome)
        self.operations += [lost(called, call) for call, called, _ in waiting]
        return self.operations

    def answer(self, call: Call, called: float, outcome: Outcome) -> None:
        if self.rng.random() < 0.1:
            self.operations.append(lost(called, call))
        else:
            self.operations.append(op(called, self.now, call, outcome))
            if isinstance(outcome, Fetched) and outcome.offsets:
                self.stored = outcome.offsets[0][1:]
            if isinstance(outcome, Written) and isinstance(call, Acquire):
                self.epoch = outcome.revision

    def call(self) -> Call:
        self.value += 10
        offset, revision = self.stored
        conditions = [
            Condition(0),
            Condition(0, offset=offset),
            Condition(0, revision=revision),
            None,
        ]
        calls: list[Call] = [
            Fetch(),
            Fetch(),
            both(self.value, condition=self.rng.choice(conditions)),
            both(self.value, epoch=self.epoch),
            both(self.value),
            DeleteOffsets() if self.rng.random() < 0.5 else DeleteGroup(),
            Acquire(str(self.value), force=self.rng.random() < 0.5),
            Release(self.epoch),
        ]
        return self.rng.choice(calls)

    def take_place(self, call: Call) -> Outcome:
        count = len(call.values) if isinstance(call, Commit) else 1
        self.state, outcome = decide(self.state, call, self.revision + count)
        if isinstance(outcome, Written | Deleted) and outcome.revision is not None:
            self.revision = outcome.revision
        return outcome
