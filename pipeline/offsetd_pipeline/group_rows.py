"""Rows of groups, from their newest records and their numbers of offsets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from offsetd_storage.offsets_topic.group_listing import GroupState
from offsetd_storage.offsets_topic.group_records import GroupRecords
from offsetd_storage.offsets_topic.schemas.consumer_group import decode_consumer_group_value
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
from offsetd_storage.offsets_topic.schemas.keys import (
    GroupKey,
    GroupSettingsKey,
    OffsetKey,
    UnknownKey,
    decode_key,
)
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

from offsetd_pipeline.arrow_columns import time_of
from offsetd_pipeline.kernels import fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_storage.offsets_topic.group_listing import Group, GroupMember
    from offsetd_storage.offsets_topic.group_records import GroupRecordKey, GroupRecordValue

    from offsetd_pipeline.segments import Rows


def group_rows(latest: Rows, log_partition: int) -> Iterator[dict[str, Any]]:
    """Yields a row for each group in the newest records of a log partition."""
    records: dict[str, GroupRecords] = {}
    offsets: Counter[str] = Counter()
    for row in latest.fields.tolist():
        kind = row[fields.KIND]
        if kind in (fields.COMMITTED, fields.UNREADABLE):
            offsets[_span(latest, row, fields.GROUP_START).decode()] += 1
        elif kind == fields.OTHER and row[fields.VALUE_SIZE] >= 0:
            _put(records, latest, row)
    for group in sorted(records.keys() | offsets.keys()):
        found = records.get(group, GroupRecords(group.encode()))
        if offsets[group] or found.group_type is not None:
            yield _row(found, offsets[group], log_partition)


def _put(records: dict[str, GroupRecords], latest: Rows, row: list[int]) -> None:
    try:
        key = decode_key(_span(latest, row, fields.KEY_START))
    except UndecodableRecord:
        return
    if isinstance(key, UnknownKey | OffsetKey):
        return
    value = _value(key, _span(latest, row, fields.VALUE_START), row[fields.LOG_OFFSET])
    records.setdefault(key.group, GroupRecords(key.group.encode())).put(key, value)


def _value(key: GroupRecordKey, encoded: bytes, offset: int) -> GroupRecordValue | None:
    """The decoded value of a record; None if it cannot be decoded."""
    try:
        if isinstance(key, GroupKey):
            return GroupMetadataValue.decode(encoded)
        if isinstance(key, GroupSettingsKey):
            return GroupSettings.decode(encoded, offset=offset)
        return decode_consumer_group_value(key.record_type, encoded)
    except UndecodableRecord:
        return None


def _span(rows: Rows, row: list[int], start_field: int) -> bytes:
    start, size = row[start_field], row[start_field + 1]
    return np.asarray(rows.buffer[start : start + size]).tobytes()


def _row(records: GroupRecords, offset_count: int, log_partition: int) -> dict[str, Any]:
    settings = records.settings or GroupSettings()
    lease = settings.lease
    row: dict[str, Any] = {
        "group": records.group_id.decode(),
        "state": None,
        "offset_count": offset_count,
        "retention_ms": settings.retention_ms,
        "never_expires": settings.never_expires,
        "lease_holder": None if lease is None else lease.holder,
        "lease_epoch": None if lease is None else lease.epoch,
        "log_partition": log_partition,
    }
    if records.group_type is not None:
        row["type"] = records.group_type.name.lower()
    elif not records:
        row["type"] = "classic"
    if records.is_readable:
        row |= _described(records.describe(offset_count))
    return row


def _described(group: Group) -> dict[str, Any]:
    return {
        "type": group.type.name.lower(),
        "state": None if group.state is GroupState.UNSPECIFIED else group.state.name,
        "protocol_type": group.protocol_type,
        "protocol": group.protocol,
        "generation": group.generation,
        "leader_id": group.leader_id,
        "member_count": len(group.members),
        "members": [_member(member) for member in group.members],
        "state_time": time_of(group.state_timestamp_ms),
    }


def _member(member: GroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "topics": list(member.topics),
        "assignment": [
            {"topic": topic, "partition": partition} for topic, partition in member.assignment
        ],
    }
