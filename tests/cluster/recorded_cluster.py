"""Clients of a cluster that note every call and its answer, as `history_checker` takes them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import grpc
from history_checker import Call, Commit, Fetch, Fetched, Outcome, Refused, Written
from offsetd_clients import (
    EpochFenced,
    LeaseHeld,
    OffsetClient,
    OffsetConflict,
    OffsetdError,
    OffsetToCommit,
    TopicPartition,
)
from recorded_clients import TOPIC, GroupCalls, NobodyKnows, NotDone
from server_process import Stubs

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

# Longer than the session of a node: so some calls wait until their node has lost the partition.
CALL_SECONDS_MAX = 4.0
WAIT_S = 0.05  # Before a call that was not done is made elsewhere.
RECONNECT_MS_MAX = 500


class Nodes:
    """Connections to nodes, and which one a client thinks a group's owner is."""

    def __init__(self, addresses: Callable[[], list[str]], rng: random.Random) -> None:
        self._addresses = addresses
        self._rng = rng
        self._stubs: dict[str, Stubs] = {}
        self._owners: dict[str, str] = {}

    def address(self, group_id: str) -> str:
        """The owner as it was told, or any node."""
        return self._owners.get(group_id) or self._rng.choice(self._addresses())

    def note(self, group_id: str, address: str) -> None:
        """A node has said who the owner is; an empty string: it did not know."""
        if address:
            self._owners[group_id] = address
        else:
            self._owners.pop(group_id, None)

    def stubs(self, address: str) -> Stubs:
        """One connection to each node, made again soon after it was lost."""
        if address not in self._stubs:
            options = [
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", RECONNECT_MS_MAX),
            ]
            self._stubs[address] = Stubs(grpc.insecure_channel(address, options=options))
        return self._stubs[address]

    def close(self) -> None:
        """Closes all connections."""
        for stubs in self._stubs.values():
            stubs.channel.close()


class ClusterCalls:
    """One group, called at the node that owns it: each call is made once."""

    def __init__(self, group_id: str, nodes: Nodes) -> None:
        self.group_id = group_id
        self._nodes = nodes

    def do(self, call: Call) -> Outcome:
        """What the owner answers. Raises NotDone, NobodyKnows."""
        address = self._nodes.address(self.group_id)
        stubs = self._nodes.stubs(address)
        try:
            outcome = GroupCalls(self.group_id, stubs, seconds_max=CALL_SECONDS_MAX).do(call)
        except NotDone as error:
            self._nodes.note(self.group_id, error.address)
            time.sleep(WAIT_S)
            raise
        except NobodyKnows:
            self._nodes.note(self.group_id, "")
            raise
        self._nodes.note(self.group_id, address)
        return outcome


class LibraryCalls:
    """One group, called with our client: commits by a stream, with retries of its own."""

    def __init__(self, group_id: str, client: OffsetClient) -> None:
        self.group_id = group_id
        self._client = client

    def do(self, call: Call) -> Outcome:
        """What the client returns or raises. Raises NotDone, NobodyKnows."""
        try:
            if isinstance(call, Fetch):
                return self._fetched()
            assert isinstance(call, Commit), "these clients do nothing else"
            revision = self._client.commit(self.group_id, _offsets(call), epoch=call.epoch)
            return Written(revision.log_offset)
        except OffsetdError as error:
            return _outcome(error)

    def _fetched(self) -> Fetched:
        stored = self._client.fetch(self.group_id).items()
        return Fetched(
            tuple(sorted((where.partition, each.offset, each.revision) for where, each in stored))
        )


def _offsets(call: Commit) -> dict[TopicPartition, OffsetToCommit]:
    offsets = {}
    for partition, value in call.values:
        conditions: dict[str, Any] = {}
        if call.condition is not None and call.condition.partition == partition:
            if call.condition.offset is not None:
                conditions["expected_offset"] = call.condition.offset
            elif call.condition.revision is not None:
                conditions["expected_revision"] = call.condition.revision
            else:
                conditions["must_not_exist"] = True
        offsets[TopicPartition(TOPIC, partition)] = OffsetToCommit(value, **conditions)
    return offsets


def _outcome(error: OffsetdError) -> Outcome:
    """A refusal as a value. Raises NotDone or NobodyKnows for any other error."""
    if error.outcome_unknown:
        raise NobodyKnows from error
    if isinstance(error, OffsetConflict):
        (conflict,) = error.conflicts
        if conflict.offset is None or conflict.revision is None:
            return Refused("OFFSET_CONFLICT", stored=None)
        return Refused("OFFSET_CONFLICT", stored=(conflict.offset, conflict.revision))
    if isinstance(error, LeaseHeld | EpochFenced):
        return Refused(error.reason, error.holder, error.holder_epoch)
    if error.retriable or error.code == "DEADLINE_EXCEEDED":
        raise NotDone from error
    raise error
