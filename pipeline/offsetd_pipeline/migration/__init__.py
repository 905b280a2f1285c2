"""Bulk migrations of offsets to a server, by Spark: planned, run, verified, and restartable."""

from offsetd_pipeline.migration.migrating import (
    Migration,
    MigrationOptions,
    PlanMismatch,
    opened_migration,
)
from offsetd_pipeline.migration.page import report_of, write_migration
from offsetd_pipeline.migration.plan_folder import BadPlanFolder, PlanFolder, PlanHeader
from offsetd_pipeline.migration.results import RunResult, VerifyResult

__all__ = [
    "BadPlanFolder",
    "Migration",
    "MigrationOptions",
    "PlanFolder",
    "PlanHeader",
    "PlanMismatch",
    "RunResult",
    "VerifyResult",
    "opened_migration",
    "report_of",
    "write_migration",
]
