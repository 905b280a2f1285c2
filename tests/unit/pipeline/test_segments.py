from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_pipeline.kernels import fields
from offsetd_pipeline.segments import (
    Damage,
    DamagedSegment,
    Segment,
    SegmentFiles,
    read_segment,
)
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.disk.files import OsFiles

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kernel


def batch(offset: int, *, count: int = 2, size: int = 20, codec: int = 0) -> bytes:
    records = [
        Record(key=b"k", value=b"v" * size, offset=offset + each, timestamp_ms=offset)
        for each in range(count)
    ]
    return encode_batch(records, base_offset=offset, compression=Compression(codec))


def read(
    folder: Path, content: bytes, *, timestamp_min: int | None = None, chunk_bytes: int = 256
) -> tuple[list[int], list[Damage]]:
    """The log offsets that are read, and the damage that is told of."""
    path = folder / f"{0:020d}.log"
    path.write_bytes(content)
    segment = Segment(path=str(path), base_offset=0, size_bytes=len(content))
    options = {} if timestamp_min is None else {"timestamp_min": timestamp_min}
    damage: list[Damage] = []
    offsets: list[int] = []
    with SegmentFiles(OsFiles()) as files:
        for rows in read_segment(
            files, segment, damaged=damage.append, chunk_bytes=chunk_bytes, **options
        ):
            offsets += rows.fields[:, fields.LOG_OFFSET].tolist()
    return offsets, damage


WHOLE = [batch(offset) for offset in range(0, 20, 2)]


def turned(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("content", "count"),
    [
        pytest.param(b"".join(WHOLE), 20, id="batches over several chunks"),
        pytest.param(batch(0, count=3, size=5000) + batch(3), 5, id="one larger than a chunk"),
        pytest.param(batch(0, count=9000) + batch(9000), 9002, id="more records than rows"),
        pytest.param(batch(0, codec=4) + batch(2) + batch(4, codec=2), 6, id="compressed"),
        pytest.param(batch(0, count=9000, codec=1), 9000, id="a large compressed batch"),
    ],
)
def test_every_record_is_read_once(tmp_path: Path, content: bytes, count: int) -> None:
    assert read(tmp_path, content) == (list(range(count)), [])


SIZE = len(WHOLE[0])
CASES = [
    ("a bit of a record", turned(b"".join(WHOLE), 3 * SIZE + 70), 3, 1, "BAD_CHECKSUM"),
    ("a length", turned(b"".join(WHOLE), 3 * SIZE + 8), 3, 1, "INCOMPLETE"),
    ("the magic", turned(b"".join(WHOLE), 3 * SIZE + 16), 3, 1, "BAD_MAGIC"),
    ("an offset that falls", b"".join([*WHOLE[:3], WHOLE[0], *WHOLE[3:]]), 3, 1, "BAD_OFFSET"),
    ("zeros at the end", b"".join(WHOLE) + bytes(100), 10, None, "BAD_LENGTH"),
    ("a torn tail", b"".join(WHOLE) + WHOLE[0][:70], 10, None, ""),
]


@pytest.mark.parametrize(("name", "content", "first", "count", "reason"), CASES)
def test_damage_is_told_of_with_its_place_and_the_rest_is_read(
    tmp_path: Path, name: str, content: bytes, first: int, count: int | None, reason: str
) -> None:
    offsets, [damage] = read(tmp_path, content)
    assert damage.position == first * SIZE
    assert damage.size_bytes == (len(content) - first * SIZE if count is None else count * SIZE)
    assert reason in damage.reason
    lost = len(WHOLE) * 2 - len(offsets)
    assert lost == (2 if name in ("a bit of a record", "a length", "the magic") else 0)


def test_a_compressed_batch_that_does_not_decompress_is_damage(tmp_path: Path) -> None:
    from offsetd_storage.batch.record_batch import batch_header, seal_records

    whole = batch(2, codec=4)
    broken = seal_records(b"nothing that zstd wrote", batch_header(whole))
    offsets, [damage] = read(tmp_path, batch(0) + broken + batch(4))
    assert offsets == [0, 1, 4, 5]
    assert (damage.position, damage.size_bytes) == (SIZE, len(broken))


def test_batches_from_before_a_time_are_passed_over_but_checked(tmp_path: Path) -> None:
    assert read(tmp_path, b"".join(WHOLE), timestamp_min=10) == (list(range(10, 20)), [])
    content = turned(b"".join(WHOLE), SIZE + 70)
    offsets, [damage] = read(tmp_path, content, timestamp_min=10)
    assert offsets == list(range(10, 20))
    assert damage.position == SIZE


def test_an_error_about_damage_comes_whole_out_of_another_process() -> None:
    import pickle

    error = DamagedSegment(Damage(path="x.log", position=3, size_bytes=4, reason="torn"))
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.damage) == (str(error), error.damage)
    assert "x.log: torn at byte 3" in str(error)
