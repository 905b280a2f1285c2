"""Selects rows of a table, by the reader's options and the filters that Spark pushes down.

Spark also gets its filters back and applies them again. So a filter that this module does not
understand only costs time. But the module must not leave out a row that Spark would keep. Spark
does not apply the options again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    import numpy as np
    import numpy.typing as npt
    from pyspark.sql.datasource import Filter

    from offsetd_pipeline.read_options import Chosen

    Mask = npt.NDArray[np.bool_]

_COMPARISONS: Final[dict[type[Filter], Callable[[Any, Any], Any]]] = {
    EqualTo: pc.equal,
    EqualNullSafe: pc.equal,
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}
# The columns whose filters are used here. Spark filters the others at low cost.
_COLUMNS: Final = frozenset(
    (
        *("group", "topic", "partition", "log_partition", "log_offset", "timestamp"),
        *("commit_time", "expire_time", "offset", "kind", "is_tombstone", "is_control"),
        "record_type",
    )
)
_TEXT_MATCHES: Final = (StringStartsWith, StringEndsWith, StringContains)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@attrs.frozen
class Condition:
    """A filter of one column that this module understands."""

    column: str
    filter: Filter

    def holds(self, values: pa.Array) -> Mask:
        """A mask of the values that meet the condition; a null does not."""
        mask = _judge(self.filter, values)
        found: Mask = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
        return found


@attrs.frozen(kw_only=True)
class Selection:
    """The conditions that all wanted rows meet."""

    conditions: tuple[Condition, ...] = ()

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> Selection:
        """The conditions of the filters that are understood."""
        found = ((_column_of(each), each) for each in filters)
        return cls(
            conditions=tuple(
                Condition(column, each) for column, each in found if column is not None
            )
        )

    def among(self, columns: Collection[str]) -> Selection:
        """The conditions on these columns only."""
        return Selection(
            conditions=tuple(each for each in self.conditions if each.column in columns)
        )

    def mask(self, count: int, column: Callable[[str], pa.Array]) -> Mask | None:
        """A mask of the wanted ones of `count` rows; None if all are. `column` builds a column."""
        mask: Mask | None = None
        for each in self.conditions:
            held = each.holds(column(each.column))
            assert len(held) == count, "a column has a value for each row"
            mask = held if mask is None else mask & held
        return mask

    def values(self, column: str) -> frozenset[Any] | None:
        """The values that a column of a wanted row can have; None if it can have any value."""
        allowed: frozenset[Any] | None = None
        for each in self.conditions:
            if each.column != column:
                continue
            if isinstance(each.filter, EqualTo | EqualNullSafe):
                named = frozenset([each.filter.value])
            elif isinstance(each.filter, In):
                named = frozenset(each.filter.value)
            else:
                continue
            allowed = named if allowed is None else allowed & named
        return allowed

    def wants_partition(self, log_partition: int) -> bool:
        """Whether a wanted row can be in a log partition, by conditions on its number."""
        values = pa.array([log_partition], pa.int32())
        mask = self.among(["log_partition"]).mask(1, lambda _: values)
        return mask is None or bool(mask[0])

    def timestamp_min_ms(self) -> int | None:
        """Records with a timestamp before this are not wanted."""
        bounds = [
            (each.filter.value - _EPOCH) // _MILLISECOND
            for each in self.conditions
            if each.column == "timestamp"
            and isinstance(each.filter, EqualTo | GreaterThan | GreaterThanOrEqual)
        ]
        return max(bounds, default=None)


def filters_of(chosen: Chosen) -> list[Filter]:
    """The options' selection as filters. This module understands all of them."""
    filters: list[Filter] = []
    if chosen.groups:
        filters.append(In(("group",), chosen.groups))
    if chosen.group_prefix:
        filters.append(StringStartsWith(("group",), chosen.group_prefix))
    if chosen.topics:
        filters.append(In(("topic",), chosen.topics))
    return filters


_MILLISECOND: Final = datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=UTC) - _EPOCH


def _column_of(pushed: Filter) -> str | None:
    """The column of a filter; None if this module does not understand the filter."""
    if isinstance(pushed, Not):
        # In SQL, neither a comparison with null nor its negation holds.
        return None if isinstance(pushed.child, Not) else _column_of(pushed.child)
    attribute: tuple[str, ...] = getattr(pushed, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in _COLUMNS:
        return None
    if isinstance(pushed, IsNull | IsNotNull):
        return str(attribute[0])
    if isinstance(pushed, In):
        usable = all(map(_is_usable, pushed.value))
    elif type(pushed) in _COMPARISONS:
        usable = _is_usable(pushed.value)  # type: ignore[attr-defined]
        usable &= not isinstance(pushed, _TEXT_MATCHES) or isinstance(pushed.value, str)
    else:
        usable = False
    return str(attribute[0]) if usable else None


def _is_usable(value: object) -> bool:
    """Whether a filter's value can be used. Spark handles times without a zone, and nulls."""
    if isinstance(value, datetime):
        return value.tzinfo is not None
    return isinstance(value, str | int | bool)


def _judge(pushed: Filter, values: pa.Array) -> Any:
    if isinstance(pushed, Not):
        return pc.invert(_judge(pushed.child, values))
    if isinstance(pushed, IsNull):
        return pc.is_null(values)
    if isinstance(pushed, IsNotNull):
        return pc.is_valid(values)
    if isinstance(pushed, In):
        # In SQL, neither `null IN (...)` nor its negation holds.
        found = pc.is_in(values, value_set=pa.array(list(pushed.value), values.type))
        return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))
    value = pushed.value  # type: ignore[attr-defined]
    if isinstance(pushed, _TEXT_MATCHES):
        return _COMPARISONS[type(pushed)](values, value)
    held = _COMPARISONS[type(pushed)](values, pa.scalar(value, values.type))
    return pc.fill_null(held, False) if isinstance(pushed, EqualNullSafe) else held
