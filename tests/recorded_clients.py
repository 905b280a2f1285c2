"""Clients of a real server that note every call and its answer, as `history_checker` takes them."""

from __future__ import annotations

import itertools
import json
import math
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

import attrs
import grpc
from google.rpc.error_details_pb2 import ErrorInfo
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
    Operation,
    Outcome,
    Refused,
    Release,
    Written,
)
from offsetd.v1 import group_service_pb2, offset_service_pb2
from refusals import status_of

if TYPE_CHECKING:
    import random

    from server_process import Stubs

TOPIC = "orders"
PARTITIONS = 3
_CALL_SECONDS_MAX = 60
# Reasons for which a call has certainly not been done; the others that are met are outcomes.
_NOT_DONE = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "DEADLINE_SPENT",
    }
)
_NOT_SENT = "failed to connect to all addresses"  # How gRPC begins to say so.
_OUTCOMES = frozenset({"LEASE_HELD", "EPOCH_FENCED", "OFFSET_CONFLICT", "GROUP_ID_NOT_FOUND"})
_UNKNOWN = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


class NotDone(Exception):
    """The call has certainly not been done. `address`: of the node that can, if that was told."""

    def __init__(self, address: str = "") -> None:
        super().__init__(address)
        self.address = address


class NobodyKnows(Exception):
    """The connection broke: the call may have been done, or be done yet."""


class Caller(Protocol):
    """Calls one group, somehow."""

    @property
    def group_id(self) -> str:
        """The group."""

    def do(self, call: Call) -> Outcome:
        """The answer. Raises NotDone, NobodyKnows, and whatever nobody expects."""


class GroupCalls:
    """One group, called over one connection."""

    def __init__(
        self, group_id: str, stubs: Stubs, *, seconds_max: float = _CALL_SECONDS_MAX
    ) -> None:
        self.group_id = group_id
        self._stubs = stubs
        self._seconds_max = seconds_max

    def do(self, call: Call) -> Outcome:
        """What the server answers. Raises NotDone, NobodyKnows, and whatever nobody expects."""
        try:
            return self._done(call)
        except grpc.RpcError as error:
            reason, variables = _reason(error)
            if reason in _OUTCOMES:
                return _refusal(call, reason, variables)
            is_unsent = not reason and (error.details() or "").startswith(_NOT_SENT)
            if reason in _NOT_DONE or is_unsent:
                raise NotDone(variables.get("address", "")) from error
            if error.code() in _UNKNOWN:
                raise NobodyKnows from error
            raise

    def _done(self, call: Call) -> Outcome:
        seconds, group_id = self._seconds_max, self.group_id
        match call:
            case Fetch():
                return self._fetched()
            case Commit():
                committed = self._stubs.offsets.CommitOffsets(self._commit(call), timeout=seconds)
                return Written(committed.revision.log_offset)
            case DeleteOffsets():
                request = offset_service_pb2.DeleteOffsetsRequest(group_id=group_id, topics=[TOPIC])
                deleted = self._stubs.offsets.DeleteOffsets(request, timeout=seconds)
                at = deleted.revision.log_offset if deleted.HasField("revision") else None
                return Deleted(at, len(deleted.deleted))
            case DeleteGroup():
                removal = group_service_pb2.DeleteGroupRequest(group_id=group_id)
                gone = self._stubs.groups.DeleteGroup(removal, timeout=seconds)
                return Deleted(gone.revision.log_offset, gone.offset_count)
            case Acquire():
                wish = group_service_pb2.AcquireGroupRequest(
                    group_id=group_id, holder=call.holder, force=call.force
                )
                wish.ttl.seconds = 3600  # No lease ends by itself.
                granted = self._stubs.groups.AcquireGroup(wish, timeout=seconds)
                assert granted.lease.epoch == granted.revision.log_offset
                return Written(granted.lease.epoch)
            case Release():
                release = group_service_pb2.ReleaseGroupRequest(group_id=group_id, epoch=call.epoch)
                released = self._stubs.groups.ReleaseGroup(release, timeout=seconds)
                return Written(released.revision.log_offset)

    def _fetched(self) -> Fetched:
        request = offset_service_pb2.FetchOffsetsRequest(
            groups=[offset_service_pb2.GroupSelection(group_id=self.group_id)]
        )
        response = self._stubs.offsets.FetchOffsets(request, timeout=self._seconds_max)
        offsets = response.groups[0].offsets
        return Fetched(tuple((each.partition, each.offset, each.revision) for each in offsets))

    def _commit(self, call: Commit) -> offset_service_pb2.CommitOffsetsRequest:
        request = offset_service_pb2.CommitOffsetsRequest(group_id=self.group_id)
        for partition, value in call.values:
            request.offsets.add(topic=TOPIC, partition=partition, offset=value)
        if call.epoch is not None:
            request.epoch = call.epoch
        condition = call.condition
        if condition is not None:
            wanted = next(e for e in request.offsets if e.partition == condition.partition)
            if condition.offset is not None:
                wanted.expected_offset = condition.offset
            elif condition.revision is not None:
                wanted.expected_revision = condition.revision
            else:
                wanted.must_not_exist = True
        return request


