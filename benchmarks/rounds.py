"""Interleaved rounds: each contestant once a round, so that a drifting machine drifts for all."""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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
    contestants: Mapping[str, Callable[[], float]], *, rounds: int
) -> dict[str, list[float]]:
    """Every contestant's figure of every round."""
    figures: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, run in contestants.items():
            figure = run()
            figures[name].append(figure)
            print(f"  round {number + 1}/{rounds}  {name}: {figure:,.4g}", file=sys.stderr)
    return figures


def ratios(numerators: list[float], denominators: list[float]) -> Spread:
    """Round by round, one over the other."""
    return Spread.of([over / under for over, under in zip(numerators, denominators, strict=True)])
