"""Faults drawn by chance, for nodes and brokers that serve: each begins, lasts, and ends.

At most one broker is hurt at a time, so that two of three are there, and at most one node. When a
fault has ended, clients have to get answers again: that is waited for, however long it takes.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import attrs
from cluster.network import Cut

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from cluster.node_process import NodeProcess
    from cluster.real_cluster import RealCluster

RECOVERY_S_MAX: Final = 180
ANSWERS_MIN: Final = 5  # For each group, after a fault has ended, before the next one begins.
SHORT_S, LONG_S = (0.05, 1.5), (2.0, 9.0)  # A long one outlasts the session of a node.
IN_SYNC_SHARE: Final = 0.5  # Of the faults after which all replicas have to be in sync first.
DEFECT: Final = "the server ends because of a defect"


@attrs.frozen
class Fault:
    """What happens to whom. `end` undoes it."""

    kind: str
    target: str
    begin: Callable[[], object]
    end: Callable[[], object]

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


class Fleet:
    """The nodes of one cluster: some that are always meant to serve, and a guest."""

    def __init__(
        self, cluster: RealCluster, folder: Path, names: list[str], settings: Mapping[str, object]
    ) -> None:
        self.guest = cluster.node(folder, "guest", settings)
        self.nodes = [cluster.node(folder, name, settings) for name in names]

    def addresses(self) -> list[str]:
        """Of all that may serve."""
        return [node.address for node in [*self.nodes, self.guest] if node.is_running]

    def start(self) -> None:
        """Starts all but the guest, and waits until they serve."""
        for node in self.nodes:
            node.launch()
        for node in self.nodes:
            node.server.wait_until_serving()

    def repair(self) -> list[str]:
        """Starts again what has ended by itself, as a supervisor would. Returns the names."""
        ended = [node for node in self.nodes if not node.is_running]
        for node in ended:
            node.launch()
        return [node.name for node in ended]

    def save_logs(self, folder: Path) -> None:
        """What each node has said, as NAME.log."""
        for node in [*self.nodes, self.guest]:
            (folder / f"{node.name}.log").write_text(node.output)

    def defects(self) -> list[str]:
        """Lines of logs that tell of a defect."""
        return [
            f"{node.name}: {line}"
            for node in [*self.nodes, self.guest]
            for line in node.output.splitlines()
            if DEFECT in line
        ]


class FaultDriver:
    """Draws faults and carries them out; says what it does through `say`."""

    def __init__(
        self,
        cluster: RealCluster,
        fleet: Fleet,
        rng: random.Random,
        answers: Callable[[], Mapping[str, int]],
        say: Callable[[str], None] = print,
    ) -> None:
        self.kinds: Counter[str] = Counter()
        self.ended_by_themselves: Counter[str] = Counter()
        self._cluster = cluster
        self._fleet = fleet
        self._rng = rng
        self._answers = answers
        self._say = say

    def run(self, count: int) -> None:
        """So many faults, of which two may go on at once. Fails if clients get no answers after."""
        done = 0
        while done < count:
            faults = self._drawn(count - done)
            done += len(faults)
            self._carry_out(faults)
            for each in faults:
                self.kinds[each.kind] += 1

    def _drawn(self, most: int) -> list[Fault]:
        node_fault = self._rng.choice(self._node_faults())
        broker_fault = self._rng.choice(self._broker_faults())
        both = [node_fault, broker_fault]
        self._rng.shuffle(both)
        return both if most > 1 and self._rng.random() < 0.3 else [self._either(*both)]

    def _either(self, one: Fault, other: Fault) -> Fault:
        """Three of five faults concern a node."""
        node_first = self._rng.random() < 0.6
        return one if ("broker" in one.target) != node_first else other

    def _carry_out(self, faults: list[Fault]) -> None:
        seconds = self._rng.uniform(*(SHORT_S if self._rng.random() < 0.4 else LONG_S))
        self._say(f"{' and '.join(map(str, faults))} for {seconds:.1f} s")
        began = time.monotonic()
        for fault in faults:
            fault.begin()
        time.sleep(seconds)
        for fault in reversed(faults):
            fault.end()
        self._cluster.network.heal()
        self._recover(began)

    def _recover(self, began: float) -> None:
        """Until clients get answers again."""
        ended = self._fleet.repair()
        self.ended_by_themselves.update(ended)
        assert not self._fleet.defects(), self._fleet.defects()[0]
        if self._rng.random() < IN_SYNC_SHARE:
            self._cluster.wait_until_in_sync(RECOVERY_S_MAX)
        self._wait_for_answers()
        told = f"; ended by themselves: {', '.join(ended)}" if ended else ""
        self._say(f"  well again {time.monotonic() - began:.1f} s after it began{told}")

    def _wait_for_answers(self) -> None:
        """For each group. What ends meanwhile is started again."""
        before = dict(self._answers())
        deadline_s = time.monotonic() + RECOVERY_S_MAX
        while waiting := [
            group_id
            for group_id, count in self._answers().items()
            if count < before[group_id] + ANSWERS_MIN
        ]:
            assert time.monotonic() < deadline_s, f"no answers for {waiting}; {self._state()}"
            self.ended_by_themselves.update(self._fleet.repair())
            time.sleep(0.05)

    def _state(self) -> str:
        nodes = [*self._fleet.nodes, self._fleet.guest]
        tails = [f"{node.name}: {node.output[-1500:]}" for node in nodes if node.is_running]
        return "\n".join(tails)

    def _node_faults(self) -> list[Fault]:
        node, guest = self._rng.choice(self._fleet.nodes), self._fleet.guest
        broker = f"broker-{self._rng.choice(self._cluster.brokers).node_id}"
        cut, network = self._cluster.cut_off, self._cluster.network
        name = node.name

        def cut_one_way() -> None:
            for each in self._cluster.brokers:
                network.cut_one_way(f"broker-{each.node_id}", name)

        return [
            Fault("kill -9", name, node.kill, node.launch),
            Fault("kill -9", name, node.kill, node.launch),
            Fault("SIGSTOP", name, node.pause, node.resume),
            Fault("SIGSTOP", name, node.pause, node.resume),
            Fault("clean restart", name, node.stop, node.launch),
            Fault("lost folder", name, lambda: _lose_folder(node), node.launch),
            Fault("cut that closes", name, lambda: cut(name, Cut.CLOSE), _nothing),
            Fault("cut that holds", name, lambda: cut(name, Cut.HOLD), _nothing),
            Fault("cut of answers", name, cut_one_way, _nothing),
            Fault(f"cut from {broker}", name, lambda: network.cut(name, broker), _nothing),
            Fault("join", guest.name, guest.launch, guest.stop),
            Fault("join and kill -9", guest.name, guest.launch, guest.kill),
        ]

    def _broker_faults(self) -> list[Fault]:
        broker, other = self._rng.sample(self._cluster.brokers, 2)
        name, other_name = f"broker-{broker.node_id}", f"broker-{other.node_id}"
        network = self._cluster.network
        how = self._rng.choice([*Cut])
        return [
            Fault("kill -9", name, broker.kill, broker.start),
            Fault("SIGSTOP", name, broker.pause, broker.resume),
            Fault("clean restart", name, broker.stop, broker.start),
            Fault(
                f"cut from {other_name}",
                name,
                lambda: network.cut(name, other_name, how),
                _nothing,
            ),
        ]


def _lose_folder(node: NodeProcess) -> None:
    """The node comes back without its copy of the log."""
    node.kill()
    shutil.rmtree(node.data_folder, ignore_errors=True)


def _nothing() -> None:
    """The driver heals all cuts itself."""
