"""Planted bugs of streams over the log, and of watchers that end."""

from __future__ import annotations

from mutants.planted import Mutant

_FOLDER = "tests/unit/pipeline/streams/test_folder_stream.py"
_LIVE = "tests/unit/pipeline/streams/test_live_folder_stream.py"
_WATCH = "tests/unit/coordinator/grpc/test_watch_stream.py"

STREAM_MUTANTS = (
    Mutant(
        name="the record at a batch's end is part of it and of the next",
        where="offsetd_pipeline.folder_tables:_Stretch.holds",
        replace="mask &= offsets < self._end",
        by="mask &= offsets <= self._end",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="what is in an open transaction is said",
        where="offsetd_pipeline.streams.log_tail:LogTail.stable_end",
        replace="return min(self._open.values(), default=self.offset_next)",
        by="return self.offset_next",
        caught_by=f"{_FOLDER}::test_what_is_in_an_open_transaction_waits_for_its_end",
    ),
    Mutant(
        name="nobody counts what a task has read",
        where="offsetd_pipeline.streams.range_table:range_batches",
        replace="if count >= wanted.record_count or table.has_passed_over:",
        by="if count >= 0 or table.has_passed_over:",
        caught_by=f"{_FOLDER}::test_what_is_cleaned_between_planning_and_reading_is_noticed",
    ),
    Mutant(
        name="what was cleaned ahead of a stream is not missed",
        where="offsetd_pipeline.streams.folder_stream:FolderStream._kept",
        replace="if missing > 0:",
        by="if missing > 1 << 40:",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="a new query's first batch begins somewhere else when it comes again",
        where="offsetd_pipeline.streams.reader:StreamReader.latestOffset",
        replace="return end | {BEGUN: start}",
        by="return end",
        caught_by=f"{_FOLDER}::test_where_latest_was_is_kept_with_the_first_batch",
    ),
    Mutant(
        name="what was written meanwhile is available now, too",
        where="offsetd_pipeline.streams.folder_stream:FolderStream._bounded",
        replace="end = min(end, bound.get(each, position))",
        by="end = max(end, position)",
        caught_by=f"{_FOLDER}::test_available_now_ends_with_what_was_there",
    ),
    Mutant(
        name="a limit bounds each log partition by itself",
        where="offsetd_pipeline.streams.limits:shares",
        replace="taken.append(behind * allowed // total - before * allowed // total)",
        by="taken.append(min(count, allowed))",
        caught_by=f"{_FOLDER}::test_a_limit_is_shared_by_log_partitions_in_proportion",
    ),
    Mutant(
        name="a count goes by places that were before its segment was cleaned",
        where="offsetd_pipeline.streams.log_tail:LogTail._read",
        replace="raise PlacesMoved",
        by="pass  # It was cleaned",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="a count does not look whether its segment was cleaned",
        where="offsetd_pipeline.streams.log_tail:LogTail._offsets_from",
        replace="if not is_as_known(file, segment, offset_next):",
        by="if not is_as_known:",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="a log that lost its last records ends with the last that is left",
        where="offsetd_pipeline.streams.folder_stream:FolderStream._advance",
        replace="tail.reach(end)",
        by="tail.reach(0)",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="each look at a live folder reads its segments anew",
        where="offsetd_pipeline.streams.folder_stream:FolderStream._advance",
        replace="if point.offset <= tail.offset_next:",
        by="if point.offset < 0:",
        caught_by=_LIVE,
    ),
    Mutant(
        name="a watcher that ends sends the rest of a batch, too",
        where="offsetd_coordinator.history.watchers:Watcher.read",
        replace="return [each for each in wanted if each.log_offset < until], until",
        by="return wanted, until",
        caught_by=f"{_WATCH}::test_a_call_with_an_end_sends_what_is_before_it_and_ends",
    ),
    Mutant(
        name="a reader of the journal takes the frames of the turn before for its own",
        where="offsetd_storage.views.recovery_point_reader:DurablePoints._follow",
        replace="if turn != self._turn:",
        by="if self._turn is None:",
        caught_by="tests/unit/storage/views/test_recovery_point_reader.py",
    ),
)