def _reason(error: grpc.RpcError) -> tuple[str, dict[str, str]]:
    info = ErrorInfo()
    for packed in status_of(error).details:
        if packed.Is(info.DESCRIPTOR):
            packed.Unpack(info)
    return info.reason, dict(info.metadata)


def _refusal(call: Call, reason: str, variables: dict[str, str]) -> Refused:
    if reason == "OFFSET_CONFLICT":
        (conflict,) = json.loads(variables["conflicts"])
        assert isinstance(call, Commit)
        assert call.condition is not None
        assert conflict["partition"] == call.condition.partition
        stored = (conflict["offset"], conflict["revision"]) if "offset" in conflict else None
        return Refused(reason, stored=stored)
    epoch = variables.get("holder_epoch", "")
    return Refused(reason, variables.get("holder", ""), int(epoch) if epoch else None)


@attrs.define
class Known:
    """What clients were told of a group, by whichever: they know nothing else."""

    offset: int = 0
    revision: int = 0
    epochs: list[int] = attrs.field(factory=lambda: [0])

    def note(self, call: Call, outcome: Outcome) -> None:
        """An answer has come."""
        if isinstance(outcome, Fetched) and outcome.offsets:
            _, self.offset, self.revision = outcome.offsets[0]
        elif isinstance(call, Acquire) and isinstance(outcome, Written):
            self.epochs.append(outcome.revision)


class Recorder:
    """All that was called, by group; values and holders that are used once."""

    def __init__(self, group_ids: list[str]) -> None:
        self.histories: dict[str, list[Operation]] = {each: [] for each in group_ids}
        self.known = {each: Known() for each in group_ids}
        self.answers = dict.fromkeys(group_ids, 0)
        self._unused = itertools.count(1)

    def record(self, client: int, calls: Caller, call: Call) -> bool:
        """Calls, and notes it. Returns whether there was an answer."""
        history = self.histories[calls.group_id]
        called = time.monotonic()
        try:
            outcome = calls.do(call)
        except NotDone:
            return True
        except NobodyKnows:
            history.append(Operation(call, called, math.inf, None, client))
            return False
        history.append(Operation(call, called, time.monotonic(), outcome, client))
        self.answers[calls.group_id] += 1
        self.known[calls.group_id].note(call, outcome)
        return True

    def values(self) -> tuple[tuple[int, int], ...]:
        """What to commit to each partition: numbers that nobody has committed."""
        first = next(self._unused) * PARTITIONS
        return tuple((partition, first + partition) for partition in range(PARTITIONS))

    def holder(self) -> str:
        """Of a lease; nobody else has it."""
        return f"holder-{next(self._unused)}"

    def draw(self, group_id: str, rng: random.Random) -> Call:
        """Something to do."""
        known, values = self.known[group_id], self.values()
        # Mostly the newest epoch; sometimes one that is over.
        epoch = known.epochs[-1] if rng.random() < 0.8 else rng.choice(known.epochs)
        conditions = (
            Condition(0, offset=known.offset),
            Condition(0, revision=known.revision),
            Condition(0),
        )
        draws: list[tuple[float, Call]] = [
            (0.34, Fetch()),
            (0.20, Commit(values)),
            (0.16, Commit(values, rng.choice(conditions))),
            (0.14, Commit(values, epoch=epoch)),
            (0.02, Commit(values, rng.choice(conditions), epoch=epoch)),
            (0.03, Acquire(self.holder(), force=rng.random() < 0.4)),
            (0.07, Release(epoch)),
            (0.03, DeleteOffsets()),
            (0.01, DeleteGroup()),
        ]
        return rng.choices([call for _, call in draws], [weight for weight, _ in draws])[0]


class Serving:
    """Where the server is now; clients wait here while there is none."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._changed = threading.Condition()
        self._number = 0
        self._channel_of: Any = None

    def begin(self, channel_of: Any) -> None:
        """A server serves; `channel_of()` connects to it."""
        with self._changed:
            self._number, self._channel_of = self._number + 1, channel_of
            self._changed.notify_all()

    def end(self) -> None:
        """It is about to go."""
        with self._changed:
            self._channel_of = None

    def stop(self) -> None:
        """No more of it."""
        self.stopping.set()
        with self._changed:
            self._changed.notify_all()

    def connect(self, than: int) -> tuple[int, grpc.Channel] | None:
        """A connection to a server newer than number `than`; None at the end."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self.stopping.is_set() or (self._number > than and self._channel_of is not None)
                )
            )
            return None if self.stopping.is_set() else (self._number, self._channel_of())
