"""Who looks at a journal again and again knows what a new reader would."""

from __future__ import annotations

from journals import FOLDER, IDENTITY, Writer
from log_stores import seeded
from offsetd_storage.durable_points import DurablePoints
from offsetd_storage.simulated_files import SimulatedFiles

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
        known.append(follower.read())
        assert known[-1] == DurablePoints(files, FOLDER, IDENTITY).read() == writer.journal.points
    assert len({str(points) for points in known}) > LOOKS // 10


def test_of_a_journal_that_was_closed_or_is_not_there_it_knows_nothing() -> None:
    files = SimulatedFiles()
    follower = DurablePoints(files, FOLDER, IDENTITY)
    assert follower.read() is None
    writer = Writer(files)
    assert follower.read() == writer.journal.points
    writer.journal.append_closed(writer.points())
    assert follower.read() is None
