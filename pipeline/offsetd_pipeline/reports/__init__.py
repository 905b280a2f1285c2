"""The findings of a job, for users (a page) and for programs (tables)."""

from offsetd_pipeline.reports.report import Finding, Level, Plot, Report, Section, Table
from offsetd_pipeline.reports.writing import write_report

__all__ = ["Finding", "Level", "Plot", "Report", "Section", "Table", "write_report"]
