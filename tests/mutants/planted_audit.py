"""Planted bugs of the audit."""

from __future__ import annotations

from mutants.planted import Mutant

_AUDIT = "pipeline/offsetd_pipeline/audit"
_LOGS = "tests/unit/pipeline/audit/test_logs.py"
_RANDOM_LOGS = "tests/spark/test_audit_random_logs.py"

AUDIT_MUTANTS = (
    Mutant(
        name="what is saved is told as if the active segment were rolled",
        file=f"{_AUDIT}/logs.py",
        replace="for rolls_active in (False, True)",
        by="for rolls_active in (True, True)",
        caught_by=_LOGS,
    ),
    Mutant(
        name="a gap between two segments goes unnoticed",
        file=f"{_AUDIT}/logs.py",
        replace="        if segment.offset_next < following:\n            return following\n",
        by="",
        caught_by=_LOGS,
    ),
    Mutant(
        name="commits behind a deletion are held against those before it",
        file=f"{_AUDIT}/commits.py",
        replace='sf.lag("offset").over(before)',
        by='sf.last("offset", ignorenulls=True).over(before.rowsBetween(_FIRST, -1))',
        caught_by=_RANDOM_LOGS,
    ),
    Mutant(
        name="a topic that members read expires",
        file=f"{_AUDIT}/expiry.py",
        replace=" | (~is_empty & _is_read())",
        by="",
        caught_by=_RANDOM_LOGS,
    ),
    Mutant(
        name="a page says that all rows are beside it, whatever there is",
        file="pipeline/offsetd_pipeline/reports/writing.py",
        replace="    if written_count == table.count:\n",
        by="    if True:\n",
        caught_by="tests/unit/pipeline/reports/test_writing.py",
    ),
)
