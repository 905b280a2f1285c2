"""What is read of copied folders of offsets, and what is said of what cannot be read."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.offline.copied_offsets import FolderGroup, read_groups
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.kernels import padded_copy
from offsetd_storage.kernels.crc32c import crc32c
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    CRC_AT,
    LENGTH_EXCLUDES_BYTES,
)
from shards import group_key, offset_key, offset_value

if TYPE_CHECKING:
    from collections.abc import Sequence

BROKER = Path(__file__).parents[3] / "golden" / "kafka-4.1.1"
UNREADABLE = b"\0\x09"  # A value of version 9.


def batch(base_offset: int, *records: tuple[bytes, bytes | None], **more: Any) -> bytes:
    return encode_batch(
        [
            Record(key=key, value=value, offset=base_offset + place, timestamp_ms=1)
            for place, (key, value) in enumerate(records)
        ],
        base_offset=base_offset,
        **more,
    )


def commit(group_id: str, partition: int, offset: int) -> tuple[bytes, bytes]:
    return offset_key(group_id, "t", partition), offset_value(offset)


def write_log(folder: Path, partition: int, *batches: bytes) -> Path:
    log = folder / f"__consumer_offsets-{partition}"
    log.mkdir(parents=True)
    (log / f"{0:020d}.log").write_bytes(b"".join(batches))
    return folder


class Told(list[str]):
    """What was told of groups that were read."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def read(self, *folders: Path) -> Sequence[FolderGroup]:
        return list(read_groups(folders, problem=self.append, note=self.notes.append))


def short(groups: Sequence[FolderGroup]) -> dict[str, list[int]]:
    return {each.group_id: [stored.offset for stored in each.offsets] for each in groups}


def test_the_groups_of_a_brokers_folder_are_those_it_answered_with() -> None:
    answers = json.loads((BROKER / "answers.json").read_text(encoding="utf-8"))
    told = Told()
    groups = told.read(BROKER / "data")
    assert told == []
    assert {
        each.group_id: {
            (offset.topic, offset.partition): (
                offset.offset,
                offset.metadata.partition("\0")[0],
                None if offset.leader_epoch < 0 else offset.leader_epoch,
            )
            for offset in each.offsets
        }
        for each in groups
    } == {
        group_id: {
            (each["topic"], each["partition"]): (
                each["offset"],
                each["metadata"],
                each["leader_epoch"],
            )
            for each in answered
        }
        for group_id, answered in answers["offsets"].items()
        if answered
    }
    with_members = {each.group_id for each in groups if each.has_members}
    assert with_members == {"static-workers"}
    assert all(offset.commit_timestamp_ms > 0 for each in groups for offset in each.offsets)


def test_the_newest_record_of_each_offset_counts_and_deleted_ones_are_gone(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        0,
        batch(0, commit("a", 0, 1), commit("a", 1, 2), commit("b", 0, 3)),
        batch(3, commit("a", 0, 4), (offset_key("b", "t", 0), None)),
    )
    told = Told()
    assert short(told.read(tmp_path)) == {"a": [4, 2]}
    assert told == []


def test_of_several_copies_of_a_log_partition_the_one_that_reaches_furthest_counts(
    tmp_path: Path,
) -> None:
    first = batch(0, commit("a", 0, 1))
    behind = write_log(tmp_path / "1", 0, first)
    ahead = write_log(tmp_path / "2", 0, first, batch(1, commit("a", 0, 2)))
    write_log(tmp_path / "2", 1, batch(0, commit("b", 0, 9)))
    for folders in ((behind, ahead), (ahead, behind)):
        assert short(Told().read(*folders)) == {"a": [2], "b": [9]}


def test_damage_is_told_and_nothing_is_read_of_that_log_partition(tmp_path: Path) -> None:
    whole = batch(0, commit("a", 0, 1))
    write_log(tmp_path, 0, whole, batch(1, commit("a", 0, 2))[:-3])
    write_log(tmp_path, 1, batch(0, commit("b", 0, 3)))
    told = Told()
    assert short(told.read(tmp_path)) == {"b": [3]}
    assert len(told) == 1
    assert "__consumer_offsets-0" in told[0]
    assert f"byte {len(whole)}" in told[0]


def test_a_damaged_copy_is_told_where_another_one_is_read(tmp_path: Path) -> None:
    whole = batch(0, commit("a", 0, 1))
    write_log(tmp_path / "1", 0, whole, whole[:-1])
    write_log(tmp_path / "2", 0, whole)
    told = Told()
    assert short(told.read(tmp_path / "1", tmp_path / "2")) == {"a": [1]}
    assert len(told) == 1


