"""What Kafka's own dump tool printed of `__consumer_offsets`, as rows of the raw table."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PAIR = re.compile(r"(\w+): (\S+)")
_TIMES = {"CreateTime": "create", "LogAppendTime": "append"}
_CONTENT = (
    *("record_type", "group", "topic", "partition", "offset", "leader_epoch", "metadata"),
    *("commit_time", "expire_time"),
)
_OFFSET_TYPES = ("0", "1")


def dumped_rows(dump: Path) -> Iterator[dict[str, Any]]:
    """A row for each record; `key_size` and `value_size` stand for the bytes."""
    log_partition = segment = -1
    batch: dict[str, str] = {}
    for line in dump.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"# __consumer_offsets-(\d+)", line):
            log_partition = int(found[1])
        elif found := re.match(r"Dumping .*/(\d{20})\.log", line):
            segment = int(found[1])
        elif line.startswith("baseOffset:"):
            batch = dict(_PAIR.findall(line))
        elif line.startswith("| "):
            yield {
                "log_partition": log_partition,
                "segment": segment,
                **_batch_columns(batch),
                **_record_columns(line),
            }


def dumped_batch_bytes(dump: Path) -> dict[tuple[int, int, int], int]:
    """What each batch takes of its file, by log partition, segment and position."""
    sizes = {}
    log_partition = segment = -1
    for line in dump.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"# __consumer_offsets-(\d+)", line):
            log_partition = int(found[1])
        elif found := re.match(r"Dumping .*/(\d{20})\.log", line):
            segment = int(found[1])
        elif line.startswith("baseOffset:") and " count: 0 " not in line:
            batch = dict(_PAIR.findall(line))
            sizes[log_partition, segment, int(batch["position"])] = int(batch["size"])
    return sizes


def _batch_columns(batch: dict[str, str]) -> dict[str, Any]:
    producer = int(batch["producerId"])
    horizon = re.search(r"\[(\d+)\]", batch["deleteHorizonMs"])
    return {
        "position": int(batch["position"]),
        "partition_leader_epoch": int(batch["partitionLeaderEpoch"]),
        "timestamp_type": next(word for name, word in _TIMES.items() if name in batch),
        "producer_id": None if producer < 0 else producer,
        "producer_epoch": None if producer < 0 else int(batch["producerEpoch"]),
        "is_transactional": batch["isTransactional"] == "true",
        "is_control": batch["isControl"] == "true",
        "compression": batch["compresscodec"],
        "delete_horizon": time_of(int(horizon[1])) if horizon else None,
    }


def _record_columns(line: str) -> dict[str, Any]:
    head, _, content = line.partition(" key: ")
    pairs = dict(_PAIR.findall(head))
    sequence = int(pairs["sequence"])
    value_size = int(pairs["valueSize"])
    row = {
        "log_offset": int(pairs["offset"]),
        "timestamp": time_of(int(next(pairs[name] for name in _TIMES if name in pairs))),
        "sequence": None if sequence < 0 else sequence,
        "key_size": int(pairs["keySize"]),
        "value_size": None if value_size < 0 else value_size,
        "is_tombstone": value_size < 0,
    }
    nothing = dict.fromkeys(_CONTENT)
    if not content:
        return row | nothing  # A control record.
    key_text, _, payload = content.partition(" payload: ")
    key = json.loads(key_text)
    named = key["data"]
    row |= nothing | {
        "record_type": int(key["type"]),
        "group": named.get("group", named.get("groupId")),
    }
    if key["type"] in _OFFSET_TYPES:
        row |= {"topic": named["topic"], "partition": named["partition"]}
        if payload != "<DELETE>":
            row |= _value_columns(json.loads(payload)["data"])
    return row


def _value_columns(value: dict[str, Any]) -> dict[str, Any]:
    epoch = value.get("leaderEpoch", -1)
    return {
        "offset": value["offset"],
        "leader_epoch": None if epoch < 0 else epoch,
        "metadata": value["metadata"],
        "commit_time": time_of(value["commitTimestamp"]),
        "expire_time": time_of(value.get("expireTimestamp", -1)),
    }


def time_of(timestamp_ms: int) -> datetime | None:
    """As Spark gives it to Python where its zone is UTC."""
    if timestamp_ms < 0:
        return None
    epoch = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
    return epoch + timedelta(milliseconds=timestamp_ms)
