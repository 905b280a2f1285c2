"""A report: facts, findings, and sections of tables and plots. Plain values."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import attrs
import pyarrow as pa


class Level(StrEnum):
    """The importance of a finding."""

    GOOD = "good"
    NOTE = "note"
    WARNING = "warning"


@attrs.frozen
class Finding:
    """A finding in one sentence."""

    level: Level
    text: str


@attrs.frozen(kw_only=True)
class Table:
    """Rows. The page shows the first `shown_rows`; `name.parquet` next to it has all of `rows`.

    `row_count`: the number of all rows; `rows` has the first ones. `is_written`: the caller writes
    `name.parquet`, with all rows. The names of columns end with their units: see `formats`.
    """

    name: str
    title: str
    rows: pa.Table
    note: str = ""
    shown_rows: int = 50
    row_count: int | None = None
    is_written: bool = False

    @property
    def count(self) -> int:
        """The number of all rows, including those that `rows` does not have."""
        return self.rows.num_rows if self.row_count is None else self.row_count


@attrs.frozen(kw_only=True)
class Plot:
    """A picture that `plots` has drawn: SVG."""

    title: str
    svg: str
    note: str = ""


@attrs.frozen(kw_only=True)
class Section:
    """Tables and plots on one question."""

    title: str
    note: str = ""
    parts: tuple[Table | Plot, ...] = ()


@attrs.frozen(kw_only=True)
class Report:
    """A report.

    `facts`: the facts about the source, by name; names end with units as columns do.
    """

    title: str
    time: datetime
    facts: Mapping[str, object]
    findings: tuple[Finding, ...] = ()
    sections: tuple[Section, ...] = ()
