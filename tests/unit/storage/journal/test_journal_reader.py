"""Reading a journal file through a window: nothing is missed at its edges, and it stays small."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from offsetd_storage.journal import journal_reader
from offsetd_storage.journal.journal_format import (
    FRAME,
    FRAME_BYTES_MAX,
    Frame,
    FrameKind,
    FramePayload,
    JournalHeader,
    RecoveryPoint,
    align,
    encode_header,
    sealed_frame,
)
from offsetd_storage.journal.journal_reader import WINDOW_BYTES, JournalReader
from offsetd_storage.topic_partition import TopicPartition

MARK = b"a secret"


class MemoryFile:
    """A file with zeros behind its content, that knows how much was read at once."""

    def __init__(self, content: bytes, size: int | None = None) -> None:
        self.content = content
        self.length = len(content) if size is None else size
        self.piece_bytes_max = 0

    def size(self) -> int:
        return self.length

    def pread_into(self, buffer: np.ndarray, size: int, position: int) -> int:
        self.piece_bytes_max = max(self.piece_bytes_max, size)
        read = max(0, min(size, self.length - position))
        part = np.frombuffer(self.content[position : position + read], np.uint8)
        buffer[: len(part)] = part
        buffer[len(part) : read] = 0
        return read


def reader_of(content: bytes, size: int | None = None) -> JournalReader:
    return JournalReader(MemoryFile(content, size), mark=MARK)  # type: ignore[arg-type]


def frame_of(payload: bytes, *, sequence: int, life: int = 9, mark: bytes = MARK) -> bytes:
    frame = sealed_frame(
        FramePayload.of(payload), mark=mark, kind=FrameKind.BATCHES, life=life, sequence=sequence
    )
    return frame.tobytes()


def flipped(content: bytes, position: int) -> bytes:
    changed = bytearray(content)
    changed[position] ^= 8
    return bytes(changed)


@pytest.fixture(params=[WINDOW_BYTES, 64, 104, 200], ids="window of {}".format)
def window_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(journal_reader, "WINDOW_BYTES", request.param)
    return int(request.param)


@pytest.mark.usefixtures("window_bytes")
@pytest.mark.parametrize(("sequence_min", "found"), [(4, 5), (5, 5), (6, 70), (70, 70), (71, None)])
def test_the_first_whole_frame_from_a_sequence_on_is_found_wherever_it_lies(
    sequence_min: int, found: int | None
) -> None:
    frames = [
        frame_of(b"a" * 90, sequence=70),
        frame_of(b"b", sequence=5, life=1),
        frame_of(b"c" * 31, sequence=70, life=2),
    ]
    frames[0] = flipped(frames[0], 100)  # Broken, and so not it.
    content = b"\0" * 24 + b"".join(frames) + b"\xff" * 48
    for start in (0, 3, 24):
        frame = reader_of(content).find_frame(start, len(content), sequence_min=sequence_min)
        assert (None if frame is None else frame.sequence) == found


@pytest.mark.usefixtures("window_bytes")
@pytest.mark.parametrize("payload_bytes", [0, 7, 500])
def test_a_frame_at_any_aligned_place_is_found_and_read(payload_bytes: int) -> None:
    payload = Random(payload_bytes).randbytes(payload_bytes)
    for position in range(0, 320, 8):
        content = bytes(position) + frame_of(payload, sequence=3)
        reader = reader_of(content, size=1000)
        frame = reader.find_frame(0, 1000, sequence_min=3)
        assert frame is not None
        assert (frame.position, frame.end) == (
            position,
            align(position + FRAME.size + payload_bytes),
        )
        assert reader.payload(frame) == payload
        assert reader.frame_at(position, 1000) == frame
        assert reader.find_frame(0, frame.payload_end - 1, sequence_min=3) is None
        assert reader.find_frame(position + 1, 1000, sequence_min=3) is None


@pytest.mark.usefixtures("window_bytes")
def test_finding_frames_in_chance_bytes_finds_none() -> None:
    content = Random(1).randbytes(10_000) + MARK * 100
    assert reader_of(content).find_frame(0, len(content), sequence_min=0) is None


@pytest.mark.usefixtures("window_bytes")
def test_a_file_that_becomes_shorter_while_it_is_read_ends_there() -> None:
    content = frame_of(b"payload", sequence=1) * 9
    file = MemoryFile(content)
    reader = JournalReader(file, mark=MARK)  # type: ignore[arg-type]
    file.length = 80
    assert reader.frame_at(0, len(content)) is not None
    assert reader.frame_at(64, len(content)) is None
    assert reader.find_frame(64, len(content), sequence_min=0) is None


def test_a_large_file_takes_little_memory() -> None:
    size = 5 * WINDOW_BYTES + 1000
    last = frame_of(b"last", sequence=9)
    file = MemoryFile(bytes(5 * WINDOW_BYTES - 24) + last, size)
    reader = JournalReader(file, mark=MARK)  # type: ignore[arg-type]
    assert reader.header() is None
    found = reader.find_frame(0, size, sequence_min=0)
    assert isinstance(found, Frame)
    assert found.position == 5 * WINDOW_BYTES - 24
    assert file.piece_bytes_max == WINDOW_BYTES


@pytest.mark.parametrize("payload_bytes", [FRAME_BYTES_MAX - FRAME.size + 1, 2**32 - 1])
def test_a_frame_larger_than_any_is_not_read(payload_bytes: int) -> None:
    content = FRAME.pack(MARK, 0, payload_bytes, 1, 1, 1)
    file = MemoryFile(content, 2**33)
    reader = JournalReader(file, mark=MARK)  # type: ignore[arg-type]
    assert reader.frame_at(0, 2**33) is None
    assert file.piece_bytes_max <= WINDOW_BYTES


def test_a_header_is_read_with_thousands_of_partitions() -> None:
    points = tuple(
        RecoveryPoint.of_held(TopicPartition("t" * 249, partition)) for partition in range(10_000)
    )
    header = JournalHeader(
        folder_id=bytes(16),
        life=1,
        file_number=1,
        first_sequence=1,
        file_bytes=1 << 24,
        frames_start=1 << 23,
        points=points,
    )
    content = encode_header(header)
    assert reader_of(content, 1 << 24).header() == header
    assert reader_of(flipped(content, 100), 1 << 24).header() is None
