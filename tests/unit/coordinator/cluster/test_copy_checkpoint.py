"""Copies of a node: which may be used again, which are thrown away, and who keeps them."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.cluster.claims import Claim
from offsetd_coordinator.cluster.copy_checkpoint import (
    COPIES_FILE,
    CopyCheckpoint,
    ForeignFolder,
    begin_copies,
    write_copies,
)
from offsetd_coordinator.cluster.kafka_node_directory import client_id_of, node_of
from offsetd_coordinator.cluster.standby_copies import standby_nodes, standby_partitions
from offsetd_coordinator.cluster.topic_settings import DELETE_RETENTION_MS
from offsetd_coordinator.runtime.node_directory import ClusterNode
from offsetd_storage.disk.files import OsFiles

if TYPE_CHECKING:
    from pathlib import Path

WRITTEN_MS = 1_700_000_000_000
CLAIM = Claim(epoch=4, node_id="n1", address="a:1", producers=8, first_offset=70)


def copies() -> CopyCheckpoint:
    return CopyCheckpoint(topic_id="t", cluster_id="c", positions={0: 12, 7: 3}, claims={7: CLAIM})


def written(folder: Path, **changes: Any) -> None:
    document = json.loads(copies().encode(now_ms=WRITTEN_MS)) | changes
    write_copies(OsFiles(), folder, json.dumps(document).encode())


def loaded(folder: Path, *, age_ms: int = 0, topic_id: str = "t", cluster_id: str = "c") -> Any:
    return CopyCheckpoint.load(
        OsFiles(), folder, topic_id=topic_id, cluster_id=cluster_id, now_ms=WRITTEN_MS + age_ms
    )


def test_copies_are_used_as_they_were_written(tmp_path: Path) -> None:
    written(tmp_path)
    assert loaded(tmp_path) == copies()


@pytest.mark.parametrize(
    ("age_ms", "is_used"),
    [
        (DELETE_RETENTION_MS // 2, True),
        (DELETE_RETENTION_MS // 2 + 1, False),  # It may have missed tombstones.
        (DELETE_RETENTION_MS, False),
        (-1, False),  # A clock was set back: nobody knows the age.
    ],
)
def test_copies_older_than_half_of_the_retention_of_tombstones_are_not_used(
    tmp_path: Path, age_ms: int, *, is_used: bool
) -> None:
    written(tmp_path)
    assert (loaded(tmp_path, age_ms=age_ms) is not None) == is_used


def test_copies_of_another_topic_or_cluster_are_not_used(tmp_path: Path) -> None:
    written(tmp_path)
    assert loaded(tmp_path, topic_id="another, with the same name") is None
    assert loaded(tmp_path, cluster_id="another") is None
    written(tmp_path, version=2)
    assert loaded(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{}",
        b'{"version":1}',
        b'{"version":1,"topic_id":"t","cluster_id":"c","time_ms":1700000000000}',
        b'{"version":1,"topic_id":"t","cluster_id":"c","time_ms":"x"}',
    ],
)
def test_a_file_that_cannot_be_read_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / COPIES_FILE).write_bytes(content)
    assert loaded(tmp_path) is None


@pytest.mark.parametrize(
    "changes",
    [{"positions": [1]}, {"positions": {"x": 1}}, {"claims": {"0": {}}}, {"claims": {"0": None}}],
)
def test_malformed_positions_and_claims_count_as_none(tmp_path: Path, changes: Any) -> None:
    written(tmp_path, **changes)
    assert loaded(tmp_path) is None


def test_a_folder_that_is_new_or_empty_has_no_copies(tmp_path: Path) -> None:
    assert loaded(tmp_path) is None
    assert loaded(tmp_path / "none") is None


def test_the_folder_of_another_server_is_refused(tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-3").mkdir()
    with pytest.raises(ForeignFolder, match="offsetd cluster init"):
        loaded(tmp_path)


def filled(folder: Path) -> None:
    """A node's folder with copies that may be used."""
    written(folder)
    log = folder / "__consumer_offsets-3"
    log.mkdir()
    for path in (log / "0.log", log / "0.index", folder / "journal-0"):
        path.write_bytes(b"x")


