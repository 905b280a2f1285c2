"""Planted bugs of what the cleaner does to files, and of its bounds; what notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_SWAP = "storage/offsetd_storage/log/segment_swap.py"
_PLAN = "storage/offsetd_storage/cleaner/cleaning_plan.py"
_BOUNDS = "tests/unit/storage/cleaner/test_plan.py"
_SWAP_CRASHES = "tests/sim/test_cleaner_crashes.py"
_EACH_STEP = f"{_SWAP_CRASHES}::test_each_step_of_a_swap_is_durable_before_the_next"

SWAP_MUTANTS = (
    Mutant(
        name="the new names are not durable when the old segments go",
        file=_SWAP,
        replace="would be lost beside a lower `.swap`.\n            files.sync_folder(folder)",
        by="would be lost beside a lower `.swap`.",
        caught_by=_EACH_STEP,
    ),
    Mutant(
        name="old segments are not durably gone when the new ones get their names",
        file=_SWAP,
        replace="    if covered:\n        files.sync_folder(folder)\n",
        by="",
        caught_by=_EACH_STEP,
    ),
    Mutant(
        name="old segments that a swap does not cover go in any order",
        file=_SWAP,
        replace="segments[len(covered) :]:",
        by="reversed(segments[len(covered) :]):",
        caught_by=_SWAP_CRASHES,
    ),
    Mutant(
        name="the checkpoint comes before the swap",
        file="storage/offsetd_storage/cleaner/cleaning_round.py",
        replace="    if found.checkpoint_was_reset:\n",
        by=(
            "    checkpoint.advance(log.topic_partition, found.first_uncleanable)\n"
            "    if found.checkpoint_was_reset:\n"
        ),
        caught_by=(
            f"{_SWAP_CRASHES}::test_the_checkpoint_says_that_a_log_is_clean_only_when_it_is"
        ),
    ),
    Mutant(
        name="what lies behind the recovery point is cleaned",
        file=_PLAN,
        replace="    return min(floor, log.recovery_segment_base_offset)",
        by="    return active_base",
        caught_by="tests/sim/test_cleaning_store_crashes.py",
    ),
    Mutant(
        name="what lies behind the last stable offset is cleaned",
        file=_PLAN,
        replace="bounds = [log.last_stable_offset, active_base,",
        by="bounds = [active_base,",
        caught_by=_BOUNDS,
    ),
    Mutant(
        name="young records are cleaned",
        file=_PLAN,
        replace="        bounds += [\n",
        by="        _ = [\n",
        caught_by=f"{_BOUNDS}::test_the_first_young_dirty_segment_is_not_cleaned",
    ),
    Mutant(
        name="segments behind the recovery point are deleted",
        file="storage/offsetd_storage/log_store.py",
        replace=(
            "segments[count].base_offset > min(\n"
            "            point.log_start_offset, point.segment_base_offset\n"
            "        ):"
        ),
        by="segments[count].base_offset > log.log_start_offset:",
        caught_by="tests/unit/storage/test_log_store_segments.py",
    ),
    Mutant(
        name="a segment that has left the log is opened by its old name",
        file="storage/offsetd_storage/log/segment.py",
        replace="            if self.is_retired:\n",
        by="            if False:\n",
        caught_by="tests/unit/storage/cleaner/test_swap.py",
    ),
)
