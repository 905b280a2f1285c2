"""The output interface of commands. The command line passes its implementation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NoReturn, Protocol

# Exit codes, in addition to 0 (done) and 1 (failed).
WRONG_USE: Final = 2
PARTLY_DONE: Final = 3

# Arguments: the amount done, the total (0 if unknown), and a description of the work.
ProgressReport = Callable[[int, int, str], None]


class Terminal(Protocol):
    """Prints results to stdout, and all other text to stderr.

    Colours and progress are shown only on a terminal.
    """

    def rows(
        self,
        columns: Sequence[str],
        rows: Iterable[Mapping[str, object]],
        *,
        title: str = "",
        droppable: Sequence[str] = (),
    ) -> None:
        """Prints rows in the format that the user chose with `-o table|json|jsonl|csv`.

        On a terminal too narrow for the table, columns in `droppable` are left out.
        """

    def lines(self, lines: Iterable[str]) -> None:
        """Prints each line to stdout, unchanged."""

    def note(self, text: str) -> None:
        """Prints text to stderr that is not a result."""

    def fail(self, text: str, code: int = 1) -> NoReturn:
        """Prints `error: text` to stderr and ends the command with `code`."""

    def progress(self, title: str) -> AbstractContextManager[ProgressReport]:
        """Yields a function that reports progress. Any thread may call it."""
