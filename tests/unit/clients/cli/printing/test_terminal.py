"""offsetd_clients.cli.printing.terminal, in the process: a stream that is no terminal."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO
from textwrap import dedent

import attrs
import pytest
from offsetd_clients.cli.printing.terminal import OutputFormat, Row, Terminal, printable

COLUMNS = ("group", "offset", "commit_time", "topics", "metadata")
ROWS: list[Row] = [
    {
        "group": "billing",
        "offset": 42,
        "commit_time": datetime(2026, 11, 20, 20, 26, 15, 341000, UTC),
        "topics": ("orders", "clicks"),
        "metadata": 'a "b", c',
    },
    {"group": "группа", "offset": 7, "topics": (), "metadata": "größe 🚀\x1b[31m\n\x00"},
]
GOLDEN = {
    OutputFormat.TABLE: r"""
GROUP    OFFSET  COMMIT-TIME               TOPICS         METADATA
billing      42  2026-11-20T20:26:15.341Z  orders,clicks  a "b", c
группа        7  -                                        größe 🚀\x1b[31m\n\x00
""",
    OutputFormat.JSON: r"""
[
{
  "group": "billing",
  "offset": 42,
  "commit_time": "2026-11-20T20:26:15.341Z",
  "topics": [
    "orders",
    "clicks"
  ],
  "metadata": "a \"b\", c"
},
{
  "group": "группа",
  "offset": 7,
  "commit_time": null,
  "topics": [],
  "metadata": "größe 🚀\u001b[31m\n\u0000"
}
]
""",
    OutputFormat.JSONL: (
        "\n"
        r'{"group": "billing", "offset": 42, "commit_time": "2026-11-20T20:26:15.341Z",'
        r' "topics": ["orders", "clicks"], "metadata": "a \"b\", c"}'
        "\n"
        r'{"group": "группа", "offset": 7, "commit_time": null, "topics": [],'
        r' "metadata": "größe 🚀\u001b[31m\n\u0000"}'
        "\n"
    ),
    OutputFormat.CSV: (
        "\ngroup,offset,commit_time,topics,metadata\n"
        'billing,42,2026-11-20T20:26:15.341Z,"orders,clicks","a ""b"", c"\n'
        'группа,7,,,"größe 🚀\x1b[31m\n\x00"\n'
    ),
}


@attrs.define
class Streams:
    stdout: StringIO = attrs.field(factory=StringIO)
    stderr: StringIO = attrs.field(factory=StringIO)

    def terminal(self, output_format: OutputFormat = OutputFormat.TABLE) -> Terminal:
        terminal = Terminal(self.stdout, self.stderr)
        terminal.output_format = output_format
        return terminal


@pytest.mark.parametrize("output_format", OutputFormat)
def test_rows_are_printed_in_the_format_that_was_chosen(output_format: OutputFormat) -> None:
    streams = Streams()
    streams.terminal(output_format).rows(COLUMNS, iter(ROWS))
    assert "\n" + streams.stdout.getvalue() == GOLDEN[output_format]
    assert streams.stderr.getvalue() == ""


@pytest.mark.parametrize(
    ("output_format", "printed"),
    [
        (OutputFormat.TABLE, "GROUP  LOG-PARTITION\n"),
        (OutputFormat.JSON, "[]\n"),
        (OutputFormat.JSONL, ""),
        (OutputFormat.CSV, "group,log_partition\n"),
    ],
)
def test_no_rows_are_still_well_formed(output_format: OutputFormat, printed: str) -> None:
    streams = Streams()
    streams.terminal(output_format).rows(["group", "log_partition"], [])
    assert streams.stdout.getvalue() == printed


def test_a_title_stands_over_a_table_and_nowhere_else() -> None:
    for output_format in OutputFormat:
        streams = Streams()
        streams.terminal(output_format).rows(["group"], [{"group": "g"}], title="Groups")
        is_first_line = streams.stdout.getvalue().startswith("Groups\n")
        assert is_first_line == (output_format is OutputFormat.TABLE)


def test_wide_characters_take_two_columns() -> None:
    streams = Streams()
    rows = [{"group": "日本", "topic": "a"}, {"group": "abcde", "topic": "b"}]
    streams.terminal().rows(["group", "topic"], rows)
    assert streams.stdout.getvalue() == dedent(
        """\
        GROUP  TOPIC
        日本   a
        abcde  b
        """
    )


def test_truth_is_printed_as_json_has_it() -> None:
    streams = Streams()
    streams.terminal().rows(["clean", "count"], [{"clean": True, "count": 1}, {"clean": False}])
    assert streams.stdout.getvalue() == "CLEAN  COUNT\ntrue       1\nfalse      -\n"


def test_times_are_printed_in_utc() -> None:
    streams = Streams()
    time = datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    streams.terminal(OutputFormat.CSV).rows(["time"], [{"time": time}])
    assert streams.stdout.getvalue() == "time\n2025-12-31T23:00:00.000Z\n"


def test_json_lines_leave_one_by_one() -> None:
    """A reader of a long answer sees each row as it comes."""

    class Stream(StringIO):
        flushed = 0

        def flush(self) -> None:
            self.flushed = len(self.getvalue())

    stdout, seen = Stream(), []

    def rows() -> Iterator[Row]:
        for group in "abc":
            seen.append(stdout.flushed)
            yield {"group": group}

    terminal = Terminal(stdout, StringIO())
    terminal.output_format = OutputFormat.JSONL
    terminal.rows(["group"], rows())
    assert seen == [0, 15, 30]


def test_lines_are_printed_as_they_are() -> None:
    for output_format in OutputFormat:
        streams = Streams()
        streams.terminal(output_format).lines(iter(["# a", "\x1b"]))
        assert streams.stdout.getvalue() == "# a\n\x1b\n"


def test_a_note_goes_to_stderr_and_cannot_steer_the_terminal() -> None:
    streams = Streams()
    streams.terminal().note("group \x1b[31m has\nno offsets")
    assert streams.stdout.getvalue() == ""
    assert streams.stderr.getvalue() == "group \\x1b[31m has\nno offsets\n"


@pytest.mark.parametrize("code", [1, 3])
def test_a_failure_is_told_on_stderr_and_is_the_exit_code(code: int) -> None:
    streams = Streams()
    with pytest.raises(SystemExit) as ended:
        streams.terminal().fail("no answer", code)
    assert ended.value.code == code
    assert streams.stdout.getvalue() == ""
    assert streams.stderr.getvalue() == "error: no answer\n"


def test_there_is_no_progress_without_a_terminal() -> None:
    streams = Streams()
    with streams.terminal().progress("loading") as report:
        report(1, 50, "partition 1")
    assert streams.stdout.getvalue() + streams.stderr.getvalue() == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe 🚀 日本", "größe 🚀 日本"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\nb\tc\x00", "a\\r\\nb\\tc\\x00"),
        ("\u202eevil", "\\u202eevil"),
        ("\ud800", "\\ud800"),
        ("", ""),
    ],
)
def test_what_could_steer_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