def problems(groups: Sequence[FolderGroup]) -> dict[str, tuple[str, ...]]:
    return {each.group_id: each.problems for each in groups}


def test_offsets_that_cannot_be_read_are_their_groups_problem_until_committed_again(
    tmp_path: Path,
) -> None:
    write_log(
        tmp_path,
        0,
        batch(0, commit("a", 0, 1), (offset_key("a", "t", 1), UNREADABLE), commit("b", 0, 2)),
        batch(3, (offset_key("a", "t", 2), UNREADABLE), (offset_key("b", "t", 1), UNREADABLE)),
        batch(5, commit("b", 1, 3), (offset_key("c", "t", 0), UNREADABLE)),
    )
    told = Told()
    groups = told.read(tmp_path)
    assert short(groups) == {"a": [1], "b": [2, 3], "c": []}
    log = "__consumer_offsets-0"
    assert problems(groups) == {
        "a": (f"{log}: 2 offsets cannot be read, the first for t:1",),
        "b": (),
        "c": (f"{log}: 1 offset cannot be read, the first for t:0",),
    }
    assert told == []


@pytest.mark.parametrize("made", ["a malformed batch", "a compressed one", "a key"])
def test_records_that_do_not_tell_whose_they_are_are_a_problem_of_all_groups_of_the_log_partition(
    tmp_path: Path, made: str
) -> None:
    match made:
        case "a key":
            bad = batch(1, (b"\0\1\0", b""), commit("b", 0, 2))
        case "a compressed one":
            bad = with_records(batch(1, commit("b", 0, 2)), b"no gzip", attributes=1)
        case _:
            bad = with_records(batch(1, commit("b", 0, 2)), bytes(20))
    write_log(tmp_path, 0, batch(0, commit("a", 0, 1)), bad)
    write_log(tmp_path, 1, batch(0, commit("c", 0, 3)))
    told = Told()
    found = problems(told.read(tmp_path))
    problem = "__consumer_offsets-0: 1 record of unknown groups cannot be read"
    assert (list(told), found["a"], found["c"]) == ([problem], (problem,), ())
    assert found.get("b", (problem,)) == (problem,)


def with_records(whole: bytes, records: bytes, *, attributes: int = 0) -> bytes:
    """A batch with other bytes for its records, and the right checksum."""
    length = BATCH_HEADER_BYTES - LENGTH_EXCLUDES_BYTES + len(records)
    counted = attributes.to_bytes(2, "big") + whole[ATTRIBUTES_AT + 2 : BATCH_HEADER_BYTES]
    checked = counted + records
    crc = crc32c(padded_copy(checked), 0, len(checked))
    start = whole[:BATCH_LENGTH_AT] + length.to_bytes(4, "big")
    return start + whole[len(start) : CRC_AT] + crc.to_bytes(4, "big") + checked


def test_members_of_a_group_whose_record_cannot_be_read_are_not_known(tmp_path: Path) -> None:
    write_log(tmp_path, 0, batch(0, commit("a", 0, 1), (group_key("a"), UNREADABLE)))
    told = Told()
    [group] = told.read(tmp_path)
    assert (group.has_members, group.problems) == (None, ())
    assert told == ["__consumer_offsets-0: whether group a has members cannot be read"]


def test_offsets_of_a_transaction_that_has_not_ended_are_left_out(tmp_path: Path) -> None:
    in_transaction: dict[str, Any] = {
        "producer_id": 5,
        "producer_epoch": 0,
        "is_transactional": True,
    }
    pending = batch(1, commit("a", 1, 2), commit("b", 0, 3), **in_transaction)
    write_log(tmp_path, 0, batch(0, commit("a", 0, 1)), pending)
    told = Told()
    assert short(told.read(tmp_path)) == {"a": [1]}
    assert (told, told.notes) == (
        [],
        ["__consumer_offsets-0: offsets of open transactions are left out: 2"],
    )


@pytest.mark.parametrize("made", ["nothing", "another topic"])
def test_what_is_no_folder_of_offsets_is_refused(tmp_path: Path, made: str) -> None:
    folder = tmp_path / "data"
    if made == "another topic":
        (folder / "orders-0").mkdir(parents=True)
    with pytest.raises(ValueError, match="data"):
        Told().read(folder)


def test_clients_find_it_by_its_entry_point() -> None:
    [point] = entry_points(group="offsetd.offset_folders", name="read_groups")
    assert point.load() is read_groups
