"""Planted bugs of the audit."""

from __future__ import annotations

from mutants.planted import Mutant

_LOGS = "tests/unit/pipeline/audit/test_cleaner_state.py"
_RANDOM_LOGS = "tests/spark/test_audit_random_logs.py"

AUDIT_MUTANTS = (
    Mutant(
        name="what is saved is told as if the active segment were rolled",
        where="offsetd_pipeline.audit.cleaner_state:_state",
        replace="for rolls_active in (False, True)",
        by="for rolls_active in (True, True)",
        caught_by=_LOGS,
    ),
    Mutant(
        name="a gap between two segments goes unnoticed",
        where="offsetd_pipeline.audit.cleaner_state:_complete_from",
        replace="if segment.offset_next < following:\n    return following",
        by="",
        caught_by=_LOGS,
    ),
    Mutant(
        name="commits behind a deletion are held against those before it",
        where="offsetd_pipeline.audit.commits:_in_order",
        replace='sf.lag("offset").over(before)',
        by='sf.last("offset", ignorenulls=True).over(before.rowsBetween(_FIRST, -1))',
        caught_by=_RANDOM_LOGS,
    ),
    Mutant(
        name="a topic that members read expires",
        where="offsetd_pipeline.audit.expiry:expiry_times",
        replace="| (~is_empty & _is_read())",
        by="",
        caught_by=_RANDOM_LOGS,
    ),
    Mutant(
        name="a page says that all rows are beside it, whatever there is",
        where="offsetd_pipeline.reports.writing:_told_rows",
        replace="if written_count == table.count:",
        by="if True:",
        caught_by="tests/unit/pipeline/reports/test_writing.py",
    ),
)
