"""The differences between two sources of offsets, each with its kind."""

from offsetd_pipeline.comparison.comparing import Comparison, compare
from offsetd_pipeline.comparison.differences import (
    CompareOptions,
    DifferenceKind,
    Ignored,
    differing,
)
from offsetd_pipeline.comparison.page import report_of, write_comparison

__all__ = [
    "CompareOptions",
    "Comparison",
    "DifferenceKind",
    "Ignored",
    "compare",
    "differing",
    "report_of",
    "write_comparison",
]
