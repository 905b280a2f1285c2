"""A folder and an object store keep backups alike."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

import pytest
from backups import back_up, restore
from log_stores import P0, commit, contents, opened
from offsetd_storage.backups.backup_errors import TargetFailed, WrongTarget
from offsetd_storage.backups.repository import Repository
from offsetd_storage.backups.targets import (
    FolderTarget,
    ObjectStoreTarget,
    PrivateOsFiles,
    Target,
    TargetObject,
    check_target,
    target_of,
)
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_files import SimulatedFiles

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

has_fsspec = pytest.mark.skipif(
    importlib.util.find_spec("fsspec") is None, reason="needs fsspec: the extra `backup`"
)


@pytest.fixture(params=["folder", pytest.param("object store", marks=has_fsspec)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Target]:
    if request.param == "folder":
        yield FolderTarget(OsFiles(), tmp_path / "a" / "b")
        return
    store = ObjectStoreTarget(f"memory://{tmp_path.name}/b")
    yield store
    store._store.store.clear()


def sizes(target: Target, prefix: str) -> dict[str, int]:
    return {each.name: each.size_bytes for each in target.objects(prefix)}


def test_objects_are_put_listed_replaced_and_removed(target: Target) -> None:
    assert target.get("chunks/0a/x") is None
    assert list(target.objects("chunks/")) == []
    target.put("chunks/0a/x", b"1")
    target.put("chunks/0b/y", b"22")
    target.put("manifests/z", b"333")
    target.settle()
    assert sizes(target, "chunks/") == {"chunks/0a/x": 1, "chunks/0b/y": 2}
    assert sizes(target, "manifests/") == {"manifests/z": 3}
    target.put("chunks/0a/x", b"new")
    target.settle()
    assert target.get("chunks/0a/x") == b"new"
    target.remove("chunks/0a/x")
    target.remove("chunks/0a/x")
    assert target.get("chunks/0a/x") is None
    assert sizes(target, "chunks/") == {"chunks/0b/y": 2}


def test_a_store_is_backed_up_and_restored_from_any_target(target: Target) -> None:
    files = SimulatedFiles()
    store = opened(files)
    for _ in range(20):
        commit(store, P0)
    repository = Repository(target)
    back_up(store, repository)
    commit(store, P0)
    written = back_up(store, repository, moment_ms=1_800_000_000_000)
    assert written.new_bytes < written.manifest.size_bytes
    repository.prune(1, now_ms=0)
    assert repository.backup_ids() == [written.backup_id]
    restored = restore(
        files, repository, repository.manifest(written.backup_id), now_ms=1_800_000_000_000
    )
    assert contents(restored) == contents(store)


def test_an_address_with_a_scheme_is_an_object_store(tmp_path: Path) -> None:
    assert target_of(f"{tmp_path}/b").address == f"{tmp_path}/b"
    assert target_of(f"file://{tmp_path}/b").address == f"{tmp_path}/b"
    assert target_of(f"local://{tmp_path}/b").address == f"{tmp_path}/b"
    assert isinstance(target_of("relative"), FolderTarget)


@has_fsspec
def test_an_unknown_scheme_is_told() -> None:
    with pytest.raises(WrongTarget, match="nowhere://b: Protocol not known"):
        target_of("nowhere://b")


def test_without_fsspec_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(WrongTarget, match="install offsetd with its extra `backup`"):
        target_of("s3://bucket/prefix")


@pytest.mark.parametrize(
    "address",
    ["", "file://", "~/backups", "S3://b", "simplecache::s3://b", "memory://b", "https://a/b"],
)
def test_what_is_no_target_is_refused(address: str) -> None:
    with pytest.raises(WrongTarget, match="is no target"):
        target_of(address)


@pytest.mark.parametrize("below", ["", "backups", "__consumer_offsets-3/x"])
def test_a_target_in_a_data_folder_is_refused(tmp_path: Path, below: str) -> None:
    (tmp_path / "offsetd.properties").touch()
    with pytest.raises(TargetFailed, match="keep backups elsewhere"):
        target_of(str(tmp_path / below))


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_bytes(b"")
    target = FolderTarget(OsFiles(), in_the_way)
    with pytest.raises(TargetFailed, match=str(in_the_way)):
        target.put("chunks/0a/x", b"1")
    assert target.get("chunks/0a/x") is None


def test_a_put_that_was_cut_off_is_listed_by_another_name(tmp_path: Path) -> None:
    target = target_of(str(tmp_path))
    (tmp_path / "chunks").mkdir()
    (tmp_path / "chunks" / "x.unfinished").write_bytes(b"half")
    assert Repository(target).chunks() == {}
    assert [each for each in target.objects("chunks/") if isinstance(each, TargetObject)]


def test_a_target_that_can_be_written_is_known_before_the_first_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_target(str(tmp_path))
    check_target(str(tmp_path / "new" / "below"))
    assert not list(tmp_path.iterdir())
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(WrongTarget, match="file is no target: it is not a folder"):
        check_target(str(file))
    with pytest.raises(WrongTarget, match="file is not a folder"):
        check_target(str(file / "below"))
    (tmp_path / "manifests").mkdir()
    check_target(str(tmp_path))
    monkeypatch.setattr(PrivateOsFiles, "may_write", lambda _, path: path.name != "manifests")
    with pytest.raises(WrongTarget, match=r"no permission in .*manifests, or a read-only disk"):
        check_target(str(tmp_path))
    monkeypatch.setattr(PrivateOsFiles, "may_write", lambda *_: False)  # Root may write anywhere.
    with pytest.raises(WrongTarget, match=f"cannot be written to: no permission in {tmp_path},"):
        check_target(str(tmp_path / "new"))


@has_fsspec
def test_a_store_is_not_asked_whether_it_answers() -> None:
    pytest.importorskip("s3fs")
    check_target("s3://no-such-bucket/prefix")


def test_only_the_owner_can_read_a_backup(tmp_path: Path) -> None:
    target = target_of(str(tmp_path / "a" / "b"))
    target.put("chunks/0a/x", b"1")
    target.settle()
    for each in (tmp_path / "a").rglob("*"):
        assert each.stat().st_mode & 0o777 == (0o700 if each.is_dir() else 0o600)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
