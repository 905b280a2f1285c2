"""Draws on a terminal: tables, progress, errors in red.

Import it only to draw: rich takes longer to load than many commands take.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import attrs
from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from offsetd_clients.cli.printing.table_layout import ABSENT, GAP, Layout, fitting, is_empty

__all__ = ["ABSENT", "DrawnTable", "aligned", "drawn_table", "print_error", "progress_bar"]

BOLD, PLAIN_AGAIN = "\x1b[1m", "\x1b[0m"


class _Count(MofNCompleteColumn):
    """The amount done, and the total if it is known."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


@attrs.frozen
class DrawnTable:
    """The text of a table.

    `left_out` has the names of columns that have values but are not shown.
    """

    text: str
    left_out: Sequence[str] = ()


def drawn_table(
    file: TextIO,
    title: str,
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    is_number: Sequence[bool],
    *,
    droppable: Sequence[int] = (),
) -> DrawnTable:
    """A table for the terminal `file` that fits its width and breaks no word.

    If it would be too wide and has columns of `droppable`, text that all rows share is printed
    above it, and those columns are left out in that order, unless there is only one row. If that is
    not enough, each row becomes a block of lines.
    """
    console = Console(file=file, highlight=False)
    layout = fitting(header, cells, is_number, console.width, droppable=droppable)
    if layout is not None and layout.left_out and len(cells) == 1:
        layout = None
    with console.capture() as printed:
        if title:
            console.print(Text(title, style="bold"))
        if layout is None:
            _print_lines(console, _blocks(console, header, cells))
        else:
            if layout.above:
                above = [cells[0][place] for place in layout.above]
                names = [header[place] for place in layout.above]
                _print_lines(console, [*_blocks(console, names, [above]), Text()])
            console.print(_columns(header, cells, is_number, layout))
    lines = printed.get().replace(f"{PLAIN_AGAIN}{BOLD}", "").splitlines()
    text = "".join(f"{line.rstrip()}\n" for line in lines)
    return DrawnTable(text, [header[place] for place in layout.left_out] if layout else ())


def _print_lines(console: Console, lines: Iterable[Text]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)


def _columns(
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    is_number: Sequence[bool],
    layout: Layout,
) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for place, width in zip(layout.columns, layout.widths, strict=True):
        justify: JustifyMethod = "right" if is_number[place] else "left"
        table.add_column(header[place], justify=justify, overflow="fold", width=width)
    for line in cells:
        table.add_row(*(Text(line[place]) for place in layout.columns))
    return table


def _blocks(
    console: Console, header: Sequence[str], cells: Sequence[Sequence[str]]
) -> Iterator[Text]:
    """Each row as lines of its own with a name and a value. Absent values are left out.

    A word wider than the space next to the names stays whole: the terminal wraps its line.
    """
    shown = [
        name for name, *column in zip(header, *cells, strict=True) if not all(map(is_empty, column))
    ]
    name_width = max(map(cell_len, shown), default=0) + GAP
    room = console.width - name_width
    for number, row in enumerate(cells):
        if number:
            yield Text()
        for name, cell in zip(header, row, strict=True):
            if is_empty(cell):
                continue
            label = Text(name.ljust(name_width), style="bold")
            fits = max(map(cell_len, cell.split()), default=0) <= room
            for part in Text(cell).wrap(console, room) if fits else [Text(cell)]:
                part.rstrip()
                yield Text.assemble(label, part)
                label = Text(" " * name_width)


def aligned(lines: Sequence[Sequence[str]], is_number: Sequence[bool]) -> Iterator[str]:
    """Lines of cells in aligned columns, without a terminal. Numbers are aligned to the right."""
    widths = [max(cell_len(cell) for cell in column) for column in zip(*lines, strict=True)]
    for line in lines:
        parts = []
        for cell, width, right in zip(line, widths, is_number, strict=True):
            gap = " " * (width - cell_len(cell))
            parts.append(gap + cell if right else cell + gap)
        yield "  ".join(parts).rstrip()


def print_error(file: TextIO, message: str) -> None:
    """Prints `error: message` to the terminal `file`."""
    Console(file=file, highlight=False, soft_wrap=True).print(
        Text.assemble(("error: ", "bold red"), message)
    )


@contextmanager
def progress_bar(file: TextIO, title: str) -> Iterator[Callable[[int, int | None, str], None]]:
    """A bar on the terminal `file`, which vanishes at the end.

    Yields the function that moves it: its arguments are the amount done, the total (None if it is
    not known), and its text.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        _Count(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(file=file), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def move(done: int, total: int | None, text: str) -> None:
            bar.update(task, completed=done, total=total, description=text)

        yield move
