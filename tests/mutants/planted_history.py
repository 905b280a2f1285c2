"""Planted bugs of history and watchers, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_COORDINATOR = "coordinator/offsetd_coordinator"
_STORAGE = "storage/offsetd_storage"
_HISTORY = "tests/unit/coordinator/test_history.py"
_SERVICE = "tests/unit/coordinator/test_service_history.py"
_WATCH = "tests/unit/coordinator/test_service_watch.py"
_PUTS = "tests/unit/coordinator/test_put_batches.py"
_GAPLESS = "tests/unit/storage/test_gapless_from.py"

HISTORY_MUTANTS = (
    Mutant(
        name="watchers see what is not durable",
        file=f"{_STORAGE}/log_store.py",
        replace="        return point if journaled is None else max(",
        by="        return self.logs[topic_partition].offset_next if point >= 0 else max(",
        caught_by=f"{_GAPLESS}::test_a_store_says_up_to_where_each_log_is_durable",
    ),
    Mutant(
        name="a log does not notice a record that is missing inside of a batch",
        file=f"{_STORAGE}/kernels/scan.py",
        replace="    if load_i32(buffer, position + COUNT_AT) != offsets:\n",
        by="    if load_i32(buffer, position + COUNT_AT) > offsets:\n",
        caught_by=_GAPLESS,
    ),
    Mutant(
        name="a state is told that a cleaned record may have been part of",
        file=f"{_COORDINATOR}/history/history_rows.py",
        replace="columns.ROW_REVISION] < superseders_end))\n",
        by="columns.ROW_REVISION] < 0))\n",
        caught_by=_HISTORY,
    ),
    Mutant(
        name="a watcher is not told what was cleaned away",
        file=f"{_COORDINATOR}/history/watchers.py",
        replace="            if self.positions[partition] < log.gapless_from:\n",
        by="            if self.positions[partition] < 0:\n",
        caught_by="tests/unit/coordinator/test_service_watch.py"
        "::test_what_was_cleaned_away_is_compacted_with_the_oldest_token",
    ),
    Mutant(
        name="a watcher is not told what is cleaned away while it reads",
        file=f"{_COORDINATOR}/history/log_changes.py",
        replace="    if start < oldest:\n",
        by="    if start < 0:\n",
        caught_by=_HISTORY,
    ),
    Mutant(
        name="a message's token is that behind all that was read",
        file=f"{_COORDINATOR}/services/watch_calls.py",
        replace="            self._watcher.positions[partition] = part[-1].log_offset + 1\n",
        by="            self._watcher.positions[partition] = changes[-1].log_offset + 1\n",
        caught_by=f"{_WATCH}::test_many_events_come_in_messages_each_with_a_token_of_its_own",
    ),
    Mutant(
        name="a watcher that does not read is waited for",
        file=f"{_COORDINATOR}/services/watch_calls.py",
        replace="            timeout=self._idle_max_ms / 1000,\n",
        by="            timeout=3600,\n",
        caught_by=f"{_WATCH}::test_a_watcher_that_does_not_read_is_cut_off_with_its_token",
    ),
    Mutant(
        name="a restore leaves what was not there then",
        file=f"{_COORDINATOR}/changes/restoration.py",
        replace="    deleted = sorted(places.keys() - then.keys())\n",
        by="    deleted = sorted(places.keys() - places.keys())\n",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a repeated restore is done again",
        file=f"{_COORDINATOR}/changes/change_decisions.py",
        replace="    if answered is not None:\n        reply_type",
        by="    if answered == -1:\n        reply_type",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="an offset that is put expires when another one does",
        file=f"{_COORDINATOR}/kernels/records/put_records.py",
        replace="now_ms if kept_ms < 0 else kept_ms, columns[row, PUT_EXPIRE_TIMESTAMP]\n",
        by="now_ms if kept_ms < 0 else kept_ms, columns[first, PUT_EXPIRE_TIMESTAMP]\n",
        caught_by=_PUTS,
    ),
    Mutant(
        name="the first of several batches answers for all of them",
        file=f"{_COORDINATOR}/state/put_batches.py",
        replace="            *(rows if is_last else without_id),\n",
        by="            *rows,\n",
        caught_by=_PUTS,
    ),
    Mutant(
        name="a restore tells revisions in the order of partitions",
        file=f"{_COORDINATOR}/changes/restoration.py",
        replace="count(written.tombstones_at))",
        by="count(written.commits_at))",
        caught_by="tests/unit/coordinator/test_restoration.py",
    ),
    Mutant(
        name="a deleted group has no history where nothing of it is asked for",
        file=f"{_COORDINATOR}/services/history_calls.py",
        replace="            if not events:\n",
        by="            if events is not None:\n",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a watcher that is gone counts on",
        file=f"{_COORDINATOR}/services/watch_calls.py",
        replace="            self.watchers.remove(watcher)\n"
        "            self._watches.watchers = self.watchers.count\n",
        by="            self.watchers.remove(watcher)\n",
        caught_by=_WATCH,
    ),
)