def test_copies_are_begun_in_a_new_folder_and_in_one_with_old_copies(tmp_path: Path) -> None:
    filled(tmp_path)
    for folder in (tmp_path, tmp_path / "new"):
        begin_copies(OsFiles(), folder, CopyCheckpoint(topic_id="t", cluster_id="c"))
        assert [each for each in folder.rglob("*") if each.is_file()] == [folder / COPIES_FILE]
        assert loaded(folder) is None, "what begins has no age"


class _Killed(Exception):
    """Stands for kill -9."""


class _EndingFiles(OsFiles):
    """Files of a process that is killed before it deletes one more."""

    def __init__(self, deletions: int) -> None:
        super().__init__()
        self._left = deletions

    def unlink(self, path: Path) -> None:
        if not self._left:
            raise _Killed
        self._left -= 1
        super().unlink(path)


@pytest.mark.parametrize("deletions", range(4))
def test_copies_that_were_deleted_in_part_are_neither_used_nor_foreign(
    tmp_path: Path, deletions: int
) -> None:
    filled(tmp_path)
    with contextlib.suppress(_Killed):
        begin_copies(
            _EndingFiles(deletions), tmp_path, CopyCheckpoint(topic_id="t", cluster_id="c")
        )
    assert loaded(tmp_path) is None


def test_a_position_never_goes_back() -> None:
    found = copies()
    found.note_positions({0: 5, 7: 9, 8: 1})
    assert found.positions == {0: 12, 7: 9, 8: 1}


NODE_IDS = st.lists(st.text(min_size=1, max_size=4), unique=True, min_size=1, max_size=8)


def nodes_of(node_ids: list[str], partitions: int) -> list[ClusterNode]:
    """Partitions are shared in turn."""
    count = len(node_ids)
    return [
        ClusterNode(node_id, f"{node_id}:1", tuple(range(place, partitions, count)))
        for place, node_id in enumerate(node_ids)
    ]


@given(NODE_IDS, st.integers(0, 4))
def test_each_partition_has_as_many_copies_as_asked_for_and_none_at_its_owner(
    node_ids: list[str], count: int
) -> None:
    nodes = nodes_of(node_ids, 24)
    kept = {each: standby_partitions(each, nodes, partitions=24, copies=count) for each in node_ids}
    for partition in range(24):
        keepers = [node_id for node_id, has in kept.items() if partition in has]
        assert len(keepers) == min(count, len(node_ids) - 1)
        assert node_ids[partition % len(node_ids)] not in keepers
        assert sorted(keepers) == sorted(standby_nodes(partition, reversed(nodes), copies=count))


@given(NODE_IDS.filter(lambda ids: len(ids) > 2), st.integers(1, 3), st.data())
def test_only_copies_of_the_node_that_goes_move(node_ids: list[str], count: int, data: Any) -> None:
    """The partition has the same owner, or none, before and after."""
    owner, *others = node_ids
    nodes = [ClusterNode(each, "a:1", (0,) if each == owner else ()) for each in node_ids]
    gone = data.draw(st.sampled_from(others))
    before = standby_nodes(0, nodes, copies=count)
    after = standby_nodes(0, [each for each in nodes if each.node_id != gone], copies=count)
    assert [each for each in before if each != gone] == after[: len(before) - (gone in before)]
    assert len(set(after) - set(before)) <= 1


@given(st.text(), st.text().filter(lambda text: "@" not in text), st.sets(st.integers(0, 50)))
def test_a_node_is_read_from_its_client_id(
    node_id: str, address: str, partitions: set[int]
) -> None:
    found = node_of(client_id_of(node_id, address), list(partitions))
    assert found == ClusterNode(node_id, address, tuple(sorted(partitions)))


@pytest.mark.parametrize("client_id", ["", "rdkafka", "a@b", "offsetd:", "offsetd:n1", "x:n1@a:1"])
def test_another_member_of_the_group_is_no_node(client_id: str) -> None:
    assert node_of(client_id, [1]) is None
