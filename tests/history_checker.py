"""Whether what clients saw of one group could have happened in one order: strict serializability.

A history is a set of operations, each with when it was called and when it was answered. It is good
if they can be put in an order in which each takes place between its call and its answer, and each
answer is what `decide`, the group as a pure value, gives there. What was never answered may have
taken place at any time after its call, or never.

The search is Wing and Gong's with Lowe's memory of where it has been. Three things keep it small:

- Writes stand in the order of their revisions, which is a promise of its own.
- What changes nothing (reads, refusals) goes in as soon as it fits: that closes no other way.
- Values are unique. So an unanswered write that somebody has seen is known, with its revision, to
  have happened before that was answered; of those that nobody has seen, equal ones are the same.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

UNSEEN = -1
"""What stands for the value, revision or epoch of a write that nobody has seen."""
NODES_MAX = 300_000


@attrs.frozen
class Condition:
    """What has to be stored for a partition; without offset and revision: nothing."""

    partition: int
    offset: int | None = None
    revision: int | None = None


@attrs.frozen
class Commit:
    """Commits values, each used once in a history, to partitions."""

    values: tuple[tuple[int, int], ...]
    condition: Condition | None = None
    epoch: int | None = None


@attrs.frozen
class Fetch:
    """Reads all offsets."""


@attrs.frozen
class DeleteOffsets:
    """Deletes all offsets."""


@attrs.frozen
class DeleteGroup:
    """Deletes the group."""


@attrs.frozen
class Acquire:
    """Takes the lease. No two calls have the same holder."""

    holder: str
    force: bool


@attrs.frozen
class Release:
    """Gives the lease up."""

    epoch: int


Call = Commit | Fetch | DeleteOffsets | DeleteGroup | Acquire | Release


@attrs.frozen
class Written:
    """The revision of the last record; of an acquired lease, its epoch."""

    revision: int


@attrs.frozen
class Deleted:
    """The revision of the last tombstone, None if nothing was there; how many offsets went."""

    revision: int | None
    count: int


@attrs.frozen
class Fetched:
    """(partition, offset, revision), sorted."""

    offsets: tuple[tuple[int, int, int], ...]


@attrs.frozen
class Refused:
    """Why nothing was done, with what the refusal told.

    `holder` and `holder_epoch`: of the lease that is in the way, if there is one. `stored`: what
    a condition met, as (offset, revision), None where nothing is stored.
    """

    reason: str
    holder: str = ""
    holder_epoch: int | None = None
    stored: tuple[int, int] | None = None


Outcome = Written | Deleted | Fetched | Refused


@attrs.frozen
class Operation:
    """What one client did; without an outcome, nobody knows what became of it."""

    call: Call
    called: float
    answered: float = math.inf
    outcome: Outcome | None = None
    client: int = 0


class GroupState(NamedTuple):
    """A group: offsets as `Fetched` has them, the lease, and the newest revision known."""

    offsets: tuple[tuple[int, int, int], ...] = ()
    holder: str = ""
    epoch: int | None = None
    revision: int = -1


class NotSerializable(AssertionError):
    """No order explains the history."""


class Undecided(AssertionError):
    """Whether one does was not found out within `NODES_MAX` steps."""


def decide(state: GroupState, call: Call, revision: int) -> tuple[GroupState, Outcome]:
    """What becomes of the group, and the answer; `revision` is that of the last record written."""
    match call:
        case Fetch():
            return state, Fetched(state.offsets)
        case Commit():
            return _commit(state, call, revision)
        case Acquire():
            if state.epoch is not None and not call.force:
                return state, _refused("LEASE_HELD", state)
            lease = GroupState(state.offsets, call.holder, revision, revision)
            return lease, Written(revision)
        case Release():
            if state.epoch != call.epoch:
                return state, _refused("EPOCH_FENCED", state)
            return GroupState(state.offsets, revision=revision), Written(revision)
        case DeleteOffsets() | DeleteGroup():
            if state.epoch is not None:
                return state, _refused("LEASE_HELD", state)
            if state.offsets:
                return GroupState(revision=revision), Deleted(revision, len(state.offsets))
            if isinstance(call, DeleteGroup):
                return state, Refused("GROUP_ID_NOT_FOUND")
            return state, Deleted(None, 0)


def _commit(state: GroupState, call: Commit, revision: int) -> tuple[GroupState, Outcome]:
    if call.epoch is None and state.epoch is not None:
        return state, _refused("LEASE_HELD", state)
    if call.epoch is not None and call.epoch != state.epoch:
        return state, _refused("EPOCH_FENCED", state)
    offsets = {partition: (offset, at) for partition, offset, at in state.offsets}
    if call.condition is not None:
        stored = offsets.get(call.condition.partition)
        if not _holds(call.condition, stored):
            return state, Refused("OFFSET_CONFLICT", stored=stored)
    first = revision - len(call.values) + 1
    for index, (partition, value) in enumerate(call.values):
        offsets[partition] = (value, first + index) if revision != UNSEEN else (UNSEEN, UNSEEN)
    stored_now = tuple((partition, *offsets[partition]) for partition in sorted(offsets))
    newest = max(revision, state.revision)
    return state._replace(offsets=stored_now, revision=newest), Written(revision)


def _holds(condition: Condition, stored: tuple[int, int] | None) -> bool:
    if condition.offset is None and condition.revision is None:
        return stored is None
    if stored is None:
        return False
    offset, revision = stored
    if condition.offset is not None:
        return offset == condition.offset
    return revision == condition.revision


def _refused(reason: str, state: GroupState) -> Refused:
    return Refused(reason, state.holder, state.epoch)


def check_history(operations: Iterable[Operation]) -> None:
    """Raises NotSerializable, or Undecided, if the operations on one group are not in order."""
    Search(_with_what_was_seen(list(operations))).run()


class _Node(NamedTuple):
    """How far an order has got: `low` others are in, and those behind by the bits of `more`."""

    writes: int
    low: int
    more: int
    unanswered: tuple[int, ...]
    state: GroupState


class Search:
    """The search for an order of one history."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        answered = [each for each in operations if each.outcome is not None]
        self._writes = sorted(
            (each for each in answered if _revision(each) is not None), key=_revision_of
        )
        self._others = sorted(
            (each for each in answered if _revision(each) is None), key=lambda each: each.called
        )
        self._deadlines = [math.inf]
        for each in reversed(self._writes):
            self._deadlines.append(min(each.answered, self._deadlines[-1]))
        self._deadlines.reverse()
        shapes: dict[object, list[Operation]] = {}
        for each in sorted(operations, key=lambda each: each.called):
            if each.outcome is None and not isinstance(each.call, Fetch):
                shapes.setdefault(_shape(each.call), []).append(each)
        self._unanswered = list(shapes.values())
        self._furthest: _Node | None = None

    def run(self) -> None:
        """Raises NotSerializable, Undecided."""
        stack = [_Node(0, 0, 0, (0,) * len(self._unanswered), GroupState())]
        seen: set[_Node] = set()
        while stack:
            node = self._with_others(stack.pop())
            if node in seen:
                continue
            seen.add(node)
            if len(seen) > NODES_MAX:
                raise Undecided(self._stuck())
            if self._furthest is None or _progress(node) > _progress(self._furthest):
                self._furthest = node
            if node.writes == len(self._writes) and node.low == len(self._others):
                return
            stack += self._next(node)
        raise NotSerializable(self._stuck())

    def _with_others(self, node: _Node) -> _Node:
        """All that changes nothing and fits here is in."""
        deadline, low, more, state = self._deadline(node), node.low, node.more, node.state
        at = low
        while at < len(self._others) and self._others[at].called <= deadline:
            each = self._others[at]
            if not more >> (at - low) & 1 and decide(state, each.call, UNSEEN)[1] == each.outcome:
                more |= 1 << (at - low)
                while more & 1:
                    more, low = more >> 1, low + 1
                node = node._replace(low=low, more=more)
                deadline, at = self._deadline(node), low
            else:
                at += 1
        return node

    def _deadline(self, node: _Node) -> float:
        """Until when one of those that are not in yet was answered: what was called later waits."""
        deadline = self._deadlines[node.writes]
        for at in range(node.low, len(self._others)):
            if self._others[at].called > deadline:
                break
            if not node.more >> (at - node.low) & 1:
                deadline = min(deadline, self._others[at].answered)
        return deadline

    def _next(self, node: _Node) -> Iterator[_Node]:
        """Where it may go on from here, the likeliest last."""
        deadline = self._deadline(node)
        for shape, used in enumerate(node.unanswered):
            if used == len(self._unanswered[shape]):
                continue
            each = self._unanswered[shape][used]
            if each.called > deadline:
                continue
            state, _ = decide(node.state, each.call, UNSEEN)
            if state != node.state:
                counts = list(node.unanswered)
                counts[shape] += 1
                state = state._replace(revision=node.state.revision)
                yield node._replace(unanswered=tuple(counts), state=state)
        if node.writes < len(self._writes):
            write = self._writes[node.writes]
            revision = _revision_of(write)
            state, outcome = decide(node.state, write.call, revision)
            follows = revision - _record_count(write.call) >= node.state.revision
            if follows and write.called <= deadline and outcome == write.outcome:
                yield node._replace(writes=node.writes + 1, state=state)

    def _stuck(self) -> str:
        """Where the longest order ends, and what could not follow."""
        node = self._furthest
        assert node is not None, "there was a first step"
        deadline = self._deadline(node)
        lines = [f"after {node.writes} writes the group is {node.state}; none of these fits:"]
        waiting = self._writes[node.writes : node.writes + 1]
        waiting += [
            each
            for at, each in enumerate(self._others[node.low :])
            if not node.more >> at & 1 and each.called <= deadline
        ]
        return "\n  ".join([*lines, *map(str, waiting[:10])])


