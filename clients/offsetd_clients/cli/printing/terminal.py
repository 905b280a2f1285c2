"""The terminal of a command: results go to stdout, everything else to stderr."""

import csv
import json
import os
import select
import stat
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Any, NoReturn, TextIO

from offsetd_clients.cli.printing.plain_text import shortened

EXIT_FAILED = 1
EXIT_WRONG_USE = 2
EXIT_PARTLY = 3
_ROWS_OF_PART = 1000

# A function that is called with the amount done, the total (0 if it is not known), and a
# description of the work.
ProgressReport = Callable[[int, int, str], None]
Row = Mapping[str, object]


class OutputFormat(StrEnum):
    """The output formats; see `Terminal.rows`."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


class Terminal:
    """Prints a command's results to stdout and everything else to stderr.

    A stream that is not a terminal gets neither colour nor progress, and lines of any width. When
    the reader of stdout exits (`| head`), output stops without an error. If stdout fails for
    another reason (a full disk), the command ends with exit code 1.
    """

    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        self.output_format = OutputFormat.TABLE
        # Whether tables keep all their columns on a terminal that is too narrow for them.
        self.is_wide = False
        # typer's context of the command that prints, if there is one.
        self.called: Any = None
        # The exit code of a command that has not failed.
        self.exit_code = 0
        self._stdout = stdout
        self._stderr = stderr
        self._stdout_is_gone = False

    def rows(
        self,
        columns: Sequence[str],
        rows: Iterable[Row],
        *,
        title: str = "",
        droppable: Sequence[str] = (),
    ) -> None:
        """Prints `rows` in the format that the user chose. A column that a row lacks is None.

        table: a header and aligned cells under `title`; None is `-`; control characters are
        escaped. On a terminal, unless `is_wide`: words that are too long to be read are cut, and if
        the table is too wide, the columns of `droppable` are left out, the first of them first. If
        the rest is still too wide, rows become blocks of lines. json: one array of objects. jsonl:
        one object a line, each flushed. csv: a header line; None is empty. Times are ISO 8601 in
        UTC; in table and csv, lists are joined by `,` and objects are JSON.
        """
        match self.output_format:
            case OutputFormat.TABLE:
                self._table(columns, list(rows), title, droppable)
            case OutputFormat.JSON:
                self._write_all(_json_array(columns, rows))
            case OutputFormat.JSONL:
                self._write_all(
                    (_json(columns, row, indent=None) + "\n" for row in rows), flush=True
                )
            case OutputFormat.CSV:
                self._write_all(_csv_lines(columns, rows))

    def rows_as_they_come(
        self, columns: Sequence[str], rows: Iterable[Row], *, droppable: Sequence[str] = ()
    ) -> None:
        """Prints `rows` as `rows` does, but a table in parts, each as soon as it is full.

        Each part has its own header. It stops asking for rows when the reader of stdout is gone.
        """
        if self.output_format is not OutputFormat.TABLE:
            self.rows(columns, rows, droppable=droppable)
            return
        coming = iter(rows)
        part = list(islice(coming, _ROWS_OF_PART))
        self.rows(columns, part, droppable=droppable)
        while len(part) == _ROWS_OF_PART and not self._stdout_is_gone:
            self._write("", flush=True)
            part = list(islice(coming, _ROWS_OF_PART))
            if part:
                self.rows(columns, part, droppable=droppable)

    def lines(self, lines: Iterable[str]) -> None:
        """Prints each line to stdout as it is, in any format."""
        self._write_all(line + "\n" for line in lines)

    def note(self, text: str, *, is_whole: bool = False) -> None:
        """Prints a message to stderr.

        Words that are too long are printed whole only if `is_whole`.
        """
        told = printable(text if is_whole else shortened(text), keep="\n")
        self._complain(_at_words(told, self._stderr))

    def leave_out(self, text: str) -> None:
        """Notes an omission on stderr. The command ends with exit code 3, unless it fails."""
        self.exit_code = EXIT_PARTLY
        self.note(text)

    def hint(self, text: str) -> None:
        """Prints a message for an interactive user to stderr, but only if stderr is a terminal."""
        if _is_terminal(self._stderr):
            self.note(text)

    def fail(self, text: str, code: int = EXIT_FAILED) -> NoReturn:
        """Prints `error: text` to stderr and ends the command with exit code `code`."""
        message = printable(shortened(text), keep="\n")
        self._flush_before_complaint()
        if _is_terminal(self._stderr):
            from offsetd_clients.cli.printing import drawing  # noqa: PLC0415

            drawing.print_error(self._stderr, _at_words(message, self._stderr, "error: "))
        else:
            self._complain(f"error: {message}")
        raise SystemExit(code)

    @contextmanager
    def progress(self, title: str) -> Iterator[ProgressReport]:
        """Yields a function to report progress: a bar if stderr is a terminal, else nothing.

        The bar vanishes at the end. The function may be called from any thread.
        """
        if not _is_terminal(self._stderr):
            yield lambda _done, _total, _what: None
            return
        from offsetd_clients.cli.printing import drawing  # noqa: PLC0415

        with drawing.progress_bar(self._stderr, printable(title)) as move:

            def report(done: int, total: int, what: str) -> None:
                move(done, total or None, printable(f"{title}: {what}" if what else title))

            yield report

    def flush(self) -> None:
        """Flushes stdout. Called once, at the end."""
        self._write("", flush=True)

    @property
    def is_drawing(self) -> bool:
        """Whether rows are drawn as a table for a person: on a terminal, in the format table."""
        return self.output_format is OutputFormat.TABLE and _is_terminal(self._stdout)

    @property
    def reader_is_gone(self) -> bool:
        """Whether the reader of stdout is gone."""
        return self._stdout_is_gone

    @contextmanager
    def when_reader_leaves(self, call: Callable[[], None]) -> Iterator[None]:
        """If stdout is a pipe, calls a function in a thread when the reader of stdout is gone.

        A command that waits for something to print can then end at once.
        """
        if not _is_pipe(self._stdout):
            yield
            return
        is_over, woken = threading.Event(), os.pipe()

        def wait() -> None:
            poller = select.poll()
            poller.register(self._stdout.fileno(), 0)  # Polls for errors only.
            poller.register(woken[0], select.POLLIN)
            poller.poll()
            if not is_over.is_set():
                self._stdout_is_gone = True
                call()

        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            os.close(woken[1])
            thread.join()
            os.close(woken[0])

    def output_failed(self, error: OSError) -> NoReturn:
        """Ends the command because stdout failed."""
        self._forget_stdout()
        self.fail(f"cannot print the output: {error.strerror or error}")

    def _table(
        self, columns: Sequence[str], rows: Sequence[Row], title: str, droppable: Sequence[str]
    ) -> None:
        from offsetd_clients.cli.printing import drawing  # noqa: PLC0415

        is_drawn = self.is_drawing
        is_cut = is_drawn and not self.is_wide
        header = [column.upper().replace("_", "-") for column in columns]
        cells = [
            [
                printable(shortened(cell) if is_cut else cell)
                for column in columns
                for cell in (_cell(row.get(column), absent=drawing.ABSENT, is_drawn=is_drawn),)
            ]
            for row in rows
        ]
        is_number = [
            _is_column_of([row.get(column) for row in rows], int, float) for column in columns
        ]
        if not is_drawn:
            plain = drawing.aligned([header, *cells], is_number)
            self._write_all(
                line + "\n" for line in chain([printable(title)] if title else [], plain)
            )
            return
        drawn = drawing.drawn_table(
            self._stdout,
            printable(title),
            header,
            cells,
            is_number,
            droppable=[] if self.is_wide else [columns.index(each) for each in droppable],
        )
        self._write(drawn.text)
        if drawn.left_out:
            self.hint(f"not shown: {', '.join(drawn.left_out)} (--wide shows all)")

    def _write_all(self, pieces: Iterable[str], *, flush: bool = False) -> None:
        for piece in pieces:
            if self._stdout_is_gone:
                return
            self._write(piece, flush=flush)

    def _write(self, piece: str, *, flush: bool = False) -> None:
        try:
            self._stdout.write(piece)
            if flush:
                self._stdout.flush()
        except BrokenPipeError:
            self._forget_stdout()
        except OSError as error:
            self.output_failed(error)

    def _forget_stdout(self) -> None:
        self._stdout_is_gone = True
        _let_go(self._stdout)

    def _flush_before_complaint(self) -> None:
        """Flushes stdout before a message on stderr, to keep their order in a common place."""
        if not self._stdout_is_gone:
            self.flush()

    def _complain(self, text: str) -> None:
        self._flush_before_complaint()
        try:
            self._stderr.write(text + "\n")
            self._stderr.flush()
        except OSError:  # No reader is left.
            _let_go(self._stderr)


def standard_terminal() -> Terminal:
    """The terminal of this process. Text that is not UTF-8 is escaped, and never fails."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # The process was started with this stream closed.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="backslashreplace")
    return Terminal(sys.stdout, sys.stderr)


