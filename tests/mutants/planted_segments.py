"""Planted bugs of the list of segments, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_LISTS = "tests/unit/storage/log/test_segment_list.py"
_GONE = f"{_LISTS}::test_a_segment_that_is_not_as_it_was_is_a_quarantine_and_a_finding"
_BITS = f"{_LISTS}::test_every_bit_of_a_header_that_no_checksum_covers_is_found"
_REMEDIES = "tests/unit/storage/recovery/test_remedies.py"

SEGMENT_MUTANTS = (
    Mutant(
        name="a start does not compare the segments of a log that was closed",
        where="offsetd_storage.recovery.partition_recovery:_plan_closed_log",
        replace="require_same(known, plan.scans, claim.point)",
        by="",
        caught_by=_GONE,
    ),
    Mutant(
        name="a start does not compare the segments of a log after a crash",
        where="offsetd_storage.recovery.partition_recovery:_plan_crashed_log",
        replace="require_same(known, scans, point)",
        by="",
        caught_by=_GONE,
    ),
    Mutant(
        name="the headers of the segment of a recovery point are not compared",
        where="offsetd_storage.recovery.segment_comparison:_point_flaws",
        replace="if point.headers_digest is None:\n    return []",
        by="if True:\n    return []",
        caught_by=_BITS,
    ),
    Mutant(
        name="the headers of listed segments are not compared",
        where="offsetd_storage.log.segment_list:headers_flaw",
        replace="return None if found == written else",
        by="return None if found or written else",
        caught_by=_BITS,
    ),
    Mutant(
        name="a recovery point moves on before the segments behind it are listed",
        where="offsetd_storage.log.segment_list_updates:SegmentListUpdates.cover",
        replace="if below > self.below:",
        by="if below < 0:",
        caught_by=_GONE,
    ),
    Mutant(
        name="a swap begins before it is listed",
        where="offsetd_storage.log.segment_list_updates:SegmentListUpdates.replacing",
        replace="self._write(max(self.below, following))",
        by="pass",
        caught_by="tests/sim/test_cleaning_store_crashes.py",
    ),
    Mutant(
        name="a last frame of the journal that is dropped is not counted",
        where="offsetd_storage.journal.journal_recovery:_followed",
        replace="    bytes_cut=0 if current.is_closed else current.begun_frame_bytes,\n)",
        by=")",
        caught_by=f"{_REMEDIES}::test_every_bit_of_the_last_frame_that_rots_is_told_and_counted",
    ),
)
