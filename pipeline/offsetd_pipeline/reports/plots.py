"""Plots as SVG inside a page: their text has the page's font and colour."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from io import StringIO
from typing import Any, Final

import matplotlib as mpl
from cycler import cycler
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from offsetd_pipeline.reports.formats import shown

_INK: Final = "#010203"  # A placeholder for the page's own colour.
_COLOURS: Final = ("#3b7dd8", "#e07b39", "#4c9f70", "#b3589a", "#8a8f98", "#c9a227")
_SETTINGS: Final[dict[str, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "offsetd",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "text.parse_math": False,  # Names may contain dollar signs.
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=_COLOURS),
    "grid.alpha": 0.2,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_SIZE_INCHES: Final = (10.2, 3.2)
_BAR_INCHES: Final = 0.28
_BINS: Final = 30
_WIDE_SPREAD: Final = 100
_ROOM: Final = 1.02
_KIB: Final = 1024
_NAME_MAX: Final = 44


def lines(
    times: Sequence[datetime], series: Mapping[str, Sequence[float | None]], *, unit: str = ""
) -> str:
    """Lines over time, one for each of `series`.

    `unit` has the form of the ends of column names (`_bytes`).
    """
    with mpl.rc_context(_SETTINGS):
        figure, axes = _figure(_SIZE_INCHES)
        for name, values in series.items():
            axes.plot(times, values, label=name, linewidth=1.6)
        locator = AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        drawn = [each for values in series.values() for each in values if each is not None]
        axes.set_ylim(0, _end(axes.get_ylim()[1], drawn, unit))
        _values_on(axes.yaxis, unit)
        if len(series) > 1:
            figure.legend(loc="outside upper left", ncols=len(series), frameon=False)
        return _svg(figure)


def bars(values: Mapping[str, float], *, unit: str = "") -> str:
    """A bar for each name, the first on top. Long names are cut off."""
    with mpl.rc_context(_SETTINGS):
        height = 0.8 + _BAR_INCHES * max(len(values), 1)
        figure, axes = _figure((_SIZE_INCHES[0], height))
        # The positions are numbers, because shortened names may be equal.
        drawn = axes.barh(range(len(values)), list(values.values()), height=0.7)
        axes.set_yticks(range(len(values)), [_short(each) for each in values])
        axes.bar_label(drawn, [shown(unit, each) for each in values.values()], padding=4)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_xlim(0, _end(axes.get_xlim()[1], values.values(), unit))
        axes.grid(visible=False, axis="y")
        _values_on(axes.xaxis, unit)
        return _svg(figure)


def columns(values: Sequence[float], *, unit: str = "", x_label: str = "") -> str:
    """A column for each number, starting at 0: for each log partition, for example."""
    with mpl.rc_context(_SETTINGS):
        figure, axes = _figure(_SIZE_INCHES)
        axes.bar(range(len(values)), values, width=0.8)
        axes.grid(visible=False, axis="x")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(x_label)
        axes.set_ylim(0, _end(axes.get_ylim()[1], values, unit))
        _values_on(axes.yaxis, unit)
        return _svg(figure)


def histogram(
    values: Sequence[float],
    *,
    unit: str = "",
    y_label: str = "",
    counts: Sequence[int] | None = None,
) -> str:
    """The number of values of each size, in bins of equal ratios if their range is wide.

    `counts`: how often each value occurs. If the bins have equal ratios, there is no bin for zeros:
    they count in the first one, and the plot says so.
    """
    weights = [1] * len(values) if counts is None else counts
    positive = [each for each in values if each > 0]
    spread = max(positive) / min(positive) if positive else 1
    largest = max(positive, default=1)
    with mpl.rc_context(_SETTINGS):
        figure, axes = _figure(_SIZE_INCHES)
        if spread > _WIDE_SPREAD:
            low, high = min(positive), max(positive)
            edges = [low * (high / low) ** (step / _BINS) for step in range(_BINS + 1)]
            axes.hist([max(each, low) for each in values], bins=edges, weights=weights)
            axes.set_xscale("log")
            if len(positive) < len(values):
                axes.set_xlabel(f"{shown(unit, 0)} counts with the smallest")
        else:
            axes.hist(list(values), bins=_BINS, range=(0, largest), weights=weights)
            axes.set_xlim(0, largest * _ROOM)
            axes.xaxis.set_major_locator(MaxNLocator())
        axes.set_ylabel(y_label)
        _values_on(axes.yaxis, "")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(unit, value)))
        return _svg(figure)


def _figure(size_inches: tuple[float, float]) -> tuple[Any, Any]:
    # This does not use pyplot, which keeps figures, and state that threads share.
    figure = Figure(figsize=size_inches, layout="constrained")
    FigureCanvasSVG(figure)
    return figure, figure.subplots()


def _end(drawn_end: float, values: Iterable[float], unit: str) -> float:
    """The end of an axis that begins at 0: the drawn end, or one unit if all values are zero."""
    if any(values):
        return drawn_end
    return _KIB if unit == "_bytes" else 1


def _short(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"


def _values_on(axis: Any, unit: str) -> None:
    """Ticks with their unit. Without a unit the values are counts, which have no halves."""
    if unit == "_bytes":
        axis.set_major_locator(_BinaryLocator())
    elif not unit:
        axis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axis.set_major_formatter(FuncFormatter(lambda value, _position: _tick(unit, value)))


class _BinaryLocator(MaxNLocator):
    """Ticks at round numbers of KiB, MiB and so on, depending on the largest value."""

    def __init__(self) -> None:
        super().__init__(steps=[1, 2, 5, 10])

    def tick_values(self, vmin: float, vmax: float) -> Any:
        scale = 1024 ** int(math.log(max(vmax / 2, 1), 1024))
        return super().tick_values(vmin / scale, vmax / scale) * scale


def _tick(unit: str, value: float) -> str:
    return shown(unit, int(value) if float(value).is_integer() else value)


def _svg(figure: Any) -> str:
    out = StringIO()
    figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :].replace(_INK, "currentColor")
