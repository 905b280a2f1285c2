"""The result of an audit. Plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import pyarrow as pa

    from offsetd_pipeline.audit.scope import AuditScope
    from offsetd_pipeline.audit.thresholds import ExpiryBase, Thresholds
    from offsetd_pipeline.reports.report import Finding


@attrs.frozen(kw_only=True, eq=False)
class Audit:
    """Tables have their worst rows first, at most the requested number; `totals` cover all rows.

    `row_counts`: the number of all rows of each table, by its name; only for tables that do not
    have all rows.

    `docs/guides/spark-audit.md` describes their columns. `lags` and `group_lags` are None without
    end offsets.
    """

    now: datetime
    scope: AuditScope
    thresholds: Thresholds
    expiry_base: ExpiryBase
    totals: Mapping[str, object]
    row_counts: Mapping[str, int]
    findings: tuple[Finding, ...]
    groups: pa.Table  # The commit frequency of groups.
    repeats: pa.Table  # Repeated offsets, by partition.
    moves: pa.Table  # Rewinds and skips.
    expiring: pa.Table
    hot_groups: pa.Table
    future: pa.Table
    strange: pa.Table
    log_partitions: pa.Table
    hours: pa.Table
    days: pa.Table
    gaps: pa.Table
    lags: pa.Table | None
    group_lags: pa.Table | None
    damage: pa.Table

    @property
    def folder(self) -> str:
        """The folder that was read."""
        return self.scope.folder

    def row_count(self, name: str) -> int:
        """The number of all rows of a table, including those that the table does not have."""
        return self.row_counts.get(name, self.tables()[name].num_rows)

    def tables(self) -> dict[str, pa.Table]:
        """The existing tables, by name."""
        names = [
            *("groups", "repeats", "moves", "expiring", "hot_groups", "future", "strange"),
            *("log_partitions", "hours", "days", "gaps", "lags", "group_lags", "damage"),
        ]
        found = {name: getattr(self, name) for name in names}
        return {name: table for name, table in found.items() if table is not None}
