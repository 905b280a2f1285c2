"""Plots are SVG for a page: its font, its colours, the values as they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from offsetd_pipeline.reports import plots

_TIMES = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(24)]

PLOTS = {
    "lines": lambda: plots.lines(_TIMES, {"commits": list(range(24)), "same again": [None] * 24}),
    "bars": lambda: plots.bars({"billing": 2048.0, "<b>": 1024.0}, unit="_bytes"),
    "no bars": lambda: plots.bars({}),
    "columns": lambda: plots.columns([1 << 20, 0, 3 << 20], unit="_bytes", x_label="partition"),
    "histogram": lambda: plots.histogram([1.0, 2.0, 2.5], unit="_s"),
    "wide histogram": lambda: plots.histogram([0.001, 1.0, 1000.0], unit="_s"),
    "no histogram": lambda: plots.histogram([]),
}


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_a_picture_in_the_pages_colour(name: str) -> None:
    svg = PLOTS[name]()
    root = ET.fromstring(svg)
    assert root.tag.endswith("svg")
    assert "currentColor" in svg
    assert "#010203" not in svg


def test_the_same_values_are_the_same_picture() -> None:
    assert PLOTS["bars"]() == PLOTS["bars"]()


def test_names_and_values_are_text() -> None:
    texts = "".join(ET.fromstring(PLOTS["bars"]()).itertext())
    assert "billing" in texts
    assert "<b>" in texts
    assert "2.0 KiB" in texts


@pytest.mark.parametrize("name", ["$^$", "cost$a_$", "5$ or 6$", r"$\frac$", "$$"])
def test_names_with_dollars_are_no_formulas(name: str) -> None:
    assert name in list(ET.fromstring(plots.bars({name: 1})).itertext())


def test_ticks_of_bytes_are_round() -> None:
    texts = list(ET.fromstring(PLOTS["columns"]()).itertext())
    assert any("1.0 MiB" in text for text in texts)
    assert any("2.0 MiB" in text for text in texts)


@pytest.mark.parametrize(
    "svg",
    [
        plots.columns([0, 0, 1]),
        plots.columns([0, 0, 0]),
        plots.bars({"restored": 2, "failed": 1}),
        plots.bars({"none": 0}),
        plots.lines(_TIMES, {"records": [0] * 24}),
        plots.histogram([5_000, 5_000], unit="_ms", y_label="commits"),
    ],
)
def test_axes_begin_at_nothing_and_count_in_wholes(svg: str) -> None:
    texts = {text.strip() for text in ET.fromstring(svg).itertext()}
    assert "0" in texts
    assert not [text for text in texts if text.startswith(("-", "\N{MINUS SIGN}")) or "0.5" in text]


def test_names_that_are_cut_off_alike_have_a_bar_each() -> None:
    svg = plots.bars({"x" * 60 + "1": 1, "x" * 60 + "2": 2})
    assert sum(text.startswith("xxx") for text in ET.fromstring(svg).itertext()) == 2
