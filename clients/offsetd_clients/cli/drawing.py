"""What a terminal shows beside plain text: tables, progress, errors in red.

Imported when something is drawn: rich takes longer to load than many a command takes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
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

BOLD, PLAIN_AGAIN = "\x1b[1m", "\x1b[0m"
# So narrow may a column of text be folded, or as its name.
TEXT_CELLS_MIN = 12
ABSENT = "-"


class _Count(MofNCompleteColumn):
    """How much of how much, where that is known."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


def drawn_table(
    file: TextIO,
    title: str,
    header: Sequence[str],
    cells: Sequence[Sequence[str]],
    is_number: Sequence[bool],
    is_whole: Sequence[bool],
    *,
    has_blocks: bool = False,
) -> str:
    """A table for the terminal `file`, as wide as that is, with text folded into its columns.

    Numbers and times stay whole: where they need more, lines are longer; or, if it may have
    blocks, each row becomes one.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    least = 0
    for name, right, whole, column in zip(
        header, is_number, is_whole, zip(header, *cells, strict=True), strict=True
    ):
        width = max(map(cell_len, column))
        width_min = width if whole else min(width, max(cell_len(name), TEXT_CELLS_MIN))
        least += width_min + 2
        table.add_column(
            name,
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=whole,
            min_width=width_min,
        )
    for line in cells:
        table.add_row(*(Text(cell) for cell in line))
    console = Console(file=file, highlight=False)
    if console.width < least and has_blocks:
        table = _blocks(header, cells)
    elif console.width < least:
        console = Console(file=file, highlight=False, width=least)
    with console.capture() as printed:
        if title:
            console.print(Text(title, style="bold"))
        console.print(table)
    lines = printed.get().replace(f"{PLAIN_AGAIN}{BOLD}", "").splitlines()
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _blocks(header: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    """Each row as lines of its own, a name and what it has; what it has not is left out."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for number, row in enumerate(cells):
        if number:
            table.add_row("", "")
        for name, cell in zip(header, row, strict=True):
            if cell != ABSENT:
                table.add_row(Text(name, style="bold"), Text(cell))
    return table


def aligned(lines: Sequence[Sequence[str]], is_number: Sequence[bool]) -> Iterator[str]:
    """Lines of cells, below each other where there is no terminal; numbers to the right."""
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

    Yields what moves it: how much is done, how much there is (None: not known), and its text.
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
