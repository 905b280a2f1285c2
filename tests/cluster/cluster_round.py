"""Clients of all kinds at work on groups of their own, and the judgement of what they saw.

A round has its own groups, so that each history is short enough to be judged.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Final

from cluster.recorded_cluster import ClusterCalls, LibraryCalls, Nodes
from cluster.recorded_members import Accepted, Member, check_generations
from cluster.recorded_watch import Watcher
from history_checker import Acquire, Commit, Fetch, Fetched, Release, Written, check_history
from offsetd_clients import OffsetClient, RetryPolicy
from recorded_clients import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cluster.faults import Fleet
    from history_checker import Call
    from recorded_clients import Caller

GROUPS: Final = 4
STEP_S: Final = 0.02  # Between the calls of one client.
JOIN_S_MAX: Final = 300
LEASE_COMMITS_MAX: Final = 20
# An epoch that clients use before they know one. It has to be refused. 0 would not do: the first
# lease in a new log has the epoch 0, also if nobody was told.
NEVER_GIVEN: Final = 1 << 62
# Long enough for a takeover, and below `request.id.window.ms`.
RETRY: Final = RetryPolicy(timeout_s=20.0, try_timeout_s=2.5, wait_max_s=0.5)


class ClusterRound:
    """Eight clients and a watcher: three of all calls, one of leases, one of streams, one of
    fetches, two members.
    """

    def __init__(self, fleet: Fleet, name: str, seed: int, *, watches: bool) -> None:
        self._fleet = fleet
        self._rng = random.Random(f"{seed} {name}")
        self.groups = [f"{name}-{number}" for number in range(GROUPS)]
        self.members_group = f"{name}-members"
        self.recorder = Recorder([*self.groups, self.members_group])
        for known in self.recorder.known.values():
            known.epochs[:] = [NEVER_GIVEN]
        self.accepted: list[Accepted] = []
        self._stopping = threading.Event()
        self._defects: list[BaseException] = []
        self._client = OffsetClient(",".join(self._all_addresses()), retry=RETRY)
        self._watcher = Watcher(self._client, f"{name}-") if watches else None
        works: list[Callable[[int, random.Random], None]] = [
            *[self._do_all] * 3,
            self._hold_leases,
            self._commit_by_stream,
            self._fetch,
            *[self._be_member] * 2,
        ]
        self._threads = [
            threading.Thread(
                target=self._guarded, args=(work, number, random.Random(f"{seed} {name} {number}"))
            )
            for number, work in enumerate(works)
        ]
        for each in self._threads:
            each.start()

    def answers(self) -> Mapping[str, int]:
        """How many calls were answered, by group. Raises what a client met and may not meet."""
        if self._defects:
            raise self._defects[0]
        return self.recorder.answers

    def end(self) -> dict[str, Fetched]:
        """Stops the clients and judges what they saw. Returns what is stored, by group."""
        self._stop()
        if self._defects:
            raise self._defects[0]
        stored = {group_id: self._read(group_id) for group_id in self.recorder.histories}
        for group_id, history in self.recorder.histories.items():
            try:
                check_history(history)
            except AssertionError as error:
                error.add_note(f"{group_id}: {len(history)} calls")
                raise
        check_generations(self.accepted)
        if self._watcher is not None:
            self._watcher.check(self.recorder.histories)
            self._watcher.stop()
        self._client.close()
        return stored

    def abandon(self) -> None:
        """Stops the clients, after a failure."""
        self._stop()
        if self._watcher is not None:
            self._watcher.stop()
        self._client.close(0.1)

    def _stop(self) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join(JOIN_S_MAX)
        assert not any(each.is_alive() for each in self._threads), "a client hangs"

    def _read(self, group_id: str) -> Fetched:
        """What is stored, once nobody writes any longer; the history ends with it."""
        nodes = Nodes(self._fleet.addresses, self._rng)
        history = self.recorder.histories[group_id]
        while not (history and history[-1].client == -1 and history[-1].outcome is not None):
            self.recorder.record(-1, ClusterCalls(group_id, nodes), Fetch())
        nodes.close()
        outcome = history[-1].outcome
        assert isinstance(outcome, Fetched)
        return outcome

    def _all_addresses(self) -> list[str]:
        return [node.address for node in [*self._fleet.nodes, self._fleet.guest]]

    def _guarded(
        self, work: Callable[[int, random.Random], None], number: int, rng: random.Random
    ) -> None:
        try:
            work(number, rng)
        except BaseException as error:  # noqa: BLE001  Raised again by `answers` and `end`.
            self._defects.append(error)

    def _do_all(self, number: int, rng: random.Random) -> None:
        """Commits with and without conditions, fetches, leases, deletions: each call once."""
        nodes = Nodes(self._fleet.addresses, rng)
        while not self._stopping.wait(STEP_S):
            group_id = rng.choice(self.groups)
            call = self.recorder.draw(group_id, rng)
            self.recorder.record(number, ClusterCalls(group_id, nodes), call)
        nodes.close()

    def _hold_leases(self, number: int, rng: random.Random) -> None:
        """Takes a lease, commits with it, and releases it, or is fenced by another client."""
        nodes = Nodes(self._fleet.addresses, rng)
        while not self._stopping.wait(STEP_S):
            calls = ClusterCalls(rng.choice(self.groups), nodes)
            taken = self._do(number, calls, Acquire(self.recorder.holder(), force=True))
            if not isinstance(taken, Written):
                continue
            epoch = taken.revision
            for _ in range(rng.randrange(LEASE_COMMITS_MAX)):
                if self._stopping.wait(STEP_S):
                    break
                self._do(number, calls, Commit(self.recorder.values(), epoch=epoch))
            self._do(number, calls, Release(epoch))
        nodes.close()

    def _commit_by_stream(self, number: int, rng: random.Random) -> None:
        """Our client: commits by a stream, which it retries."""
        with OffsetClient(",".join(self._all_addresses()), retry=RETRY) as client:
            while not self._stopping.wait(STEP_S):
                group_id = rng.choice(self.groups)
                calls = LibraryCalls(group_id, client)
                self._do(number, calls, self._drawn_commit(group_id, rng))

    def _drawn_commit(self, group_id: str, rng: random.Random) -> Commit:
        while True:
            call = self.recorder.draw(group_id, rng)
            if isinstance(call, Commit) and call.epoch is None:
                return call

    def _fetch(self, number: int, rng: random.Random) -> None:
        """Our client: fetches."""
        with OffsetClient(",".join(self._all_addresses()), retry=RETRY) as client:
            while not self._stopping.wait(STEP_S):
                self._do(number, LibraryCalls(rng.choice(self.groups), client), Fetch())

    def _be_member(self, number: int, rng: random.Random) -> None:
        with OffsetClient(",".join(self._all_addresses()), retry=RETRY) as client:
            Member(number, self.members_group, client, self.recorder, rng, self.accepted).run(
                self._stopping
            )

    def _do(self, number: int, calls: Caller, call: Call) -> object:
        """The outcome, or None."""
        self.recorder.record(number, calls, call)
        newest = next(
            (
                each
                for each in reversed(self.recorder.histories[calls.group_id])
                if each.call is call
            ),
            None,
        )
        return None if newest is None else newest.outcome
