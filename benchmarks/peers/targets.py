"""The targets of the benchmark: each is a ratio or difference within one run, and its limit."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import attrs

from benchmarks.harness.rounds import Spread
from benchmarks.peers import works
from benchmarks.peers.contestants import BARE, SYNCED_BARE, TUNED_BARE, native_clients
from benchmarks.peers.results import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.peers.results import Results

RATE = "commits_a_second"
PEERS = ("kafka", "etcd", "zookeeper", "postgresql", "redis")
# The title of a target names the client, if a peer has several clients.
_CLIENTS = {"redis": " (as it comes)", "redis-pipelined": " (automatic pipelines)"}
LOAD = "restart to first answer, 1 M offsets, s"
LOAD_EMPTY = "restart to first answer, empty, s"
DISK = "disk after 10 M overwrites of 100 k keys, bytes"
MEMORY = "memory of 1 M offsets, bytes"
FLEET = "a fleet"
SYNC = "one write with fdatasync, µs"
Rounds = list[float | None]


@attrs.frozen(kw_only=True)
class Target:
    """A figure of each round, and the limit for its median."""

    title: str
    figures: Callable[[Results], list[float]]
    at_least: float | None = None
    at_most: float | None = None  # If both limits are None, the figure is only shown.

    def judged(self, results: Results) -> Judged:
        """Combines the target with the results of a run."""
        found = self.figures(results)
        return Judged(target=self, found=Spread.of(found) if found else None)


@attrs.frozen(kw_only=True)
class Judged:
    """A target, and the figures that a run found for it."""

    target: Target
    found: Spread | None

    @property
    def wanted(self) -> str:
        """The limit, as text; empty if there is none."""
        if self.target.at_least is not None:
            return f"≥ {self.target.at_least:g}"
        return "" if self.target.at_most is None else f"≤ {self.target.at_most:g}"

    @property
    def verdict(self) -> str:
        """`reached`, `not reached` or `not measured`; empty if the target has no limit."""
        if self.found is None:
            return "not measured"
        if not self.wanted:
            return ""
        low, high = self.target.at_least, self.target.at_most
        reached = (low is None or self.found.median >= low) and (
            high is None or self.found.median <= high
        )
        return "reached" if reached else "not reached"


def over(numerators: Rounds, denominators: Rounds) -> list[float]:
    """Divides round by round. Skips rounds without both figures, or with a denominator of 0."""
    return [
        upper / lower
        for upper, lower in zip(numerators, denominators, strict=False)
        if upper is not None and lower
    ]


def largest(of_others: list[Rounds]) -> Rounds:
    """The largest figure of each round."""
    return [
        max((each for each in of_round if each is not None), default=None)
        for of_round in zip(*(each for each in of_others if each), strict=False)
    ]


def _fields(
    field: str, part: str, work: works.Work, contestant: str, other: str
) -> Callable[..., list[float]]:
    return lambda results: over(
        results.field(part, work, contestant, field), results.field(part, work, other, field)
    )


_rates = functools.partial(_fields, RATE)
_p50s = functools.partial(_fields, "p50_us")


def _first(part: str, work: works.Work) -> Callable[..., list[float]]:
    return lambda results: over(
        results.field(part, work, OURS, RATE),
        largest([results.field(part, work, peer, RATE) for peer in PEERS]),
    )


def _states(name: str, system: str, other: str) -> Callable[..., list[float]]:
    return lambda results: over(results.state(name, system), results.state(name, other))


def _native() -> Iterator[Target]:
    for work, wanted in (
        (works.MANY_CALLERS, {"kafka": 2, "etcd": 2, "zookeeper": 1.5, "redis": 1}),
        (
            works.MANY_PARTITIONS,
            {"kafka": 3, "postgresql": 3, "zookeeper": 5, "etcd": 10, "redis": 1},
        ),
    ):
        for peer, times in wanted.items():
            for client in native_clients(peer):
                yield Target(
                    title=f"native, {work}: offsetd over {client}{_CLIENTS.get(client, '')}",
                    figures=_rates("native", work, OURS, client),
                    at_least=times,
                )
        if work == works.MANY_CALLERS:
            yield Target(
                title=f"native, {work}: commits of offsetd over messages of bare-stream",
                figures=_rates("native", work, OURS, "bare-stream"),
                at_least=2.4,
            )
    for work in (works.MANY_CALLERS, works.MANY_PARTITIONS):
        yield Target(
            title=f"Python, {work}: offsetd over the fastest other",
            figures=_first("python", work),
            at_least=1,
        )


def _transport() -> Iterator[Target]:
    yield Target(
        title="1 caller, p50: offsetd over kafka",
        figures=_p50s("native", works.ONE, OURS, "kafka"),
        at_most=0.3,
    )
    for bare in (BARE, TUNED_BARE):
        for each in _beside(bare):
            # The limit applies to the untuned transport. The ratio to a tuned one is only shown.
            yield each if bare == BARE else attrs.evolve(each, at_least=None, at_most=None)
    yield Target(
        title="1 caller, p50: offsetd-unary over a bare server that syncs once a call",
        figures=_p50s("transport", works.ONE, "offsetd-unary", f"{SYNCED_BARE}-unary"),
    )


def _beside(bare: str) -> Iterator[Target]:
    yield Target(
        title=f"unary, 64 connections, pinned: offsetd over {bare}",
        figures=_rates("transport", works.MANY_CONNECTIONS, "offsetd-unary", f"{bare}-unary"),
        at_least=0.75,
    )
    yield Target(
        title=f"the same: server CPU a commit, offsetd less {bare}, µs",
        figures=lambda results: _more_cpu(results, f"{bare}-unary"),
        at_most=80,
    )
    for work, wanted in ((works.STREAMED_ONES, 0.7), (works.STREAMED_MANY, 0.5)):
        yield Target(
            title=f"a message a commit, pinned, {work}: offsetd over {bare}",
            figures=_rates("transport", work, "offsetd-stream", f"{bare}-stream"),
            at_least=wanted,
        )
    yield Target(
        title=f"1 caller, p50: offsetd-unary over {bare}-unary and one fdatasync",
        figures=lambda results: _one_call(results, f"{bare}-unary"),
        at_most=1.3,
    )


def _more_cpu(results: Results, bare: str) -> list[float]:
    ours, its = (
        results.field("transport", works.MANY_CONNECTIONS, contestant, "server_us")
        for contestant in ("offsetd-unary", bare)
    )
    return [
        mine - theirs
        for mine, theirs in zip(ours, its, strict=False)
        if mine is not None and theirs is not None
    ]


def _one_call(results: Results, bare: str) -> list[float]:
    ours, its = (
        results.field("transport", works.ONE, contestant, "p50_us")
        for contestant in ("offsetd-unary", bare)
    )
    syncs = results.state(SYNC, "disk")
    limits = [
        None if call is None or sync is None else call + sync
        for call, sync in zip(its, syncs, strict=False)
    ]
    return over(ours, limits)


def _fleet() -> Iterator[Target]:
    wire, grpcio = "offsetd-wire", "offsetd-grpcio"
    for callers, partitions, other, at_least in (
        (64, 1, grpcio, 4),
        (64, 1, "kafka", 2),
        (256, 1, "kafka", 1.3),
        (64, 50, "kafka", 1.5),
    ):
        work = works.Work(callers=callers, partitions=partitions)
        yield Target(
            title=f"{FLEET}, {work}: {wire} over {other}",
            figures=_rates("fleet", work, wire, other),
            at_least=at_least,
        )
    many, fewer = (works.Work(callers=count, partitions=1) for count in (1000, 256))
    yield Target(
        title=f"{FLEET}, {wire}: 1,000 connections over 256, 1 partition",
        figures=lambda results: over(
            results.field("fleet", many, wire, RATE), results.field("fleet", fewer, wire, RATE)
        ),
        at_least=1,
    )
    yield Target(
        title=f"{FLEET}, 1 caller, p50: {wire} over {grpcio}",
        figures=_p50s("fleet", works.ONE, wire, grpcio),
        at_most=0.7,
    )
    yield Target(
        title=f"{FLEET}, {works.MANY_CONNECTIONS}: server CPU a commit, {wire}, µs",
        figures=lambda results: [
            each
            for each in results.field("fleet", works.MANY_CONNECTIONS, wire, "server_us")
            if each is not None
        ],
        at_most=40,
    )
    for work in (works.MANY_CONNECTIONS, works.MANY_PARTITIONS):
        yield Target(
            title=f"{FLEET}, {work}: {grpcio} over kafka",
            figures=_rates("fleet", work, grpcio, "kafka"),
        )


def _kept() -> Iterator[Target]:
    yield Target(
        title="restart to first answer, 1 M offsets: kafka over offsetd",
        figures=_states(LOAD, "kafka", OURS),
        at_least=10,
    )
    yield Target(
        title="the same, less what an empty server takes: kafka over offsetd", figures=_loads
    )
    yield Target(
        title="disk after overwrites: offsetd over kafka",
        figures=_states(DISK, OURS, "kafka"),
        at_most=0.5,
    )
    for peer in PEERS[1:]:
        yield Target(
            title=f"disk after overwrites: offsetd over {peer}",
            figures=_states(DISK, OURS, peer),
            at_most=1,
        )
    yield Target(
        title="memory of 1 M offsets: offsetd over kafka (live heap)",
        figures=_states(MEMORY, OURS, "kafka"),
        at_most=0.25,
    )


def _loads(results: Results) -> list[float]:
    kafka, ours = (
        [
            None if full is None or empty is None else full - empty
            for full, empty in zip(
                results.state(LOAD, system), results.state(LOAD_EMPTY, system), strict=False
            )
        ]
        for system in ("kafka", OURS)
    )
    return over(kafka, ours)


TARGETS = (*_fleet(), *_native(), *_transport(), *_kept())
