"""Planted bugs of what the cleaner does to files, and of its bounds; what notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_BOUNDS = "tests/unit/storage/cleaner/test_plan.py"
_SWAP_CRASHES = "tests/sim/test_cleaner_crashes.py"
_EACH_STEP = f"{_SWAP_CRASHES}::test_each_step_of_a_swap_is_durable_before_the_next"

SWAP_MUTANTS = (
    Mutant(
        name="the new names are not durable when the old segments go",
        where="offsetd_storage.log.segment_swap:_begin",
        replace=")\nfiles.sync_folder(folder)",
        by=(
            ")\n"
            "# Now: a higher one that comes back as `.cleaned` would be lost beside a "
            "lower `.swap`."
        ),
        caught_by=_EACH_STEP,
    ),
    Mutant(
        name="old segments are not durably gone when the new ones get their names",
        where="offsetd_storage.log.segment_swap:_delete",
        replace="if covered:\n    files.sync_folder(folder)",
        by="",
        caught_by=_EACH_STEP,
    ),
    Mutant(
        name="old segments that a swap does not cover go in any order",
        where="offsetd_storage.log.segment_swap:_delete",
        replace="segments[len(covered) :]:",
        by="reversed(segments[len(covered) :]):",
        caught_by=_SWAP_CRASHES,
    ),
    Mutant(
        name="the checkpoint comes before the swap",
        where="offsetd_storage.cleaner.cleaning_round:clean_and_checkpoint",
        replace="if found.checkpoint_was_reset:",
        by=(
            "checkpoint.advance(log.topic_partition, found.first_uncleanable)\n"
            "if found.checkpoint_was_reset:"
        ),
        caught_by=(
            f"{_SWAP_CRASHES}::test_the_checkpoint_says_that_a_log_is_clean_only_when_it_is"
        ),
    ),
    Mutant(
        name="what lies behind the recovery point is cleaned",
        where="offsetd_storage.cleaner.cleaning_plan:first_uncleanable_offset",
        replace="return min(floor, log.recovery_segment_base_offset)",
        by="return active_base",
        caught_by="tests/sim/test_cleaning_store_crashes.py",
    ),
    Mutant(
        name="what lies behind the last stable offset is cleaned",
        where="offsetd_storage.cleaner.cleaning_plan:first_uncleanable_offset",
        replace="bounds = [log.last_stable_offset, active_base,",
        by="bounds = [active_base,",
        caught_by=_BOUNDS,
    ),
    Mutant(
        name="young records are cleaned",
        where="offsetd_storage.cleaner.cleaning_plan:first_uncleanable_offset",
        replace="bounds += [",
        by="_ = [",
        caught_by=f"{_BOUNDS}::test_the_first_young_dirty_segment_is_not_cleaned",
    ),
    Mutant(
        name="segments behind the recovery point are deleted",
        where="offsetd_storage.log_store:LogStore.delete_oldest",
        replace=(
            "segments[count].base_offset > min(\n"
            "    point.log_start_offset, point.segment_base_offset\n"
            "):"
        ),
        by="segments[count].base_offset > log.log_start_offset:",
        caught_by="tests/unit/storage/test_log_store_segments.py",
    ),
    Mutant(
        name="a segment that has left the log is opened by its old name",
        where="offsetd_storage.log.segment:Segment.reader",
        replace="if self.is_retired:",
        by="if False:",
        caught_by="tests/unit/storage/cleaner/test_swap.py",
    ),
)
