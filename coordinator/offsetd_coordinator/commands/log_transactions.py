"""`offsetd log transactions`: transactions without an end in a folder at rest."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from offsetd_storage.batch.record_batch import batch_header
from offsetd_storage.cleaner.offline_cleaning import viewed_log
from offsetd_storage.clock import SystemClock
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC, LogConfig
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.folder.folder_format import read_properties
from offsetd_storage.log_store import LogStore
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import LogView

from offsetd_coordinator.commands.log_folder import failures_told, selected
from offsetd_coordinator.commands.offline_store import offline_settings, opened_store
from offsetd_coordinator.commands.terminal import Terminal
from offsetd_coordinator.offline.offline_audit import note_offline_change
from offsetd_coordinator.offline.open_transactions import (
    OpenTransaction,
    abort_marker,
    open_transactions,
)
from offsetd_coordinator.rfc3339 import rfc3339

COLUMNS: Final = (
    *("partition", "producer_id", "producer_epoch", "first_offset", "begun", "last", "offsets"),
    "groups",
)
METHOD: Final = "AbortTransactions"
"""The name of an abort in the audit log."""

_Open = Mapping[TopicPartition, Sequence[OpenTransaction]]


def list_open(
    terminal: Terminal, folder: Path, topic: str, partitions: Sequence[int] | None
) -> None:
    """Shows the open transactions of a folder."""
    with failures_told(terminal):
        _, logs = selected(terminal, folder, topic, partitions)
        found = _found(terminal, logs)
        terminal.rows(COLUMNS, _rows(found), droppable=("last", "producer_epoch"))
        if not found:
            terminal.note("no transaction is open")


def abort(
    terminal: Terminal,
    folder: Path,
    topic: str,
    partitions: Sequence[int] | None,
    assignments: Sequence[str],
    producer_id: int,
    *,
    is_dry: bool,
) -> None:
    """Aborts the open transactions of a producer. A dry run shows them."""
    with failures_told(terminal):
        view, logs = selected(terminal, folder, topic, partitions)
        if read_properties(OsFiles(), folder) is None:
            terminal.fail(
                f"{folder} is a broker's: abort the transaction there (kafka-transactions.sh), or"
                " start offsetd on the folder once; nothing was changed"
            )
        found = _of_producer(_found(terminal, logs), producer_id)
        if not found:
            terminal.fail(f"producer {producer_id} has no open transaction; nothing was changed")
        if not is_dry:
            settings = offline_settings(terminal, OFFSETS_TOPIC, assignments)
            with (
                terminal.progress("abort") as report,
                opened_store(terminal, view, settings, report) as store,
            ):
                found = {each: _aborted(store, each, producer_id) for each in found}
                problem = note_offline_change(store, METHOD, topic, _what(found, producer_id))
                if problem:
                    terminal.note(problem)
        terminal.rows(COLUMNS, _rows(found), droppable=("last", "producer_epoch"))
        if is_dry:
            terminal.note("nothing was changed: repeat with --execute to abort them")


def _found(terminal: Terminal, logs: Sequence[LogView]) -> _Open:
    found = {}
    for log in logs:
        try:
            with viewed_log(OsFiles(), log, LogConfig()) as opened:
                transactions = open_transactions(opened)
        except DamageFound as damage:
            terminal.note(str(damage.of(log.topic_partition)))
            continue
        if transactions:
            found[log.topic_partition] = transactions
    return found


def _of_producer(found: _Open, producer_id: int) -> _Open:
    chosen = {
        each: [one for one in transactions if one.producer_id == producer_id]
        for each, transactions in found.items()
    }
    return {each: transactions for each, transactions in chosen.items() if transactions}


def _aborted(
    store: LogStore, topic_partition: TopicPartition, producer_id: int
) -> list[OpenTransaction]:
    """Appends the markers. Returns what they abort."""
    log, now_ms = store.log(topic_partition), SystemClock().now_ms()
    chosen = [each for each in open_transactions(log) if each.producer_id == producer_id]
    for each in chosen:
        marker = abort_marker(each, log, now_ms=now_ms)
        store.append(
            topic_partition,
            marker,
            last_offset=batch_header(marker).last_offset,
            max_timestamp_ms=now_ms,
        )
    store.flush()
    return chosen


def _rows(found: _Open) -> Iterator[dict[str, object]]:
    for topic_partition, transactions in found.items():
        for each in transactions:
            yield {
                "partition": topic_partition.partition,
                "producer_id": each.producer_id,
                "producer_epoch": each.producer_epoch,
                "first_offset": each.first_offset,
                "begun": rfc3339(each.begun_ms),
                "last": rfc3339(each.last_ms),
                "offsets": each.offset_count,
                "groups": list(each.group_ids),
            }


def _what(found: _Open, producer_id: int) -> dict[str, object]:
    return {
        "producer_id": producer_id,
        "transactions": [
            {"partition": topic_partition.partition, **attrs.asdict(each)}
            for topic_partition, transactions in found.items()
            for each in transactions
        ],
    }
