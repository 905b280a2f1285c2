"""The tables of a broker's folder say what the broker's own tool and its admin API said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kafka_dumps import dumped_batch_bytes, dumped_rows

BATCH_HEADER_BYTES = 61

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame


def answers(golden: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden / "answers.json").read_text(encoding="utf-8"))
    return found


def by_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["log_partition"], row["log_offset"]))


def as_dumped(row: dict[str, Any]) -> dict[str, Any]:
    """Sizes for bytes, as the dump has them; it has none of whole records."""
    key, value = row.pop("key"), row.pop("value")
    del row["record_bytes"], row["disk_bytes"]
    return row | {
        "key_size": -1 if key is None else len(key),
        "value_size": None if value is None else len(value),
    }


def test_raw_is_what_kafkas_dump_tool_prints(
    read: Callable[..., DataFrame], golden: Path, in_utc: None
) -> None:
    expected = by_place(list(dumped_rows(golden / "dump.txt")))
    found = by_place([as_dumped(row.asDict()) for row in read(golden / "data", "raw").collect()])
    assert len(expected) > 600
    assert found == expected


def test_records_share_out_what_their_batch_takes_of_the_file(
    read: Callable[..., DataFrame], golden: Path
) -> None:
    shared: dict[tuple[int, int, int], int] = {}
    encoded: dict[tuple[int, int, int], int] = {}
    for row in read(golden / "data", "raw").collect():
        batch = (row.log_partition, row.segment, row.position)
        shared[batch] = shared.get(batch, 0) + row.disk_bytes
        if row.compression == "none":
            encoded[batch] = encoded.get(batch, BATCH_HEADER_BYTES) + row.record_bytes
    sizes = dumped_batch_bytes(golden / "dump.txt")
    assert shared == sizes
    assert encoded == {batch: size for batch, size in sizes.items() if batch in encoded}
    assert len(encoded) > 100


def test_current_is_what_the_broker_answered(read: Callable[..., DataFrame], golden: Path) -> None:
    # The client that asked cuts metadata at the first NUL, and lists an offset of -1 for none.
    expected = {
        (group, each["topic"], each["partition"]): (
            each["offset"],
            each["leader_epoch"],
            each["metadata"],
        )
        for group, offsets in answers(golden)["offsets"].items()
        for each in offsets
    }
    rows = read(golden / "data", "current").collect()
    found = {
        (row.group, row.topic, row.partition): (
            row.offset,
            row.leader_epoch,
            row.metadata.partition("\0")[0],
        )
        for row in rows
    }
    assert len(rows) == len(found) == len(expected) > 0
    assert found == expected


def test_groups_are_those_the_broker_listed(read: Callable[..., DataFrame], golden: Path) -> None:
    rows = read(golden / "data", "groups").collect()
    found = {
        row.group: {
            "state": row.state,
            "simple": row.protocol_type == "",
            "type": row.type.upper(),
        }
        for row in rows
    }
    assert len(rows) == len(found)
    assert found == answers(golden)["listed"]
    offsets = answers(golden)["offsets"]
    assert {row.group: row.offset_count for row in rows if row.offset_count} == {
        group: len(each) for group, each in offsets.items() if each
    }


def test_history_has_every_change_of_an_offset_and_what_became_of_its_transaction(
    read: Callable[..., DataFrame], golden: Path
) -> None:
    changes = [
        row
        for row in dumped_rows(golden / "dump.txt")
        if row["topic"] is not None and not row["is_control"]
    ]
    rows = read(golden / "data", "history").collect()
    assert {(row.log_partition, row.log_offset) for row in rows} == {
        (row["log_partition"], row["log_offset"]) for row in changes
    }
    transactions = {row.transaction for row in rows}
    assert transactions == {None, "committed", "aborted"}
    newest: dict[tuple[str, str, int], Any] = {}
    for row in sorted(rows, key=lambda row: (row.log_partition, row.log_offset)):
        if row.transaction in (None, "committed"):
            newest[row.group, row.topic, row.partition] = row
    current = {
        (row.group, row.topic, row.partition, row.offset)
        for row in read(golden / "data", "current").collect()
    }
    assert current == {(*key, row.offset) for key, row in newest.items() if row.kind == "committed"}


def test_a_whole_folder_has_no_damage(read: Callable[..., DataFrame], golden: Path) -> None:
    assert read(golden / "data", "damage").count() == 0


def test_some_columns_are_read_in_the_order_they_are_asked_for(
    read: Callable[..., DataFrame], golden: Path
) -> None:
    whole = read(golden / "data", "current")
    some = read(golden / "data", "current", columns="offset, group")
    assert some.columns == ["offset", "group"]
    assert sorted(some.collect()) == sorted(whole.select("offset", "group").collect())
