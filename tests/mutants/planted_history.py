"""Planted bugs of history and watchers, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_HISTORY = "tests/unit/coordinator/history/test_offset_events.py"
_SERVICE = "tests/unit/coordinator/services/test_history_calls.py"
_WATCH = "tests/unit/coordinator/grpc/test_watch_stream.py"
_PUTS = "tests/unit/coordinator/state/test_offset_batches.py"
_GAPLESS = "tests/unit/storage/log/test_gapless_from.py"

HISTORY_MUTANTS = (
    Mutant(
        name="watchers see what is not durable",
        where="offsetd_storage.log_store:LogStore.durable_end",
        replace="return point if journaled is None else max(",
        by="return self.logs[topic_partition].offset_next if point >= 0 else max(",
        caught_by=f"{_GAPLESS}::test_a_store_says_up_to_where_each_log_is_durable",
    ),
    Mutant(
        name="a log does not notice a record that is missing inside of a batch",
        where="offsetd_storage.kernels.scan:_gapless_from",
        replace="if load_i32(buffer, position + COUNT_AT) != offsets:",
        by="if load_i32(buffer, position + COUNT_AT) > offsets:",
        caught_by=_GAPLESS,
    ),
    Mutant(
        name="a state is told that a cleaned record may have been part of",
        where="offsetd_coordinator.history.history_rows:_check_whole",
        replace="columns.ROW_REVISION] < superseders_end))",
        by="columns.ROW_REVISION] < 0))",
        caught_by=_HISTORY,
    ),
    Mutant(
        name="a watcher is not told what was cleaned away",
        where="offsetd_coordinator.history.watchers:Watcher.begin",
        replace="if self.positions[partition] < log.gapless_from:",
        by="if self.positions[partition] < 0:",
        caught_by="tests/unit/coordinator/grpc/test_watch_stream.py"
        "::test_what_was_cleaned_away_is_compacted_with_the_oldest_token",
    ),
    Mutant(
        name="a watcher is not told what is cleaned away while it reads",
        where="offsetd_coordinator.history.offset_events:next_stretch",
        replace="if start < oldest:",
        by="if start < 0:",
        caught_by=_HISTORY,
    ),
    Mutant(
        name="a message's token is that behind all that was read",
        where="offsetd_coordinator.grpc.watch_stream:_Call._send_changes",
        replace="self._watcher.positions[partition] = part[-1].log_offset + 1",
        by="self._watcher.positions[partition] = changes[-1].log_offset + 1",
        caught_by=f"{_WATCH}::test_many_events_come_in_messages_each_with_a_token_of_its_own",
    ),
    Mutant(
        name="a watcher that does not read is waited for",
        where="offsetd_coordinator.grpc.watch_stream:_Call._send",
        replace="timeout=self._idle_max_ms / 1000,",
        by="timeout=3600,",
        caught_by=f"{_WATCH}::test_a_watcher_that_does_not_read_is_cut_off_with_its_token",
    ),
    Mutant(
        name="a restore leaves what was not there then",
        where="offsetd_coordinator.changes.restoration:restored",
        replace="deleted = sorted(places.keys() - then.keys())",
        by="deleted = sorted(places.keys() - places.keys())",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a repeated restore is done again",
        where="offsetd_coordinator.changes.change_decisions:check_change",
        replace="if answered is not None:\n    reply_type",
        by="if answered == -1:\n    reply_type",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="an offset that is put expires when another one does",
        where="offsetd_coordinator.kernels.records.put_records:put_offsets",
        replace="now_ms if kept_ms < 0 else kept_ms, columns[row, PUT_EXPIRE_TIMESTAMP]",
        by="now_ms if kept_ms < 0 else kept_ms, columns[first, PUT_EXPIRE_TIMESTAMP]",
        caught_by=_PUTS,
    ),
    Mutant(
        name="the first of several batches answers for all of them",
        where="offsetd_coordinator.state.offset_batches:encode_offsets",
        replace="*(rows if is_last else without_id),",
        by="*rows,",
        caught_by=_PUTS,
    ),
    Mutant(
        name="a restore tells revisions in the order of partitions",
        where="offsetd_coordinator.changes.restoration:restored",
        replace="count(written.tombstones_at))",
        by="count(written.commits_at))",
        caught_by="tests/unit/coordinator/changes/test_restoration.py",
    ),
    Mutant(
        name="a deleted group has no history where nothing of it is asked for",
        where="offsetd_coordinator.services.history_calls:HistoryService._check_known",
        replace="if not events:",
        by="if events is not None:",
        caught_by=_SERVICE,
    ),
    Mutant(
        name="a watcher that is gone counts on",
        where="offsetd_coordinator.grpc.watch_stream:WatchService._watch",
        replace="self.watchers.remove(watcher)\nself._watches.watchers = self.watchers.count",
        by="self.watchers.remove(watcher)",
        caught_by=_WATCH,
    ),
)
