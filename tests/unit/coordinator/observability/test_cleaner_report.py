"""The lines of a round, as tools that read Kafka's `log-cleaner.log` expect them."""

from __future__ import annotations

import re

import attrs
import pytest
from cleaner_reports import MIB, REPORT
from offsetd_coordinator.observability.cleaner_report import report_fields, report_lines

EXPECTED = """\
[2023-12-16 04:04:19,123] INFO Cleaner 0: Cleaning log __consumer_offsets-7 (cleaning prior to \
Sat Dec 16 04:04:18 UTC 2023, discarding tombstones prior to upper bound deletion horizon \
Fri Dec 15 04:04:19 UTC 2023)... (offsetd.LogCleaner)
[2023-12-16 04:04:21,123] INFO [kafka-log-cleaner-thread-0]: 
\tLog cleaner thread 0 cleaned log __consumer_offsets-7 (dirty section = [309313806, 310221664])
\t1,500.0 MB of log processed in 2.5 seconds (600.0 MB/sec).
\tIndexed 100.0 MB in 0.5 seconds (200.0 Mb/sec, 20.0% of total time)
\tBuffer utilization: 25.0%
\tCleaned 1,500.0 MB in 2.0 seconds (750.0 Mb/sec, 80.0% of total time)
\tStart size: 1,500.0 MB (1,000,000 messages)
\tEnd size: 375.0 MB (100,000 messages)
\t75.0% size reduction (90.0% fewer messages)
 (offsetd.LogCleaner)"""  # noqa: W291  Kafka's line ends so, too.


def test_the_lines_have_kafkas_layout() -> None:
    assert report_lines(0, REPORT) == EXPECTED


# As scripts take such a log apart: numbers are numbers, with commas at most.
BLOCK = re.compile(
    r"\tLog cleaner thread (\d+) cleaned log (\S+) \(dirty section = \[(\d+), (\d+)\]\)\n"
    r"\t([\d.,]+) MB of log processed in ([\d.,]+) seconds \(([\d.,]+) MB/sec\)\.\n"
    r"\tIndexed ([\d.,]+) MB in ([\d.]+) seconds \(([\d.,]+) Mb/sec, ([\d.]+)% of total time\)\n"
    r"\tBuffer utilization: ([\d.]+)%\n"
    r"\tCleaned ([\d.,]+) MB in ([\d.]+) seconds \(([\d.,]+) Mb/sec, ([\d.]+)% of total time\)\n"
    r"\tStart size: ([\d.,]+) MB \(([\d,]+) messages\)\n"
    r"\tEnd size: ([\d.,]+) MB \(([\d,]+) messages\)\n"
    r"\t(-?[\d.]+)% size reduction \((-?[\d.]+)% fewer messages\)\n"
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"elapsed_ms": 0, "index_ms": 0},
        {"bytes_read": 0, "bytes_written": 0, "messages_read": 0, "messages_written": 0},
        {"map_bytes_read": 0, "index_ms": 0},
        {"elapsed_ms": 7_200_000, "index_ms": 7_200_000},
        {"bytes_written": 1501 * MIB, "messages_written": 1_000_000},
    ],
)
def test_every_figure_is_a_number_also_of_a_round_with_nothing_in_it(
    changes: dict[str, int],
) -> None:
    assert len(BLOCK.findall(report_lines(11, attrs.evolve(REPORT, **changes)))) == 1


def test_records_without_a_key_are_warned_of() -> None:
    report = attrs.evolve(REPORT, invalid_messages=3)
    *_, last = report_lines(2, report).splitlines()
    assert last == (
        "[2023-12-16 04:04:21,123] WARN [kafka-log-cleaner-thread-2]: "
        "\tFound 3 invalid messages during compaction. (offsetd.LogCleaner)"
    )


@pytest.mark.parametrize(
    ("tombstones_until_ms", "told"),
    [
        (0, "Thu Jan 01 00:00:00 UTC 1970"),
        (1_702_699_458_000 - 2**63 + 1, "Thu Jan 01 00:00:00 UTC 1970"),
        (2**63 - 1, "Fri Dec 31 23:59:59 UTC 9999"),
    ],
)
def test_times_that_no_calendar_has_are_told_as_its_ends(
    tombstones_until_ms: int, told: str
) -> None:
    report = attrs.evolve(REPORT, tombstones_until_ms=tombstones_until_ms)
    assert f"deletion horizon {told})..." in report_lines(0, report)


def test_the_same_figures_have_names() -> None:
    fields = report_fields(0, REPORT)
    assert fields["partition"] == "__consumer_offsets-7"
    assert fields["size_reduction"] == 0.75
    assert fields["message_reduction"] == 0.9
    assert fields["elapsed_ms"] == 2500
