"""What a restore ends: leases and members, and how far generations are raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from log_stores import P0, SMALL, append, opened
from offsetd_coordinator.offline.copied_offsets import new_state
from offsetd_coordinator.offline.restore_fencing import end_leases_and_members
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMember, GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings, Lease
from offsetd_storage.offsets_topic.schemas.keys import GroupKey, GroupSettingsKey, encode_key
from partition_logs import NOW_MS

if TYPE_CHECKING:
    from offsetd_storage.log_store import LogStore
    from offsetd_storage.offsets_topic.group_records import GroupRecords

AGE_MS = 90_500
RAISED_BY = 90 + 3600
LEASE = Lease(holder="one", epoch=5, granted_ms=NOW_MS, ttl_ms=1000)
MEMBER = GroupMember(
    member_id="m", client_id="c", client_host="h", session_timeout_ms=1, subscription=b"",
    assignment=b"",
)  # fmt: skip
TEAM = GroupMetadataValue(
    protocol_type="consumer",
    generation=7,
    protocol="range",
    leader="m",
    current_state_timestamp_ms=NOW_MS,
    members=(MEMBER,),
)


def put(store: LogStore, key: bytes, value: bytes | None) -> None:
    offset = store.logs[P0].offset_next
    record = Record(key=key, value=value, offset=offset, timestamp_ms=NOW_MS)
    batch = encode_batch([record], base_offset=offset)
    store.append(P0, batch, last_offset=offset, max_timestamp_ms=NOW_MS)


def put_settings(store: LogStore, group: str, settings: GroupSettings) -> None:
    put(store, encode_key(GroupSettingsKey(group=group)), settings.encode())


def put_group(store: LogStore, group: str, value: GroupMetadataValue) -> None:
    put(store, encode_key(GroupKey(group=group)), value.encode())


def records_of(store: LogStore, group: str) -> GroupRecords:
    state = new_state()
    for buffer, end in store.logs[P0].read_chunks(1 << 20):
        state.replay(buffer, 0, end)
    return state.group_records(group.encode())


def ended(store: LogStore) -> tuple[int, int]:
    found = end_leases_and_members(store, moment_ms=NOW_MS, now_ms=NOW_MS + AGE_MS)
    return found.leases, found.groups


def test_a_lease_is_released_and_other_settings_stay() -> None:
    store = opened(SimulatedFiles(), attrs.evolve(SMALL, journal_file_bytes=65_536))
    put_settings(store, "kept", GroupSettings(retention_ms=99, lease=LEASE))
    put_settings(store, "gone", GroupSettings(lease=LEASE))
    put_settings(store, "none", GroupSettings(never_expires=True))
    assert ended(store) == (2, 0)
    assert records_of(store, "kept").settings == GroupSettings(retention_ms=99)
    assert records_of(store, "gone").settings is None
    assert records_of(store, "none").settings == GroupSettings(never_expires=True)


def test_members_go_and_generations_rise_with_the_time_that_has_passed() -> None:
    store = opened(SimulatedFiles(), attrs.evolve(SMALL, journal_file_bytes=65_536))
    put_group(store, "team", TEAM)
    empty = attrs.evolve(TEAM, members=(), leader=None, protocol=None)
    put_group(store, "empty", empty)
    put_group(store, "old", attrs.evolve(empty, generation=2**31 - 2))
    simple = attrs.evolve(empty, generation=0, protocol_type="")
    put_group(store, "simple", simple)
    assert ended(store) == (0, 1)
    team = records_of(store, "team").classic
    assert team is not None
    assert (team.generation, team.members, team.leader) == (7 + RAISED_BY, (), None)
    assert team.protocol_type == "consumer"
    assert team.current_state_timestamp_ms == NOW_MS + AGE_MS  # Its expiry counts from now.
    after = records_of(store, "empty").classic
    assert after == attrs.evolve(empty, generation=7 + RAISED_BY)
    old = records_of(store, "old").classic
    assert old is not None
    assert 0 < old.generation < 2**31
    assert records_of(store, "simple").classic == simple


def test_there_may_be_many_groups_and_what_is_ended_is_durable() -> None:
    files = SimulatedFiles()
    config = attrs.evolve(SMALL, journal_file_bytes=1 << 20, log=LogConfig())
    store = opened(files, config)
    for number in range(4000):
        put_settings(store, f"g{number}", GroupSettings(lease=LEASE))
    store.flush()
    assert ended(store) == (4000, 0)
    store.abandon()
    again = opened(files.kill(), config)
    assert all(records_of(again, f"g{number}").settings is None for number in (0, 999, 3999))
    append(again, P0)
