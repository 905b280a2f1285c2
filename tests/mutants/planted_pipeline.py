"""Planted bugs of the tables for Spark."""

from __future__ import annotations

from mutants.planted import Mutant

_PLANS = "tests/unit/pipeline/test_folder_plan.py"
_SEGMENTS = "tests/unit/pipeline/test_segments.py"
_SELECTIONS = "tests/unit/pipeline/test_selection.py"
_TABLES = "tests/property/test_folder_tables.py"

PIPELINE_MUTANTS = (
    Mutant(
        name="what a transaction took back is current",
        where="offsetd_pipeline.transactions:",
        replace="ControlType.ABORT: Outcome.ABORTED",
        by="ControlType.ABORT: Outcome.COMMITTED",
        caught_by=_TABLES,
    ),
    Mutant(
        name="the end of a transaction is looked for in the same range of segments only",
        where="offsetd_pipeline.transactions:Outcomes._read_ends",
        replace="range(self._piece.first, len(self._piece.log.segments))",
        by="range(self._piece.first, self._piece.end)",
        caught_by=(
            f"{_TABLES}::test_the_end_of_a_transaction_is_found_behind_its_range_of_segments"
        ),
    ),
    Mutant(
        name="a live log's files are opened as they are read",
        where="offsetd_pipeline.folder_plan:plan_log.look",
        replace="held_by.hold(segments)",
        by="",
        caught_by=_PLANS,
    ),
    Mutant(
        name="nobody looks whether a copy was written to",
        where="offsetd_pipeline.folder_plan:opened_piece",
        replace="    raise\n_check_unchanged(files, piece.log)",
        by="    raise",
        caught_by=_PLANS,
    ),
    Mutant(
        name="the highest partition of a broker's folder is taken for the topic's last",
        where="offsetd_pipeline.folder_plan:known_partition_count",
        replace="named if fits(named) and not any(map(fits, others)) else None",
        by="named",
        caught_by=_PLANS,
    ),
    Mutant(
        name="a number of partitions is believed that is one of several that fit",
        where="offsetd_pipeline.folder_plan:known_partition_count",
        replace="named if fits(named) and not any(map(fits, others)) else None",
        by="named if placed and fits(named) else None",
        caught_by=_PLANS,
    ),
    Mutant(
        name="damage is passed over in silence",
        where="offsetd_pipeline.segments:SegmentPass._behind_damage",
        replace="self._tell(begin, end, _WORDS[reason])",
        by="",
        caught_by=_SEGMENTS,
    ),
    Mutant(
        name="NOT IN holds for null",
        where="offsetd_pipeline.selection:_judge",
        replace="pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))",
        by="found",
        caught_by=_SELECTIONS,
    ),
)
