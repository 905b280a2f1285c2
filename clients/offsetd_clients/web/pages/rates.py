"""Rates of the last minutes, from counters that grow: records written, and flushes."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import attrs

from offsetd_clients.admin_values import LogPartition
from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.values import ServerInfo

# While somebody looks at the overview, there is a sample each 5 s.
AGE_S_MAX = 600.0
SAMPLES_MAX = 120
_DISTANCE_S_MIN = 2.0
_WIDTH, _HEIGHT = 240, 36


@attrs.frozen
class Sample:
    """Counters at one moment; each by what has it, so that a counter that begins anew shows."""

    at_s: float
    flushes: Mapping[Any, int]
    records: Mapping[Any, int]


@attrs.frozen
class Sparkline:
    """The rate of one counter, newest last. `points` are those of an SVG polyline."""

    name: str
    newest: float
    largest: float
    span_s: float
    points: str


class Rates:
    """The newest samples of one server or cluster."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def noted(
        self,
        servers: Sequence[ServerInfo],
        log: Sequence[LogPartition],
        now_s: float | None = None,
    ) -> list[Sparkline]:
        """Takes a sample, unless the last one is new. Returns the lines that can be drawn."""
        at_s = time.monotonic() if now_s is None else now_s
        if not self._samples or at_s - self._samples[-1].at_s >= _DISTANCE_S_MIN:
            flush_counts = {
                (each.node_id, each.start_time): each.flush_count
                for each in servers
                if each.flush_count is not None
            }
            ends = {each.partition: each.log_end_offset for each in log}
            self._samples.append(Sample(at_s, flush_counts, ends))
        while at_s - self._samples[0].at_s > AGE_S_MAX:
            self._samples.popleft()
        records = [(each.at_s, each.records) for each in self._samples]
        flushes = [(each.at_s, each.flushes) for each in self._samples]
        lines = _line("Records written a second", records), _line("Flushes a second", flushes)
        return [each for each in lines if each is not None]


_rates: WeakKeyDictionary[AsyncOffsetClient, Rates] = WeakKeyDictionary()


def rates_of(client: AsyncOffsetClient) -> Rates:
    """The samples that were taken through one client, as long as it is used."""
    return _rates.setdefault(client, Rates())


def _line(name: str, counted: Sequence[tuple[float, Mapping[Any, int]]]) -> Sparkline | None:
    rates = list(_rates_between(counted))
    if not rates:
        return None
    first_s, last_s = counted[0][0], counted[-1][0]
    largest = max(rate for _, rate in rates)
    points = " ".join(
        f"{_WIDTH * (at_s - first_s) / (last_s - first_s):.1f},"
        f"{_HEIGHT - (_HEIGHT - 2) * rate / (largest or 1) - 1:.1f}"
        for at_s, rate in [(first_s, rates[0][1]), *rates]
    )
    return Sparkline(name, rates[-1][1], largest, last_s - first_s, points)


def _rates_between(
    counted: Sequence[tuple[float, Mapping[Any, int]]],
) -> Iterator[tuple[float, float]]:
    """The rate up to each sample, of the counters that it and the one before have."""
    for (before_s, before), (at_s, counters) in pairwise(counted):
        common = before.keys() & counters.keys()
        if common:
            grown = sum(max(0, counters[each] - before[each]) for each in common)
            yield at_s, grown / (at_s - before_s)
