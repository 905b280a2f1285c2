"""Faults drawn by chance, for nodes and brokers that serve: each begins, lasts, and ends.

At most one broker is hurt at a time, so that two of three are there, and at most one node. After
two of three faults, clients have to get answers again: that is waited for, however long it takes.
Otherwise the next fault begins at once. A broker that starts again may do so under the next fault
of a node.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs
from cluster.network import Cut

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from cluster.node_process import NodeProcess
    from cluster.real_cluster import RealCluster

T = TypeVar("T")

RECOVERY_S_MAX: Final = 180
ANSWERS_MIN: Final = 5  # For each group, after a fault has ended, before the next one begins.
SESSION_MS: Final = 3000  # Of a node. Shorter, and a busy machine loses nodes by itself.
SHORT_S, LONG_S = (0.05, 1.0), (1.5, 4.5)  # Half of the long ones outlast the session.
DEFECT: Final = "the server ends because of a defect"

# What is drawn is dealt like cards: each comes before any comes again.
NODE, BROKER, BOTH = "node", "broker", "both"
TARGETS: Final = (*[BOTH] * 7, *[NODE] * 2, BROKER)
LENGTHS: Final = (*[SHORT_S] * 2, *[LONG_S] * 3)
# Whether clients have to get answers before the next fault, or when that one has ended, too.
RECOVERS: Final = (True, True, False)
# Whether all replicas have to be in sync before the next fault of a broker.
IN_SYNC: Final = (True, False)
NODE_KINDS: Final = (
    *("kill -9", "kill -9", "SIGSTOP", "SIGSTOP", "clean restart", "lost folder"),
    *("cut that closes", "cut that holds", "cut of answers", "cut from one broker"),
    *("join", "join and kill -9"),
)
BROKER_KINDS: Final = (
    *("kill -9", "SIGSTOP", "clean restart"),
    *("cut that closes from", "cut that holds from"),
)
ALL_KINDS: Final = {(NODE, each) for each in NODE_KINDS} | {(BROKER, each) for each in BROKER_KINDS}
FAULTS_FOR_ALL_KINDS: Final = 34  # After so many, each kind has come, whatever the seed.


@attrs.frozen
class Fault:
    """What happens to whom. `end` undoes it."""

    kind: str
    target: str
    begin: Callable[[], object]
    end: Callable[[], object]
    is_broker: bool  # Else it is a node's.

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


class Deck(Generic[T]):
    """Cards in the order of chance: all of them, then all again in another order."""

    def __init__(self, cards: Sequence[T], rng: random.Random) -> None:
        self._cards = cards
        self._rng = rng
        self._left: list[T] = []

    def deal(self) -> T:
        """The next card."""
        if not self._left:
            self._left = [*self._cards]
            self._rng.shuffle(self._left)
        return self._left.pop()


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

    def repair(self) -> list[NodeProcess]:
        """Starts again what has ended by itself, as a supervisor would. Returns these."""
        ended = [node for node in self.nodes if not node.is_running]
        for node in ended:
            node.launch()
        return ended

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
        say: Callable[[str], None] = print,
    ) -> None:
        self.kinds: Counter[tuple[str, str]] = Counter()
        self.ended_by_themselves: Counter[str] = Counter()
        self._cluster = cluster
        self._fleet = fleet
        self._rng = rng
        self._say = say
        self._targets = Deck(TARGETS, rng)
        self._lengths = Deck(LENGTHS, rng)
        self._recovers = Deck(RECOVERS, rng)
        self._in_sync = Deck(IN_SYNC, rng)
        self._node_kinds = Deck(NODE_KINDS, rng)
        self._broker_kinds = Deck(BROKER_KINDS, rng)
        self._answers: Callable[[], Mapping[str, int]] = dict

    @property
    def count(self) -> int:
        """How many faults there were."""
        return self.kinds.total()

    def run(self, until: int, answers: Callable[[], Mapping[str, int]]) -> None:
        """Faults, until there were so many or one more in all.

        Fails if clients get no answers after the last one.
        """
        self._answers = answers
        while self.count < until:
            recovers = self._recovers.deal()
            target = self._targets.deal()
            faults = []
            if target != NODE:
                self._wait_for_brokers(in_sync=self._in_sync.deal())
                faults.append(self._broker_fault(self._counted(BROKER, self._broker_kinds)))
            if target != BROKER:
                faults.append(self._node_fault(self._counted(NODE, self._node_kinds)))
            self._rng.shuffle(faults)
            began = time.monotonic()
            self._carry_out(faults)
            if recovers or self.count >= until:
                self._recover(began)
            else:
                self._say("  the next one begins at once")

    def _counted(self, target: str, kinds: Deck[str]) -> str:
        kind = kinds.deal()
        self.kinds[target, kind] += 1
        return kind

    def _carry_out(self, faults: list[Fault]) -> None:
        """The second one begins while the first one lasts."""
        seconds = self._rng.uniform(*self._lengths.deal())
        later = self._rng.uniform(0, seconds)
        self._say(f"{' and '.join(map(str, faults))} for {seconds:.1f} s")
        faults[0].begin()
        for fault in faults[1:]:
            time.sleep(later)
            fault.begin()
        time.sleep(seconds)
        # A node may need the brokers for its end.
        self._cluster.network.heal()
        for fault in sorted(faults, key=lambda each: not each.is_broker):
            fault.end()

    def _recover(self, began: float) -> None:
        """Until clients get answers again."""
        ended_s = time.monotonic() - began
        ended = self._repaired()
        assert not self._fleet.defects(), self._fleet.defects()[0]
        self._wait_for_answers()
        told = f"; ended by themselves: {', '.join(ended)}" if ended else ""
        whole_s = time.monotonic() - began
        self._say(f"  over after {ended_s:.1f} s, well again {whole_s:.1f} s after it began{told}")

    def _wait_for_brokers(self, *, in_sync: bool) -> None:
        """Until all are there, and if asked for until all replicas are in sync."""
        began = time.monotonic()
        for broker in self._cluster.brokers:
            broker.wait_until_ready(RECOVERY_S_MAX)
        ready_s = time.monotonic() - began
        if in_sync:
            self._cluster.wait_until_in_sync(RECOVERY_S_MAX)
        whole_s = time.monotonic() - began
        if whole_s > 1:
            self._say(f"  brokers ready after {ready_s:.1f} s, in sync after {whole_s:.1f} s")

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
            self._repaired()
            time.sleep(0.05)

    def _repaired(self) -> list[str]:
        """Starts again what has ended by itself, and says so."""
        ended = self._fleet.repair()
        for node in ended:
            self._say(f"  {node.name} has ended by itself: {node.output.splitlines()[-1:]}")
        self.ended_by_themselves.update(node.name for node in ended)
        return [node.name for node in ended]

    def _state(self) -> str:
        nodes = [*self._fleet.nodes, self._fleet.guest]
        tails = [f"{node.name}: {node.output[-1500:]}" for node in nodes if node.is_running]
        return "\n".join(tails)

    def _node_fault(self, kind: str) -> Fault:
        node, guest = self._rng.choice(self._fleet.nodes), self._fleet.guest
        broker = f"broker-{self._rng.choice(self._cluster.brokers).node_id}"
        cut, network = self._cluster.cut_off, self._cluster.network
        name = node.name

        def cut_one_way() -> None:
            for each in self._cluster.brokers:
                network.cut_one_way(f"broker-{each.node_id}", name)

        faults: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "kill -9": (node.kill, node.launch),
            "SIGSTOP": (node.pause, node.resume),
            "clean restart": (node.begin_stop, lambda: _end_restart(node)),
            "lost folder": (lambda: _lose_folder(node), node.launch),
            "cut that closes": (lambda: cut(name, Cut.CLOSE), _nothing),
            "cut that holds": (lambda: cut(name, Cut.HOLD), _nothing),
            "cut of answers": (cut_one_way, _nothing),
            "cut from one broker": (lambda: network.cut(name, broker), _nothing),
            "join": (guest.launch, guest.stop),
            "join and kill -9": (guest.launch, guest.kill),
        }
        target = guest.name if "join" in kind else name
        return Fault(kind, target, *faults[kind], is_broker=False)

    def _broker_fault(self, kind: str) -> Fault:
        broker, other = self._rng.sample(self._cluster.brokers, 2)
        name, other_name = f"broker-{broker.node_id}", f"broker-{other.node_id}"
        cut = self._cluster.network.cut
        faults: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "kill -9": (broker.kill, broker.launch),
            "SIGSTOP": (broker.pause, broker.resume),
            "clean restart": (broker.stop, broker.launch),
            "cut that closes from": (lambda: cut(name, other_name, Cut.CLOSE), _nothing),
            "cut that holds from": (lambda: cut(name, other_name, Cut.HOLD), _nothing),
        }
        target = f"{other_name} {name}" if "cut" in kind else name
        return Fault(kind, target, *faults[kind], is_broker=True)


def _end_restart(node: NodeProcess) -> None:
    """It stops in its own time: it may wait for a broker that is hurt, too."""
    node.end_stop()
    node.launch()


def _lose_folder(node: NodeProcess) -> None:
    """The node comes back without its copy of the log."""
    node.kill()
    shutil.rmtree(node.data_folder, ignore_errors=True)


def _nothing() -> None:
    """The driver heals all cuts itself."""
