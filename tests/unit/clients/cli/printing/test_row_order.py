"""offsetd_clients.cli.printing.row_order."""

import pytest
import typer
from offsetd_clients.cli.printing.row_order import RowOrder

COLUMNS = ("group", "current_offset", "lag")
ROWS = [
    {"group": "b", "lag": 7},
    {"group": "c", "lag": None},
    {"group": "a", "lag": 30},
    {"group": "d", "lag": 7},
]


def groups(*texts: str) -> str:
    return "".join(str(row["group"]) for row in RowOrder.of(texts, COLUMNS).ordered(ROWS))


@pytest.mark.parametrize(
    ("texts", "ordered"),
    [
        ((), "bcad"),
        (("group",), "abcd"),
        (("-group",), "dcba"),
        (("lag",), "bdac"),
        (("-lag",), "abdc"),
        (("-lag", "-group"), "adbc"),
        (("LAG", "-Group"), "dbac"),
    ],
)
def test_rows_are_ordered_and_those_without_a_value_come_last(
    texts: tuple[str, ...], ordered: str
) -> None:
    assert groups(*texts) == ordered


@pytest.mark.parametrize("text", ["current_offset", "CURRENT-OFFSET", "current-offset", "Offset"])
def test_a_column_is_named_as_json_or_the_header_has_it(text: str) -> None:
    order = RowOrder.of([text], COLUMNS, {"offset": "current_offset"})
    assert order.columns == [("current_offset", False)]


def test_a_name_that_is_no_column_is_refused_with_those_that_are() -> None:
    with pytest.raises(typer.BadParameter) as refused:
        RowOrder.of(["-lags"], COLUMNS)
    assert refused.value.message == (
        "'-lags' is not a column; the columns are: group, current_offset, lag. Did you mean 'lag'?"
    )
