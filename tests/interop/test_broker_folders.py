"""offsetd serves a folder that a Kafka 4.1.1 broker wrote (tests/golden)."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

import pytest
from interop.served_folder import ServedFolder
from offsetd_clients import GroupNotFound, OffsetClient, TopicPartition
from offsetd_storage.offsets_topic.placement import partition_of

PARTITIONS = 50
# Deleted before the broker was stopped: their tombstones are in the log.
DELETED = ("polygenelubricants-5", "etl/nightly", "g-7", "app-10", "группа-14")


@pytest.fixture
def answers(golden: Path) -> dict[str, Any]:
    """What the broker answered just before it was stopped."""
    answers: dict[str, Any] = json.loads((golden / "answers.json").read_text(encoding="utf-8"))
    return answers


@pytest.fixture
def broker_folder(golden: Path, tmp_path: Path) -> Path:
    return shutil.copytree(golden / "data", tmp_path / "data")


def logs_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.glob("*/*.log")}


def as_librdkafka_reads(metadata: str) -> str:
    """The golden clients wrote through librdkafka, which ends metadata with a NUL.

    The log, and so offsetd, has `host-7\\0`. The broker's answers were read through librdkafka
    too, which takes the NUL for the end: there it is `host-7`.
    """
    return metadata.partition("\0")[0]


def fetched(client: OffsetClient, group_ids: list[str]) -> dict[str, set[tuple[Any, ...]]]:
    return {
        group_id: {
            (
                partition.topic,
                partition.partition,
                stored.offset,
                stored.leader_epoch,
                as_librdkafka_reads(stored.metadata),
            )
            for partition, stored in offsets.items()
        }
        for group_id, offsets in client.fetch_many(group_ids).items()
    }


def test_every_group_is_answered_as_the_broker_answered(
    serve: Callable[[Path], ServedFolder], broker_folder: Path, answers: dict[str, Any]
) -> None:
    with serve(broker_folder).running() as client:
        listed = {listing.group_id: listing for listing in client.list_groups()}
        expected = {
            group_id: (group["type"], group["state"], group["simple"])
            for group_id, group in answers["listed"].items()
        }
        assert {
            group_id: (group.type.name, group.state.name, not group.protocol_type)
            for group_id, group in listed.items()
        } == expected
        assert fetched(client, list(listed)) == {
            group_id: {
                (o["topic"], o["partition"], o["offset"], o["leader_epoch"], o["metadata"])
                for o in offsets
            }
            for group_id, offsets in answers["offsets"].items()
        }
        info = client.get_server_info()
    assert info.group_count == len(expected)
    assert info.offset_count == sum(map(len, answers["offsets"].values()))
    assert (info.unknown_record_count, info.undecodable_record_count) == (0, 0)
    assert (info.log_partitions, info.quarantined_partitions) == (PARTITIONS, ())


def test_groups_the_broker_deleted_do_not_exist(
    serve: Callable[[Path], ServedFolder], broker_folder: Path
) -> None:
    with serve(broker_folder).running() as client:
        for group_id in DELETED:
            assert client.fetch(group_id) == {}
            with pytest.raises(GroupNotFound):
                client.get_group(group_id)


def test_commits_go_on_after_the_brokers_last_offset_and_leave_its_bytes_alone(
    serve: Callable[[Path], ServedFolder], broker_folder: Path, answers: dict[str, Any]
) -> None:
    before = logs_of(broker_folder)
    # The snapshot that a broker leaves at a clean stop is named by the offset that comes next.
    end_offsets = {
        int(path.parent.name.rpartition("-")[2]): int(path.stem)
        for path in broker_folder.glob("__consumer_offsets-*/*.snapshot")
    }
    group_ids = [group_id for group_id, group in answers["listed"].items() if group["simple"]]
    position = TopicPartition("appended", 0)
    server = serve(broker_folder)
    with server.running() as client:
        for group_id in group_ids:
            partition = partition_of(group_id, PARTITIONS)
            revision = client.commit(group_id, {position: 77})
            assert revision.log_partition == partition
            assert revision.log_offset == end_offsets[partition]
            end_offsets[partition] += 1
        all_groups = fetched(client, list(answers["listed"]))
    with server.running() as client:
        assert fetched(client, list(answers["listed"])) == all_groups
        assert all(client.fetch(group_id)[position].offset == 77 for group_id in group_ids)
    after = logs_of(broker_folder)
    # The broker's segments may be old enough to be rolled: then a commit is in a new one.
    grown = {
        PurePath(name).parent
        for name, content in after.items()
        if len(content) > len(before.get(name, b""))
    }
    assert len(grown) == len({partition_of(group_id, PARTITIONS) for group_id in group_ids})
    assert all(after[name].startswith(content) for name, content in before.items())