def printable(text: str, *, keep: str = "") -> str:
    """Escapes all characters of `text` that could control a terminal, except those in `keep`."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in keep
        else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in text
    )


def named_id(group_id: str) -> str:
    """A group's name in a sentence. It cannot begin a new line."""
    return f"group {printable(group_id)}"


def _at_words(text: str, stream: TextIO, before: str = "") -> str:
    """Breaks `text` into lines, so that the terminal `stream` need not break words.

    Lines with a word that is too wide stay as they are; so do indented lines, which users copy.
    """
    if not _is_terminal(stream):
        return text
    try:
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return text
    return "\n".join(
        line
        if len(line) <= width or line.startswith(" ") or max(map(len, line.split())) > width
        else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in f"{before}{text}".split("\n")
    ).removeprefix(before)


def _let_go(stream: TextIO) -> None:
    """Replaces the file under the stream: its buffer would raise again at the program's end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _is_pipe(stream: TextIO) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # The stream is closed, or in memory.
        return False


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _is_column_of(values: Sequence[object], *kinds: type) -> bool:
    """Whether all values are of these kinds or None, and at least one is not None."""
    found = {type(value) for value in values}
    return bool(found & set(kinds)) and found <= {*kinds, type(None)}


def _cell(value: object, *, absent: str, is_drawn: bool = False) -> str:
    """A value as text. On a terminal, lists and objects can be broken between items."""
    match value:
        case None:
            return absent
        case bool():
            return "true" if value else "false"
        case datetime():
            return time_text(value)
        case str():
            return str(value)
        case list() | tuple():
            items = (_cell(item, absent=absent) for item in value)
            return (", " if is_drawn else ",").join(items)
        case Mapping():
            separators = (", ", ": ") if is_drawn else (",", ":")
            return json.dumps(value, ensure_ascii=False, separators=separators, default=_json_value)
        case _:
            return str(value)


def time_text(value: datetime) -> str:
    """A time in the form of all results: UTC, with milliseconds."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _json(columns: Sequence[str], row: Row, *, indent: int | None) -> str:
    document = {column: row.get(column) for column in columns}
    return json.dumps(document, ensure_ascii=False, default=_json_value, indent=indent)


def _json_value(value: object) -> str:
    return time_text(value) if isinstance(value, datetime) else str(value)


def _json_array(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    separator = "[\n"
    for row in rows:
        yield separator + _json(columns, row, indent=2)
        separator = ",\n"
    yield "[]\n" if separator == "[\n" else "\n]\n"


def _csv_lines(columns: Sequence[str], rows: Iterable[Row]) -> Iterator[str]:
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for cells in chain(
        [columns], ([_cell(row.get(c), absent="") for c in columns] for row in rows)
    ):
        buffer.seek(0)
        buffer.truncate()
        writer.writerow(cells)
        yield buffer.getvalue()
