from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from offsetd_pipeline.selection import Selection
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
    from pyspark.sql.datasource import Filter

NAMES = pa.array(["a", "ab", "b", None])
NUMBERS = pa.array([1, 2, 3, None], pa.int32())
G, P = ("group",), ("partition",)


@pytest.mark.parametrize(
    ("pushed", "values", "held"),
    [
        (EqualTo(G, "ab"), NAMES, [0, 1, 0, 0]),
        (EqualNullSafe(G, "ab"), NAMES, [0, 1, 0, 0]),
        (Not(EqualNullSafe(G, "ab")), NAMES, [1, 0, 1, 1]),
        (Not(EqualTo(G, "ab")), NAMES, [1, 0, 1, 0]),
        (In(G, ("a", "b")), NAMES, [1, 0, 1, 0]),
        (Not(In(G, ("a", "b"))), NAMES, [0, 1, 0, 0]),
        (IsNull(G), NAMES, [0, 0, 0, 1]),
        (IsNotNull(G), NAMES, [1, 1, 1, 0]),
        (Not(IsNull(G)), NAMES, [1, 1, 1, 0]),
        (StringStartsWith(G, "a"), NAMES, [1, 1, 0, 0]),
        (StringEndsWith(G, "b"), NAMES, [0, 1, 1, 0]),
        (StringContains(G, "b"), NAMES, [0, 1, 1, 0]),
        (GreaterThan(P, 2), NUMBERS, [0, 0, 1, 0]),
        (GreaterThanOrEqual(P, 2), NUMBERS, [0, 1, 1, 0]),
        (LessThan(P, 2), NUMBERS, [1, 0, 0, 0]),
        (LessThanOrEqual(P, 2), NUMBERS, [1, 1, 0, 0]),
        (Not(LessThan(P, 2)), NUMBERS, [0, 1, 1, 0]),
    ],
)
def test_a_filter_holds_as_in_sql(pushed: Filter, values: pa.Array, held: list[int]) -> None:
    mask = Selection.of([pushed]).mask(4, lambda _: values)
    assert mask is not None
    assert mask.tolist() == [bool(each) for each in held]


@pytest.mark.parametrize(
    "pushed",
    [
        EqualTo(("members", "client_id"), "x"),
        EqualTo(("metadata",), "x"),
        EqualTo(G, None),
        In(G, ("a", None)),
        EqualTo(("timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001  That is the case.
        Not(Not(EqualTo(G, "a"))),
    ],
)
def test_what_is_not_understood_is_left_to_spark(pushed: Filter) -> None:
    assert Selection.of([pushed]) == Selection()
    assert Selection().mask(4, lambda _: NAMES) is None


@pytest.mark.parametrize(
    ("filters", "groups"),
    [
        ([], None),
        ([EqualTo(G, "a")], {"a"}),
        ([In(G, ("a", "b"))], {"a", "b"}),
        ([In(G, ("a", "b")), EqualTo(G, "b")], {"b"}),
        ([EqualTo(G, "a"), EqualTo(G, "b")], set()),
        ([Not(EqualTo(G, "a"))], None),
        ([StringStartsWith(G, "a"), EqualTo(P, 1)], None),
    ],
)
def test_the_groups_that_can_be_wanted_are_known(
    filters: list[Filter], groups: set[Any] | None
) -> None:
    assert Selection.of(filters).values("group") == groups


def test_the_earliest_time_that_can_be_wanted_is_known_to_the_millisecond() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, 1999, tzinfo=UTC)
    later = datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    of = ("timestamp",)
    assert Selection.of([GreaterThan(of, at)]).timestamp_min_ms() == 1001
    assert Selection.of([GreaterThan(of, at), EqualTo(of, later)]).timestamp_min_ms() == 2000
    assert Selection.of([LessThan(of, at), Not(EqualTo(of, at))]).timestamp_min_ms() is None
    assert Selection.of([GreaterThan(("commit_time",), at)]).timestamp_min_ms() is None


def test_log_partitions_are_left_out_by_their_number() -> None:
    selection = Selection.of([GreaterThan(("log_partition",), 3), EqualTo(G, "a")])
    assert [number for number in range(6) if selection.wants_partition(number)] == [4, 5]