def _progress(node: _Node) -> int:
    return node.writes + node.low + node.more.bit_count()


def _revision(operation: Operation) -> int | None:
    """Of what an answered operation wrote."""
    outcome = operation.outcome
    return outcome.revision if isinstance(outcome, Written | Deleted) else None


def _revision_of(operation: Operation) -> int:
    revision = _revision(operation)
    assert revision is not None, "a write has a revision"
    return revision


def _record_count(call: Call) -> int:
    return len(call.values) if isinstance(call, Commit) else 1


def _shape(call: Call) -> object:
    """What unanswered calls have in common that come to the same, as nobody has seen them."""
    if isinstance(call, Commit):
        values = tuple((partition, UNSEEN) for partition, _ in call.values)
        return attrs.evolve(call, values=values)
    return attrs.evolve(call, holder="") if isinstance(call, Acquire) else call


def _with_what_was_seen(operations: list[Operation]) -> list[Operation]:
    """Unanswered writes whose value or epoch somebody has seen, with what that tells of them."""
    offsets: dict[int, tuple[int, float]] = {}
    leases: dict[str, tuple[int, float]] = {}
    for each in operations:
        for value, revision in _values_seen(each.outcome):
            until = offsets.get(value, (0, math.inf))[1]
            offsets[value] = revision, min(until, each.answered)
        if isinstance(each.outcome, Refused) and each.outcome.holder_epoch is not None:
            until = leases.get(each.outcome.holder, (0, math.inf))[1]
            leases[each.outcome.holder] = each.outcome.holder_epoch, min(until, each.answered)
    return [_known(each, offsets, leases) if each.outcome is None else each for each in operations]


def _values_seen(outcome: Outcome | None) -> Iterator[tuple[int, int]]:
    if isinstance(outcome, Fetched):
        for _, value, revision in outcome.offsets:
            yield value, revision
    elif isinstance(outcome, Refused) and outcome.stored is not None:
        yield outcome.stored


def _known(
    operation: Operation,
    offsets: dict[int, tuple[int, float]],
    leases: dict[str, tuple[int, float]],
) -> Operation:
    call = operation.call
    if isinstance(call, Acquire) and call.holder in leases:
        epoch, until = leases[call.holder]
        return attrs.evolve(operation, outcome=Written(epoch), answered=until)
    if isinstance(call, Commit):
        seen = [
            (offsets[value][0] + len(call.values) - 1 - index, offsets[value][1])
            for index, (_, value) in enumerate(call.values)
            if value in offsets
        ]
        if seen:
            until = min(answered for _, answered in seen)
            return attrs.evolve(operation, outcome=Written(seen[0][0]), answered=until)
    return operation
