"""cli.arguments.reset_targets: what `offsetd groups reset` makes of its arguments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import typer
from offsetd_clients import Bounds, TopicPartition
from offsetd_clients.cli.arguments.reset_targets import (
    parse_bound,
    parse_span,
    parse_time,
    parse_topics,
    read_csv,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "topics", "partitions"),
    [
        ("orders", ["orders"], []),
        ("orders:0", [], [("orders", 0)]),
        ("orders:0,12", [], [("orders", 0), ("orders", 12)]),
        ("a:b", ["a:b"], []),
        ("a:b:1", [], [("a:b", 1)]),
        ("orders:", ["orders:"], []),
        (":1", [":1"], []),
        ("orders,payments", ["orders,payments"], []),
    ],
)
def test_a_topic_comes_alone_or_with_partitions(
    text: str, topics: list[str], partitions: list[tuple[str, int]]
) -> None:
    assert parse_topics([text]) == (topics, [TopicPartition(*each) for each in partitions])


@pytest.mark.parametrize(
    "text",
    ["orders:1,orders", "orders:1,orders:0", "orders:1,", "a,b:0", "orders:0:1", "orders:0,a"],
)
def test_several_topics_in_one_text_are_wrong_use(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="--topic may be repeated"):
        parse_topics([text])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PT0.5S", timedelta(milliseconds=500)),
        ("P1DT12H", timedelta(hours=36)),
        ("P7D", timedelta(days=7)),
        ("PT1H2M3S", timedelta(hours=1, minutes=2, seconds=3)),
        ("36h", timedelta(hours=36)),
        ("500ms", timedelta(milliseconds=500)),
    ],
)
def test_a_span_is_kafkas_or_ours(text: str, expected: timedelta) -> None:
    assert parse_span(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "12", "1x", "P1H", "-PT1H", "P999999999999D"])
def test_what_is_no_span_is_wrong_use(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_span(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_is_none_in_utc_is_wrong_use(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="not in the years 1 to 9999 in UTC"):
        parse_time(text)


def test_a_time_without_a_zone_is_utc() -> None:
    expected = datetime(2026, 11, 20, 21, 6, 15, 341_000, tzinfo=UTC)
    for text in (
        "2026-11-20T21:06:15.341",
        "2026-11-20T21:06:15.341Z",
        "2026-11-20T23:06:15.341+02:00",
        "2026-11-20T23:06:15.341+0200",
        "2026-11-20T23:06:15.341+02",
    ):
        assert parse_time(text) == expected
    with pytest.raises(typer.BadParameter):
        parse_time("20 November")


def test_a_file_has_one_group_or_names_them(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,5\n\norders,1,6\n")
    offsets = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 6}
    assert read_csv(file, ["g"]) == {"g": offsets}
    with pytest.raises(typer.BadParameter):
        read_csv(file, ["g", "h"])
    file.write_text("g,orders,0,5\nh,orders,1,6\nother,orders,1,6\n")
    assert read_csv(file, ["g", "h"]) == {
        "g": {TopicPartition("orders", 0): 5},
        "h": {TopicPartition("orders", 1): 6},
    }


@pytest.mark.parametrize(
    "content",
    [
        "",
        "orders,0\n",
        "orders,x,5\n",
        "orders,0,-5\n",
        "orders,0,5\norders,0,6\n",
        "o,2147483648,1",
    ],
)
def test_a_file_that_is_none_is_wrong_use(tmp_path: Path, content: str) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text(content)
    with pytest.raises(typer.BadParameter):
        read_csv(file, ["g"])


def test_without_groups_a_file_says_which_there_are(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("g,orders,0,5\nh,orders,1,6\n")
    assert read_csv(file, None) == {
        "g": {TopicPartition("orders", 0): 5},
        "h": {TopicPartition("orders", 1): 6},
    }
    for wrong in ("", "orders,0,5\n"):
        file.write_text(wrong)
        with pytest.raises(typer.BadParameter):
            read_csv(file, None)


def test_a_wrong_line_of_a_file_is_told_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,5\n\norders,one,6\n")
    with pytest.raises(typer.BadParameter, match=r"offsets\.csv, line 3: .* is not a whole number"):
        read_csv(file, ["g"])
    with pytest.raises(typer.BadParameter, match=r"No such file or directory$"):
        read_csv(tmp_path / "none.csv", ["g"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders:0=5..9", (TopicPartition("orders", 0), Bounds(5, 9))),
        ("a:b:12=..9", (TopicPartition("a:b", 12), Bounds(None, 9))),
        ("orders:0=5..", (TopicPartition("orders", 0), Bounds(5, None))),
    ],
)
def test_bounds_are_a_partitions_first_offset_and_its_end(
    text: str, expected: tuple[TopicPartition, Bounds]
) -> None:
    assert parse_bound(text) == expected


@pytest.mark.parametrize("text", ["", "orders", "orders:0", "orders:0=5", "orders=5..9", ":0=1..2"])
def test_what_are_no_bounds_is_wrong_use(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_bound(text)
