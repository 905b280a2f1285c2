"""Planted bugs of the tables for Spark."""

from __future__ import annotations

from mutants.planted import Mutant

_PIPELINE = "pipeline/offsetd_pipeline"
_PLANS = "tests/unit/pipeline/test_folder_plan.py"
_SEGMENTS = "tests/unit/pipeline/test_segments.py"
_SELECTIONS = "tests/unit/pipeline/test_selection.py"
_TABLES = "tests/property/test_folder_tables.py"

PIPELINE_MUTANTS = (
    Mutant(
        name="what a transaction took back is current",
        file=f"{_PIPELINE}/transactions.py",
        replace="    ControlType.ABORT: Outcome.ABORTED,\n",
        by="    ControlType.ABORT: Outcome.COMMITTED,\n",
        caught_by=_TABLES,
    ),
    Mutant(
        name="the end of a transaction is looked for in the same range of segments only",
        file=f"{_PIPELINE}/transactions.py",
        replace="range(self._piece.first, len(self._piece.log.segments))",
        by="range(self._piece.first, self._piece.end)",
        caught_by=_TABLES,
    ),
    Mutant(
        name="a live log's files are opened as they are read",
        file=f"{_PIPELINE}/folder_plan.py",
        replace="            held_by.hold(segments)\n",
        by="",
        caught_by=_PLANS,
    ),
    Mutant(
        name="nobody looks whether a copy was written to",
        file=f"{_PIPELINE}/folder_plan.py",
        replace="            raise\n        _check_unchanged(files, piece.log)\n",
        by="            raise\n",
        caught_by=_PLANS,
    ),
    Mutant(
        name="the highest partition of a broker's folder is taken for the topic's last",
        file=f"{_PIPELINE}/folder_plan.py",
        replace="named if fits(named) and not any(map(fits, others)) else None",
        by="named",
        caught_by=_PLANS,
    ),
    Mutant(
        name="a number of partitions is believed that is one of several that fit",
        file=f"{_PIPELINE}/folder_plan.py",
        replace="named if fits(named) and not any(map(fits, others)) else None",
        by="named if placed and fits(named) else None",
        caught_by=_PLANS,
    ),
    Mutant(
        name="damage is passed over in silence",
        file=f"{_PIPELINE}/segments.py",
        replace="        self._tell(begin, end, _WORDS[reason])\n",
        by="",
        caught_by=_SEGMENTS,
    ),
    Mutant(
        name="NOT IN holds for null",
        file=f"{_PIPELINE}/selection.py",
        replace="pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))",
        by="found",
        caught_by=_SELECTIONS,
    ),
)
