"""`offsetd.properties`: read as written, refused when newer or damaged."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING

import attrs
import pytest
from log_stores import FOLDER, tree
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.errors import FolderMismatch, NewerFormat
from offsetd_storage.folder.folder_format import (
    PROPERTIES_NAME,
    FolderIdentity,
    _with_checksum,
    new_properties,
    read_properties,
    write_properties,
)

if TYPE_CHECKING:
    from pathlib import Path

PATH = FOLDER / PROPERTIES_NAME


def written(begun: bool = False) -> tuple[SimulatedFiles, bytes]:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    files.sync_folder(FOLDER.parent)
    properties = attrs.evolve(new_properties(50, Random(1)), journal_begun=begun)
    write_properties(files, FOLDER, properties)
    return files, files.read_bytes(PATH)


def test_a_folder_without_them_is_not_ours() -> None:
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    assert read_properties(files, FOLDER) is None


@pytest.mark.parametrize("begun", [False, True])
def test_they_read_back_after_a_power_cut(begun: bool) -> None:
    files, _ = written(begun)
    properties = read_properties(files.power_cut(), FOLDER)
    assert properties == attrs.evolve(new_properties(50, Random(1)), journal_begun=begun)


def test_they_are_text_that_says_what_it_is() -> None:
    _, content = written()
    lines = content.decode().splitlines()
    assert lines[0] == "format.version=1"
    assert "offsets.topic.num.partitions=50" in lines
    assert [line.partition("=")[0] for line in lines] == [
        "format.version",
        "folder.id",
        "journal.frame.mark",
        "offsets.topic.num.partitions",
        "journal.begun",
        "folder.origin",
        "checksum",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"folder.origin=offsetd\n", False),
        (b"folder.origin=elsewhere\n", True),
        (b"", True),
    ],
)
def test_a_folder_is_made_here_only_where_that_is_written(line: bytes, expected: bool) -> None:
    files, content = written()
    body = content.rpartition(b"checksum=")[0].replace(b"folder.origin=offsetd\n", line)
    files.put_durable(PATH, _with_checksum(body))
    properties = read_properties(files, FOLDER)
    assert properties is not None
    assert properties.is_from_elsewhere is expected


def test_two_folders_differ_in_id_and_mark() -> None:
    random = Random(2)
    one, other = (new_properties(50, random).identity for _ in range(2))
    assert one.folder_id != other.folder_id
    assert one.frame_mark != other.frame_mark
    assert one.frame_mark.hex() not in repr(one), "the mark is a secret"


def test_every_bit_flip_and_every_cut_is_refused() -> None:
    files, content = written()
    damaged = [content[:size] for size in range(len(content))]
    for position in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[position] ^= 1 << bit
            damaged.append(bytes(flipped))
    for each in damaged:
        files.put_durable(PATH, each)
        with pytest.raises((FolderMismatch, NewerFormat)):
            read_properties(files, FOLDER)


@pytest.mark.parametrize("version", ["2", "17"])
def test_a_newer_version_is_refused_untouched_whatever_else_it_says(version: str) -> None:
    files, _ = written()
    files.put_durable(PATH, f"format.version={version}\nnobody.knows=this\n".encode())
    before = tree(files)
    with pytest.raises(NewerFormat):
        read_properties(files, FOLDER)
    assert tree(files) == before


def test_an_identity_has_full_length() -> None:
    with pytest.raises(ValueError, match="frame_mark"):
        FolderIdentity(folder_id=bytes(16), frame_mark=b"short")


def test_properties_of_any_size_are_refused_without_being_read_whole(tmp_path: Path) -> None:
    (tmp_path / PROPERTIES_NAME).write_bytes(written()[1])
    os.truncate(tmp_path / PROPERTIES_NAME, 1 << 40)
    with pytest.raises(FolderMismatch, match="damaged"):
        read_properties(OsFiles(), tmp_path)
