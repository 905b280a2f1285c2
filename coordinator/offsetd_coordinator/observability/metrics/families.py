"""Constructors of metric families: each metric is declared in one line."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeVar

from offsetd_storage.duration_histogram import BOUNDS_SECONDS
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from offsetd_storage.duration_histogram import Durations
    from prometheus_client import Metric

_ThingT = TypeVar("_ThingT")

_BOUNDS: Final = (*map(str, BOUNDS_SECONDS), "+Inf")


def gauge(name: str, documentation: str, value: float | None) -> Metric:
    """A gauge with one value; with None, it has no sample."""
    family = GaugeMetricFamily(name, documentation)
    if value is not None:
        family.add_metric((), value)
    return family


def gauges(
    name: str, documentation: str, label: str, values: Iterable[tuple[str, float | None]]
) -> Metric:
    """A gauge with one value for each label value. None gives no sample."""
    return labelled_gauges(
        name, documentation, (label,), (((labelled,), value) for labelled, value in values)
    )


def labelled_gauges(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float | None]],
) -> Metric:
    """A gauge with one value for each tuple of label values. None gives no sample."""
    family = GaugeMetricFamily(name, documentation, labels=labels)
    for labelled, value in values:
        if value is not None:
            family.add_metric(labelled, value)
    return family


def gauges_of(
    label: str,
    things: Sequence[tuple[str, _ThingT]],
    *metrics: tuple[str, str, Callable[[_ThingT], float | None]],
) -> Iterator[Metric]:
    """Several gauges of the same things.

    `things` are pairs of a label value and a thing. Each of `metrics` is a name, a documentation
    and a function that returns a thing's value.
    """
    for name, documentation, value_of in metrics:
        yield gauges(
            name, documentation, label, ((labelled, value_of(each)) for labelled, each in things)
        )


def counter(name: str, documentation: str, value: float) -> Metric:
    """A counter with one value. The name must end in `_total`."""
    family = CounterMetricFamily(name, documentation)
    family.add_metric((), value)
    return family


def counters(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    """A counter with one value for each tuple of label values."""
    family = CounterMetricFamily(name, documentation, labels=labels)
    for labelled, value in values:
        family.add_metric(labelled, value)
    return family


def histogram(name: str, documentation: str, durations: Durations) -> Metric:
    """A histogram of durations, in seconds."""
    family = HistogramMetricFamily(name, documentation)
    _add_durations(family, (), durations)
    return family


def histograms(
    name: str, documentation: str, label: str, durations: Iterable[tuple[str, Durations]]
) -> Metric:
    """A histogram of durations, in seconds, for each label value."""
    family = HistogramMetricFamily(name, documentation, labels=(label,))
    for labelled, each in durations:
        _add_durations(family, (labelled,), each)
    return family


def seconds(milliseconds: float | None) -> float | None:
    """Converts milliseconds to seconds, the unit of Prometheus. None stays None."""
    return None if milliseconds is None else milliseconds / 1000


def _add_durations(
    family: HistogramMetricFamily, labels: tuple[str, ...], durations: Durations
) -> None:
    buckets = list(zip(_BOUNDS, accumulate(durations.counts), strict=True))
    family.add_metric(labels, buckets, sum_value=durations.total_seconds)
