"""offsetd_clients.cli.printing.table_layout: which columns fit, and what becomes of the others."""

from __future__ import annotations

import pytest
from offsetd_clients.cli.printing.table_layout import Layout, fitting

HEADER = ("GROUP", "TOPIC", "PARTITION", "OFFSET", "HOST", "PROBLEM")
ROWS = [
    ["billing", "orders", "0", "42", "-", "the disk was full"],
    ["billing", "orders", "1", "7", "-", "-"],
]
IS_NUMBER = (False, False, True, True, False, False)
HOST, OFFSET = HEADER.index("HOST"), HEADER.index("OFFSET")


def laid_out(width: int, *droppable: int) -> Layout | None:
    return fitting(HEADER, ROWS, IS_NUMBER, width, droppable=droppable)


def test_a_table_that_fits_keeps_all_its_columns_at_their_full_widths() -> None:
    assert laid_out(59, HOST) == Layout(columns=(0, 1, 2, 3, 4, 5), widths=(7, 6, 9, 6, 4, 17))


def test_text_of_several_words_is_broken_between_them() -> None:
    layout = laid_out(58, OFFSET)
    assert layout is not None
    assert layout.widths == (7, 6, 9, 6, 4, 16)


def test_a_column_without_values_goes_first_and_is_not_missed() -> None:
    assert laid_out(57, OFFSET, HOST) == Layout(columns=(0, 1, 2, 3, 5), widths=(7, 6, 9, 6, 17))


def test_what_all_rows_share_goes_above_before_anything_is_left_out() -> None:
    assert laid_out(40, OFFSET, HOST) == Layout(columns=(2, 3, 5), widths=(9, 6, 17), above=(0, 1))


def test_then_columns_are_left_out_in_their_order() -> None:
    assert laid_out(30, OFFSET, HOST) == Layout(
        columns=(2, 5), widths=(9, 17), above=(0, 1), left_out=(OFFSET,)
    )


def test_a_table_that_may_lose_nothing_fits_or_does_not() -> None:
    assert laid_out(57) is None
    assert laid_out(20, OFFSET, HOST) is None


def test_values_of_one_row_are_not_put_above_it() -> None:
    assert fitting(HEADER, ROWS[:1], IS_NUMBER, 40, droppable=[HOST]) is None


@pytest.mark.parametrize("width", range(10, 70))
def test_a_layout_is_never_wider_than_it_may_be(width: int) -> None:
    layout = laid_out(width, OFFSET, HOST)
    if layout is not None:
        assert sum(layout.widths) + 2 * (len(layout.widths) - 1) <= width
