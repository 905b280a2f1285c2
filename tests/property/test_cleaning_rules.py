"""Whole rounds over folders leave the segments that the reference of Kafka's rules leaves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from chance import session_seed
from compaction.cases import RAISED_SHAPES, SHAPES, drawn
from compaction.comparison import batch_difference, differences, segments_in
from compaction.examples import examples
from compaction.exceptions import aborted_below_the_start, expired_before_its_marker
from compaction.ours import clean_once
from compaction.reference import clean

if TYPE_CHECKING:
    from pathlib import Path

    from compaction.logs import Case

SEED = session_seed()
OF_EACH_SHAPE = 20 if os.environ.get("OFFSETD_NIGHTLY") else 1
EXAMPLES = {each.case.name: each.case for each in examples()} | {
    "aborted below the start": aborted_below_the_start(),
    "expired before its marker": expired_before_its_marker(in_its_segment=False),
}
ALL_SHAPES = SHAPES | RAISED_SHAPES


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_cleaned_as_the_reference_cleans_it(name: str, tmp_path: Path) -> None:
    assert_cleaned_as_the_reference_does(EXAMPLES[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(OF_EACH_SHAPE))
@pytest.mark.parametrize("shape", ALL_SHAPES)
def test_a_drawn_log_is_cleaned_as_the_reference_cleans_it(
    shape: str, number: int, tmp_path: Path
) -> None:
    print(f"OFFSETD_TEST_SEED={SEED}")
    assert_cleaned_as_the_reference_does(drawn(shape, ALL_SHAPES[shape], number, SEED), tmp_path)


def assert_cleaned_as_the_reference_does(case: Case, folder: Path) -> None:
    """Round by round; a round with nothing new in it is ours alone."""
    partition_folder = folder / "compacted-0"
    case.write(partition_folder)
    first_dirty = None
    for number, round_ in enumerate(case.rounds):
        before = segments_in(partition_folder)
        done = clean_once(partition_folder, case, number, first_dirty=first_dirty)
        first_dirty = done.offset_next
        if done.first_uncleanable <= done.first_dirty:
            continue
        expected = clean(
            before,
            first_dirty=done.first_dirty,
            first_uncleanable=done.first_uncleanable,
            settings=case.settings,
            now_ms=round_.now_ms,
        )
        assert done.offset_next == expected.next_first_dirty, f"round {number}"
        left = segments_in(partition_folder)
        if case.name.startswith("small indexes"):  # They bound groups, which it does not know.
            joined = (b"".join(segments.values()) for segments in (expected.segments, left))
            assert batch_difference(*joined) is None, f"round {number}"
        else:
            found = list(differences(before, expected.segments, left))
            assert found == [], f"round {number}"
