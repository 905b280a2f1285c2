"""Values are shown by the unit that their name ends with."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from offsetd_pipeline.plurals import counted
from offsetd_pipeline.reports.formats import headings, is_number, shown


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("log_bytes", 0, "0 B"),
        ("log_bytes", 1023, "1,023 B"),
        ("log_bytes", 1024, "1.0 KiB"),
        ("log_bytes", 5 << 30, "5.0 GiB"),
        ("log_bytes", 3 << 60, "3,145,728.0 TiB"),
        ("log_bytes", None, "-"),
        ("gap_ms", 1500, "1.5 s"),
        ("gap_s", 0.25, "0.25 s"),
        ("gap_s", 7200, "2:00:00"),
        ("gap_s", -7200, "-2:00:00"),
        ("dirty_ratio", 0.5, "50.0%"),
        ("dirty_ratio", 0, "0.0%"),
        ("dirty_ratio", 0.0004, "<0.1%"),
        ("dirty_ratio", 0.9996, ">99.9%"),
        ("dirty_ratio", 1.0, "100.0%"),
        ("commits", 1234567, "1,234,567"),
        ("rate", 1234.5678, "1,235"),
        ("is_hot", True, "yes"),
        ("is_hot", False, "no"),
        ("first", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02 03:04:05"),
        ("folders", ["a", "b"], "a, b"),
        ("key", b"\x00\xff", "00ff"),
        ("group", "billing", "billing"),
    ],
)
def test_a_value_is_shown(name: str, value: object, text: str) -> None:
    assert shown(name, value) == text


def test_a_heading_leaves_the_unit_to_the_values() -> None:
    assert headings(["log_bytes", "last_commit"]) == ["log", "last commit"]


def test_no_two_headings_are_the_same() -> None:
    assert headings(["dirty_bytes", "dirty_ratio", "lag_ms"]) == [
        "dirty bytes",
        "dirty ratio",
        "lag",
    ]
    assert headings(["log", "log_bytes"]) == ["log", "log bytes"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 groups"), (1, "1 group"), (1234, "1,234 groups")]
)
def test_what_is_counted_is_one_or_several(count: int, text: str) -> None:
    assert counted(count, "group") == text


def test_numbers_are_told_from_flags() -> None:
    assert is_number(1)
    assert is_number(0.5)
    assert not is_number(True)
    assert not is_number("1")
