"""Constructors of metric families: each metric is declared in one line."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeVar

from offsetd_storage.durations import BOUNDS_SECONDS
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from offsetd_storage.durations import Durations
    from prometheus_client import Metric

_ThingT = TypeVar("_ThingT")

_BOUNDS: Final = (*map(str, BOUNDS_SECONDS), "+Inf")


def gauge(name: str, documentation: str, value: float | None) -> Metric:
    """One value that goes up and down; None: there is none yet, and no sample."""
    family = GaugeMetricFamily(name, documentation)
    if value is not None:
        family.add_metric((), value)
    return family


def gauges(
    name: str, documentation: str, label: str, values: Iterable[tuple[str, float | None]]
) -> Metric:
    """Such values, each with its label."""
    family = GaugeMetricFamily(name, documentation, labels=(label,))
    for labelled, value in values:
        if value is not None:
            family.add_metric((labelled,), value)
    return family


def gauges_of(
    label: str,
    things: Sequence[tuple[str, _ThingT]],
    *metrics: tuple[str, str, Callable[[_ThingT], float | None]],
) -> Iterator[Metric]:
    """Metrics of the same things, each with its label: name, documentation, a thing's value."""
    for name, documentation, value_of in metrics:
        yield gauges(
            name, documentation, label, ((labelled, value_of(each)) for labelled, each in things)
        )


def counter(name: str, documentation: str, value: float) -> Metric:
    """One value that only grows; the name ends in `_total`."""
    family = CounterMetricFamily(name, documentation)
    family.add_metric((), value)
    return family


def counters(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    """Such values, each with its labels."""
    family = CounterMetricFamily(name, documentation, labels=labels)
    for labelled, value in values:
        family.add_metric(labelled, value)
    return family


def histogram(name: str, documentation: str, durations: Durations) -> Metric:
    """Durations, in seconds."""
    family = HistogramMetricFamily(name, documentation)
    _add_durations(family, (), durations)
    return family


def histograms(
    name: str, documentation: str, label: str, durations: Iterable[tuple[str, Durations]]
) -> Metric:
    """Durations of several kinds, each with its label."""
    family = HistogramMetricFamily(name, documentation, labels=(label,))
    for labelled, each in durations:
        _add_durations(family, (labelled,), each)
    return family


def seconds(milliseconds: float | None) -> float | None:
    """Prometheus wants seconds; None stays None."""
    return None if milliseconds is None else milliseconds / 1000


def _add_durations(
    family: HistogramMetricFamily, labels: tuple[str, ...], durations: Durations
) -> None:
    buckets = list(zip(_BOUNDS, accumulate(durations.counts), strict=True))
    family.add_metric(labels, buckets, sum_value=durations.total_seconds)
