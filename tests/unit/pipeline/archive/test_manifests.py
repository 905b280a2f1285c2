"""Manifests alone say what an archive has: made once, read as they were, missed where they lack."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import attrs
import pytest
from offsetd_pipeline.archive.manifests import (
    MANIFESTS,
    RUNS,
    ArchiveBusy,
    ArchiveDamaged,
    ArchivedFile,
    ArchiveFolder,
    DamagedBytes,
    Gap,
    LogPosition,
    Manifest,
)

if TYPE_CHECKING:
    from pathlib import Path

PLACE = "dt=2026-11-21/log_partition=3"
FILE = ArchivedFile(
    path=f"{PLACE}/one.parquet",
    log_partition=3,
    day="2026-11-21",
    record_count=2,
    size_bytes=5,
    first_log_offset=0,
    last_log_offset=1,
    earliest_ms=7,
)
MANIFEST = Manifest(
    number=1,
    run_id="r",
    time_ms=9,
    source="s",
    folders=("a", "b"),
    offsets_partitions=None,
    positions={3: LogPosition(log_offset=2, log_start_offset=0, latest_ms=8)},
    files=(FILE,),
    gaps=(
        Gap(
            log_partition=3,
            begin_log_offset=0,
            end_log_offset=2,
            missing_count=1,
            from_ms=None,
            to_ms=8,
        ),
    ),
    damage=(DamagedBytes(log_partition=3, file="f", position=1, size_bytes=2, reason="why"),),
)


@pytest.fixture
def folder(tmp_path: Path) -> ArchiveFolder:
    """With one run."""
    (tmp_path / PLACE).mkdir(parents=True)
    (tmp_path / FILE.path).write_bytes(b"12345")
    found = ArchiveFolder(tmp_path)
    with found.locked():
        found.committed(MANIFEST)
    return found


def test_a_manifest_is_read_as_it_was_made(folder: ArchiveFolder) -> None:
    assert folder.manifests() == [MANIFEST]
    folder.check_files(MANIFEST)


def test_a_manifest_is_made_once(folder: ArchiveFolder) -> None:
    other = attrs.evolve(MANIFEST, run_id="other")
    with folder.locked(), pytest.raises(ArchiveBusy, match="meanwhile"):
        folder.committed(other)
    assert folder.manifests() == [MANIFEST]


def test_two_runs_at_once_are_refused(folder: ArchiveFolder) -> None:
    with folder.locked(), pytest.raises(ArchiveBusy, match="another run"), folder.locked():
        pass
    with folder.locked():
        pass


def test_a_manifest_that_is_gone_is_missed(folder: ArchiveFolder) -> None:
    folder.committed(attrs.evolve(MANIFEST, number=2))
    (folder.path / MANIFESTS / "00000001.json").unlink()
    with pytest.raises(ArchiveDamaged, match="lacks manifests"):
        folder.manifests()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format_version": 2}', '{"format_version": 1}']
)
def test_what_is_no_manifest_is_told(folder: ArchiveFolder, content: str) -> None:
    (folder.path / MANIFESTS / "00000001.json").write_text(content)
    with pytest.raises(ArchiveDamaged, match="not a manifest"):
        folder.manifests()


def test_a_newer_format_is_told(folder: ArchiveFolder) -> None:
    path = folder.path / MANIFESTS / "00000001.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": 2}))
    with pytest.raises(ArchiveDamaged, match="its format is 2, this program knows 1"):
        folder.manifests()


@pytest.mark.parametrize("content", [None, b"1234"])
def test_files_that_are_not_as_they_were_are_told(
    folder: ArchiveFolder, content: bytes | None
) -> None:
    path = folder.path / FILE.path
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(ArchiveDamaged, match="one"):
        folder.check_files(MANIFEST)


def test_what_no_manifest_names_is_removed_and_nothing_else(folder: ArchiveFolder) -> None:
    orphans = [folder.path / PLACE / "two.parquet", folder.path / "dt=x/log_partition=9/a.parquet"]
    own = [folder.path / RUNS / "keys", folder.path / MANIFESTS / "00000002.json.1.part"]
    for path in (*orphans, *own):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    kept = folder.path / "README"
    kept.write_bytes(b"")
    with folder.locked():
        assert folder.remove_orphans([MANIFEST]) == len(orphans)
    assert not [path for path in (*orphans, *own) if path.exists()]
    assert kept.exists()
    folder.check_files(MANIFEST)
