"""A map of partitions: one cell each, in one of a few levels of heat."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from offsetd_clients.admin_values import LogPartition
from offsetd_clients.web.rendering import UNKNOWN, size_text, span_text

LEVELS = 5


@attrs.frozen
class Measure:
    """What the heat is. `of`: None for a partition that has none. `most`: the full heat, or None
    for the largest that is shown.
    """

    name: str
    of: Callable[[LogPartition], float | None]
    told: Callable[[LogPartition], str]
    most: float | None = None


@attrs.frozen
class Cell:
    """A partition on the map. `level`: from 0 to `LEVELS`, or `bad`, or `none`."""

    partition: int
    level: str
    told: str


def _age_s(each: LogPartition) -> float | None:
    age = None if each.cleaning is None else each.cleaning.oldest_dirty_age
    return None if age is None else age.total_seconds()


def _age_text(each: LogPartition) -> str:
    age = None if each.cleaning is None else each.cleaning.oldest_dirty_age
    return UNKNOWN if age is None else span_text(age)


MEASURES: Mapping[str, Measure] = {
    "size": Measure(
        "size", lambda each: float(each.size_bytes), lambda each: size_text(each.size_bytes)
    ),
    "dirty": Measure(
        "dirty ratio",
        lambda each: None if each.cleaning is None else each.cleaning.dirty_ratio,
        lambda each: UNKNOWN if each.cleaning is None else f"{each.cleaning.dirty_ratio:.2f}",
        most=1.0,
    ),
    "age": Measure("age of the oldest dirty byte", _age_s, _age_text),
}


def heat_map(partitions: Sequence[LogPartition], by: str) -> list[Cell]:
    """The cells, in the order of the partitions."""
    measure = MEASURES[by]
    known = [value for each in partitions if (value := measure.of(each)) is not None]
    most = measure.most or max(known, default=0.0)
    return [_cell(each, measure, most) for each in partitions]


def _cell(each: LogPartition, measure: Measure, most: float) -> Cell:
    if each.quarantine_reason:
        return Cell(each.partition, "bad", "quarantined")
    value = measure.of(each)
    if value is None:
        return Cell(each.partition, "none", "none")
    level = round(LEVELS * value / most) if most else 0
    return Cell(each.partition, str(min(level, LEVELS)), measure.told(each))
