"""Records of administrative changes, and which of them a retry finds."""

from __future__ import annotations

import json

import attrs
import pytest
from offsetd_coordinator.administration.audit import AuditEvent, AuditLog
from offsetd_coordinator.request_dedup import OWN_TOPIC_REQUESTS_MAX
from offsetd_storage.batch.record_batch import Record, decode_batch, encode_batch
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

NOW_MS = 1_700_000_000_123
WINDOW_MS = 60_000

EVENT = AuditEvent(
    time_ms=NOW_MS,
    method="DeleteRecords",
    topic="__offsetd_audit",
    what={"partition": 0, "offset": 7},
    reason="früher",
    request_id="once",
    peer="ipv4:127.0.0.1:5",
    principal="User:alice",
)


def append(log: AuditLog, event: AuditEvent) -> bytes:
    """Writes and replays an event."""
    batch = log.batch(event)
    log.replay(batch)
    return batch


def test_an_event_is_one_line_of_json() -> None:
    assert json.loads(EVENT.encode()) == {
        "version": 1,
        "time": "2023-11-14T22:13:20.123Z",
        "method": "DeleteRecords",
        "topic": "__offsetd_audit",
        "what": {"partition": 0, "offset": 7},
        "reason": "früher",
        "request_id": "once",
        "peer": "ipv4:127.0.0.1:5",
        "principal": "User:alice",
    }
    assert b"\n" not in EVENT.encode()
    assert AuditEvent.decode(EVENT.encode(), time_ms=NOW_MS) == EVENT


def test_an_event_of_an_older_version_has_no_principal() -> None:
    older = json.loads(EVENT.encode())
    del older["principal"]
    decoded = AuditEvent.decode(json.dumps(older).encode(), time_ms=NOW_MS)
    assert decoded == attrs.evolve(EVENT, principal="")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        json.dumps({**json.loads(EVENT.encode()), "version": 2}).encode(),
        json.dumps({**json.loads(EVENT.encode()), "what": 5}).encode(),
        json.dumps({**json.loads(EVENT.encode()), "method": None}).encode(),
    ],
)
def test_a_value_that_is_no_event_is_counted_and_fails_no_load(value: bytes) -> None:
    with pytest.raises(UndecodableRecord):
        AuditEvent.decode(value, time_ms=NOW_MS)
    log = AuditLog(request_id_window_ms=WINDOW_MS)
    record = Record(key=None, value=value, offset=0, timestamp_ms=NOW_MS)
    log.replay(encode_batch([record], base_offset=0))
    assert (log.undecodable_records, log.offset_next) == (1, 1)


def test_a_record_without_a_readable_inside_is_counted() -> None:
    log = AuditLog(request_id_window_ms=WINDOW_MS)
    batch = log.batch(EVENT)
    log.replay(batch[:61] + b"\xff" * (len(batch) - 61))
    assert (log.undecodable_records, log.offset_next) == (1, 1)


def test_a_batch_has_one_record_without_a_key() -> None:
    log = AuditLog(request_id_window_ms=WINDOW_MS)
    log.end_load(offset_next=5, leader_epoch=3)
    batch = decode_batch(append(log, EVENT))
    assert (batch.base_offset, batch.partition_leader_epoch) == (5, 3)
    [record] = batch.records
    assert (record.key, record.timestamp_ms) == (None, NOW_MS)
    assert log.offset_next == 6


def test_events_that_nobody_asks_for_again_are_passed_over_as_a_replay_would() -> None:
    passed, replayed = AuditLog(request_id_window_ms=1000), AuditLog(request_id_window_ms=1000)
    for count in (1, 3):
        batch = passed.batch_of([attrs.evolve(EVENT, request_id="")] * count)
        passed.pass_over(batch)
        replayed.replay(batch)
    assert vars(passed) == vars(replayed)
    assert passed.offset_next == 4


def test_a_request_is_found_by_method_and_id_within_its_window() -> None:
    log = AuditLog(request_id_window_ms=WINDOW_MS)
    batches = [append(log, EVENT), append(log, attrs.evolve(EVENT, request_id="", time_ms=0))]
    loaded = AuditLog(request_id_window_ms=WINDOW_MS)
    loaded.replay(b"".join(batches))
    for each in (log, loaded):
        found = each.find("DeleteRecords", "once", NOW_MS + WINDOW_MS)
        assert found is not None
        assert (found.offset, found.event) == (0, EVENT)
        assert each.find("DeleteRecords", "once", NOW_MS + WINDOW_MS + 1) is None
        assert each.find("CompactLog", "once", NOW_MS) is None
        assert each.find("DeleteRecords", "twice", NOW_MS) is None
        assert each.find("DeleteRecords", "", 0) is None


def test_so_many_requests_are_remembered_the_newest() -> None:
    log = AuditLog(request_id_window_ms=WINDOW_MS)
    for number in range(OWN_TOPIC_REQUESTS_MAX + 1):
        append(log, attrs.evolve(EVENT, request_id=f"{number}"))
    assert log.find("DeleteRecords", "0", NOW_MS) is None
    assert log.find("DeleteRecords", "1", NOW_MS) is not None
