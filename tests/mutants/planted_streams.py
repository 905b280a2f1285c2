"""Planted bugs of streams over the log, and of watchers that end."""

from __future__ import annotations

from mutants.planted import Mutant

_PIPELINE = "pipeline/offsetd_pipeline"
_STREAMS = f"{_PIPELINE}/streams"
_FOLDER = "tests/unit/pipeline/streams/test_folder_stream.py"
_LIVE = "tests/unit/pipeline/streams/test_live_folder_stream.py"
_WATCH = "tests/unit/coordinator/test_service_watch.py"

STREAM_MUTANTS = (
    Mutant(
        name="the record at a batch's end is part of it and of the next",
        file=f"{_PIPELINE}/folder_tables.py",
        replace="            mask &= offsets < self._end\n",
        by="            mask &= offsets <= self._end\n",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="what is in an open transaction is said",
        file=f"{_STREAMS}/log_tail.py",
        replace="        return min(self._open.values(), default=self.offset_next)\n",
        by="        return self.offset_next\n",
        caught_by=f"{_FOLDER}::test_what_is_in_an_open_transaction_waits_for_its_end",
    ),
    Mutant(
        name="nobody counts what a task has read",
        file=f"{_STREAMS}/range_table.py",
        replace="    if count >= wanted.record_count or table.has_passed_over:\n",
        by="    if count >= 0 or table.has_passed_over:\n",
        caught_by=f"{_FOLDER}::test_what_is_cleaned_between_planning_and_reading_is_noticed",
    ),
    Mutant(
        name="what was cleaned ahead of a stream is not missed",
        file=f"{_STREAMS}/folder_stream.py",
        replace="        if missing > 0:\n",
        by="        if missing > 1 << 40:\n",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="a new query's first batch begins somewhere else when it comes again",
        file=f"{_STREAMS}/reader.py",
        replace="            return end | {BEGUN: start}\n",
        by="            return end\n",
        caught_by=f"{_FOLDER}::test_where_latest_was_is_kept_with_the_first_batch",
    ),
    Mutant(
        name="what was written meanwhile is available now, too",
        file=f"{_STREAMS}/folder_stream.py",
        replace="                end = min(end, bound.get(each, position))\n",
        by="                end = max(end, position)\n",
        caught_by=f"{_FOLDER}::test_available_now_ends_with_what_was_there",
    ),
    Mutant(
        name="a limit bounds each log partition by itself",
        file=f"{_STREAMS}/limits.py",
        replace="        taken.append(behind * allowed // total - before * allowed // total)\n",
        by="        taken.append(min(count, allowed))\n",
        caught_by=f"{_FOLDER}::test_a_limit_is_shared_by_log_partitions_in_proportion",
    ),
    Mutant(
        name="a count goes by places that were before its segment was cleaned",
        file=f"{_STREAMS}/log_tail.py",
        replace="            raise PlacesMoved  # It was cleaned",
        by="            pass  # It was cleaned",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="a count does not look whether its segment was cleaned",
        file=f"{_STREAMS}/log_tail.py",
        replace="                if not is_as_known(file, segment, offset_next):\n",
        by="                if not is_as_known:\n",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="a log that lost its last records ends with the last that is left",
        file=f"{_STREAMS}/folder_stream.py",
        replace="            tail.reach(end)\n",
        by="            tail.reach(0)\n",
        caught_by=_FOLDER,
    ),
    Mutant(
        name="each look at a live folder reads its segments anew",
        file=f"{_STREAMS}/folder_stream.py",
        replace="        if point.offset <= tail.offset_next:\n",
        by="        if point.offset < 0:\n",
        caught_by=_LIVE,
    ),
    Mutant(
        name="a watcher that ends sends the rest of a batch, too",
        file="coordinator/offsetd_coordinator/history/watchers.py",
        replace="        return [each for each in wanted if each.log_offset < until], until\n",
        by="        return wanted, until\n",
        caught_by=f"{_WATCH}::test_a_call_with_an_end_sends_what_is_before_it_and_ends",
    ),
    Mutant(
        name="a reader of the journal takes the frames of the turn before for its own",
        file="storage/offsetd_storage/views/recovery_point_reader.py",
        replace="        if turn != self._turn:\n",
        by="        if self._turn is None:\n",
        caught_by="tests/unit/storage/test_durable_points.py",
    ),
)
