"""A damaged segment is an error that says where, or passed over and told of."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame

LOG = "__consumer_offsets-0/00000000000000000000.log"
DAMAGED_AT = 148  # Where the second batch begins; it has 1,167 bytes and offsets 1 to 5.
DAMAGED_BYTES = 1167
LOST = {1, 2, 3, 4, 5}


@pytest.fixture
def damaged(golden: Path, tmp_path: Path) -> Path:
    """A copy of the broker's folder with one bit turned, inside of a record."""
    folder = tmp_path / "copy"
    shutil.copytree(golden / "data", folder)
    log = folder / LOG
    content = bytearray(log.read_bytes())
    content[DAMAGED_AT + 100] ^= 1
    log.chmod(0o644)
    log.write_bytes(content)
    return folder


@pytest.mark.parametrize("mode", ["raw", "history", "current", "groups"])
def test_damage_fails_with_file_and_position(
    read: Callable[..., DataFrame], damaged: Path, mode: str
) -> None:
    with pytest.raises(Exception, match=f"{LOG}: .*BAD_CHECKSUM.* at byte {DAMAGED_AT}"):
        read(damaged, mode).collect()


def test_damage_is_passed_over_and_told_of_where_that_is_asked_for(
    read: Callable[..., DataFrame], damaged: Path, golden: Path
) -> None:
    places = ["log_partition", "log_offset"]
    whole = set(read(golden / "data", "raw").select(*places).collect())
    left = set(read(damaged, "raw", on_damage="skip").select(*places).collect())
    assert {tuple(row) for row in whole - left} == {(0, offset) for offset in LOST}
    assert left < whole
    [told] = read(damaged, "damage").collect()
    assert told.log_partition == 0
    assert told.file == str(damaged / LOG)
    assert (told.position, told.size_bytes) == (DAMAGED_AT, DAMAGED_BYTES)
    assert "BAD_CHECKSUM" in told.reason


def test_what_cannot_be_asked_for_is_refused(read: Callable[..., DataFrame], golden: Path) -> None:
    for options, said in [
        ({"mode": "latest"}, "mode is one of current, history, groups, raw, damage"),
        ({"mode": "raw", "on_damage": "ignore"}, "on_damage is one of fail, skip"),
        ({"mode": "raw", "column": "x"}, "no option 'column'"),
        ({"mode": "current", "columns": "lag"}, "mode current has no column 'lag'"),
        ({"mode": "raw", "range_bytes": "0"}, "range_bytes is a whole number above 0"),
    ]:
        with pytest.raises(Exception, match=said):
            read(golden / "data", **options).collect()
    with pytest.raises(Exception, match="does not exist"):
        read(golden / "nowhere", "raw").collect()
