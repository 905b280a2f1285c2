"""Computes the columns of a table that fit a terminal, and their widths. No I/O."""

from collections.abc import Collection, Iterator, Sequence

import attrs
from rich.cells import cell_len

ABSENT = "-"
GAP = 2  # The number of spaces between two columns.
# A column with several words is broken between words, but is never narrower than this.
TEXT_WIDTH_MIN = 16


@attrs.frozen
class Layout:
    """The columns to draw, by index, and their widths.

    `above`: columns whose value is the same in all rows; it is printed above the table.
    `left_out`: columns that have values, but are not shown.
    """

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    above: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()


def fitting(
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    is_number: Sequence[bool],
    width: int,
    *,
    droppable: Sequence[int] = (),
) -> Layout | None:
    """A layout of at most `width` columns that breaks no word, or None if there is none.

    If `droppable` names columns, the table is narrowed in three steps. Empty droppable columns are
    left out. A text that is the same in all rows is printed above the table. More droppable columns
    are left out, in their order.
    """
    contents = [list(column) for column in zip(header, *cells, strict=True)]
    least = [_width_min(column) for column in contents]
    wanted = [max(map(cell_len, column)) for column in contents]
    for above, left_out, hidden in _narrower(contents, is_number, droppable):
        kept = [place for place in range(len(header)) if place not in hidden]
        if kept and _total([least[place] for place in kept]) <= width:
            widths = _shared(kept, least, wanted, width)
            return Layout(tuple(kept), widths, tuple(above), tuple(sorted(left_out)))
    return None


def is_empty(cell: str) -> bool:
    """Whether a cell is empty."""
    return cell in (ABSENT, "")


def _narrower(
    contents: Sequence[Sequence[str]], is_number: Sequence[bool], droppable: Sequence[int]
) -> Iterator[tuple[list[int], list[int], set[int]]]:
    """Yields, step by step: the columns above, the columns left out, and all hidden columns."""
    empty = {place for place in droppable if all(map(is_empty, contents[place][1:]))}
    yield [], [], set()
    if not droppable:
        return
    yield [], [], empty
    above = [
        place
        for place, column in enumerate(contents)
        if not is_number[place] and len(column) > 2 and _has_one_value(column[1:])
    ]
    order = [place for place in droppable if place not in empty and place not in above]
    for count in range(len(order) + 1):
        yield above, order[:count], {*empty, *above, *order[:count]}


def _has_one_value(values: Sequence[str]) -> bool:
    return not is_empty(values[0]) and len(set(values)) == 1


def _width_min(column: Sequence[str]) -> int:
    """The width of the longest word. Several words get more, so that lines stay readable."""
    longest = max(cell_len(word) for cell in column for word in cell.split() or [""])
    widest = max(map(cell_len, column))
    return max(longest, min(widest, TEXT_WIDTH_MIN))


def _total(widths: Collection[int]) -> int:
    return sum(widths) + GAP * max(0, len(widths) - 1)


def _shared(
    kept: Sequence[int], least: Sequence[int], wanted: Sequence[int], width: int
) -> tuple[int, ...]:
    """The widths of the kept columns. Columns that want more share the remaining width equally."""
    widths = {place: least[place] for place in kept}
    left = width - _total(list(widths.values()))
    hungry = sorted(kept, key=lambda place: wanted[place] - least[place])
    for index, place in enumerate(hungry):
        more = min(wanted[place] - least[place], left // (len(hungry) - index))
        widths[place] += more
        left -= more
    return tuple(widths[place] for place in kept)
