"""Of the copies of a log, that is read which Kafka would elect; other logs are all read."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from offsetd_pipeline.folders import FolderPlan, identity_of, plan_folders
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import FolderMismatch

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-4.1.1" / "data"
FILES = OsFiles()


def record(offset: int) -> Record:
    return Record(key=b"k", value=b"v", offset=offset, timestamp_ms=0)


def write_node(folder: Path, epochs: list[int], *, cluster: str | None = "c") -> Path:
    """A folder with one log of a batch of one record for each of these leader epochs."""
    log = folder / "__consumer_offsets-0"
    log.mkdir(parents=True)
    batches = [
        encode_batch([record(offset)], base_offset=offset, leader_epoch=epoch)
        for offset, epoch in enumerate(epochs)
    ]
    (log / "00000000000000000000.log").write_bytes(b"".join(batches))
    if cluster is not None:
        (folder / "meta.properties").write_text(f"version=1\ncluster.id={cluster}\n")
    return folder


def read_of(plans: list[FolderPlan]) -> list[str]:
    return [Path(log.folder).name for plan in plans for log in plan.logs]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([0, 0], [0], "a"),
        ([0], [0, 0], "b"),
        ([0, 0, 0], [0, 1], "b"),
        ([2], [0, 1, 1], "a"),
        ([0, 0], [], "a"),
    ],
    ids=["longer", "longer, later", "of a later epoch", "of a later epoch, first", "not empty"],
)
def test_the_copy_that_has_come_furthest_is_read(
    tmp_path: Path, a: list[int], b: list[int], expected: str
) -> None:
    folders = [write_node(tmp_path / "a", a), write_node(tmp_path / "b", b)]
    plans = plan_folders(FILES, folders, is_wanted=lambda _: True)
    assert read_of(plans) == [expected]


def test_a_damaged_end_is_no_part_of_a_copy(tmp_path: Path) -> None:
    folders = [write_node(tmp_path / "a", [0, 0, 0]), write_node(tmp_path / "b", [0, 0])]
    log = folders[0] / "__consumer_offsets-0" / "00000000000000000000.log"
    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 3 + 30] ^= 1  # Of the second batch.
    log.write_bytes(damaged)
    assert read_of(plan_folders(FILES, folders, is_wanted=lambda _: True)) == ["b"]


@pytest.mark.parametrize(("first", "second"), [("c", "d"), ("c", None), (None, None)])
def test_logs_of_others_are_no_copies(
    tmp_path: Path, first: str | None, second: str | None
) -> None:
    folders = [
        write_node(tmp_path / "a", [0], cluster=first),
        write_node(tmp_path / "b", [0], cluster=second),
    ]
    assert read_of(plan_folders(FILES, folders, is_wanted=lambda _: True)) == ["a", "b"]


def test_a_folder_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    folder = write_node(tmp_path / "a", [0])
    assert read_of(plan_folders(FILES, [folder, folder], is_wanted=lambda _: True)) == ["a"]


def test_a_folder_without_the_log_is_told(tmp_path: Path) -> None:
    with pytest.raises(FolderMismatch, match="nowhere"):
        plan_folders(
            FILES, [write_node(tmp_path / "a", [0]), tmp_path / "nowhere"], is_wanted=lambda _: True
        )


def test_a_brokers_identity_is_its_clusters(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "copy")
    assert identity_of(FILES, tmp_path / "copy") == identity_of(FILES, GOLDEN)
    (tmp_path / "copy" / "meta.properties").unlink()
    assert identity_of(FILES, tmp_path / "copy") == os.fspath(tmp_path / "copy")
