"""Interleaved rounds: each contestant once a round, so that a drift of the machine affects all."""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


Figure = TypeVar("Figure")


@attrs.frozen(kw_only=True)
class Spread:
    """A figure over all rounds."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, figures: list[float]) -> Spread:
        """The spread of at least one figure."""
        return cls(median=statistics.median(figures), lowest=min(figures), highest=max(figures))

    def __str__(self) -> str:
        return f"{self.median:,.4g} ({self.lowest:,.4g} to {self.highest:,.4g})"


def interleave(
    contestants: Mapping[str, Callable[[], Figure]], *, rounds: int
) -> dict[str, list[Figure]]:
    """Runs each contestant once a round; returns all their figures."""
    figures: dict[str, list[Figure]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, run in contestants.items():
            figure = run()
            figures[name].append(figure)
            shown = f"{figure:,.4g}" if isinstance(figure, float) else figure
            print(f"  round {number + 1}/{rounds}  {name}: {shown}", file=sys.stderr)
    return figures


def ratios(numerators: list[float], denominators: list[float]) -> Spread:
    """The spread of the numerators divided by the denominators, round by round."""
    return Spread.of([over / under for over, under in zip(numerators, denominators, strict=True)])
