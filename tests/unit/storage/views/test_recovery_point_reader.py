"""Who looks at a journal again and again knows what a new reader would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from journals import FOLDER, IDENTITY, PATHS, Writer
from log_stores import seeded
from offsetd_storage.disk.simulated_files import SimulatedFile, SimulatedFiles
from offsetd_storage.views import recovery_point_reader
from offsetd_storage.views.recovery_point_reader import DurablePoints

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LOOKS = 400


def test_a_look_that_follows_says_what_a_new_one_says_over_turns_and_lives() -> None:
    chance = seeded()
    files = SimulatedFiles()
    writer = Writer(files)
    follower = DurablePoints(files, FOLDER, IDENTITY)
    known = []
    for number in range(LOOKS):
        for _ in range(chance.choice((0, 1, 3))):
            if not writer.has_room():
                writer.journal.append_recovery_points(writer.points())
            writer.append(size_bytes=chance.choice((100, 200)))
        if chance.random() < 0.2:
            writer.journal.append_recovery_points(writer.points())
        if chance.random() < 0.02 and writer.journal.other_file_is_free:
            writer.journal.begin_life(1000 + number, writer.points().values())
        known.append(follower.read(begun=True))
        assert (
            known[-1]
            == DurablePoints(files, FOLDER, IDENTITY).read(begun=True)
            == writer.journal.points
        )
    assert len({str(points) for points in known}) > LOOKS // 10


def test_of_a_journal_that_was_closed_or_is_not_there_it_knows_nothing() -> None:
    files = SimulatedFiles()
    follower = DurablePoints(files, FOLDER, IDENTITY)
    assert follower.read(begun=False) is None
    writer = Writer(files)
    assert follower.read(begun=True) == writer.journal.points
    writer.journal.append_closed(writer.points())
    assert follower.read(begun=True) is None


class TurnedOver:
    """Files of which what was read once is written over: the server's next turn but one began."""

    def __init__(self, files: SimulatedFiles) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def open(self, path: Path, **how: Any) -> Any:
        return TurnedOverFile(self._files.open(path, **how))


class TurnedOverFile:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._farthest = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def pread_into(self, buffer: Any, size: int, position: int) -> int:
        read: int = self._file.pread_into(buffer, size, position)
        if position < self._farthest:
            buffer[:read] = 255
        self._farthest = max(self._farthest, position)
        return read


class Exchanging(SimulatedFiles):
    """Files of a journal that is made small while the first look is between its two files."""

    writer: Writer | None = None

    def open(self, path: Path, **how: bool) -> SimulatedFile:
        file = super().open(path, **how)
        if self.writer is not None and path == PATHS[0]:
            writer, self.writer = self.writer, None
            for _ in PATHS:
                writer.journal.make_spare(2048)
                writer.journal.exchange_other(2048)
                writer.journal.turn()
        return file


def test_a_look_while_both_files_are_exchanged_looks_again() -> None:
    files = Exchanging()
    writer = Writer(files)
    writer.journal.turn()
    writer.journal.make_spare(2048)
    writer.journal.exchange_other(2048)  # The first file has no header.
    files.writer = writer
    assert DurablePoints(files, FOLDER, IDENTITY).read(begun=True) == writer.journal.points
    assert files.writer is None


def test_of_a_journal_that_has_lost_its_headers_nothing_is_known_and_nothing_is_settled() -> None:
    files = SimulatedFiles()
    Writer(files)
    for path in PATHS:
        files.put_durable(path, bytes(files.size(path)))
    assert DurablePoints(files, FOLDER, IDENTITY).read(begun=True) == {}


def test_points_are_those_of_the_frame_that_was_seen_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery_point_reader, "_WINDOW_BYTES", 512)
    files = SimulatedFiles()
    writer = Writer(files)
    follower = DurablePoints(TurnedOver(files), FOLDER, IDENTITY)  # type: ignore[arg-type]
    writer.append(size_bytes=100)
    points = writer.points()
    writer.journal.append_recovery_points(points)
    for _ in range(5):
        writer.append(size_bytes=200)
    assert follower.read(begun=True) == writer.journal.points
