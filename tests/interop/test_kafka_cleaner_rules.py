"""Where our cleaner does other than Kafka's by a rule: both sides, in docs/guides/cleaner.md."""

import shutil
from pathlib import Path

import pytest
from compaction.cases import RAISED_SHAPES, drawn
from compaction.comparison import batch_difference, differences, segments_in
from compaction.examples import outline
from compaction.exceptions import aborted_below_the_start, expired_before_its_marker
from compaction.logs import Case
from compaction.ours import clean_once
from compaction.reference import clean, first_open_offset
from interop.kafka_cleaner import TOPIC, KafkaCleaner
from interop.requirements import no_kafka
from offsetd_storage.batch.record_batch import decode_batches

from deploy.kafka.kafka_runtime import KafkaUnavailable

pytestmark = pytest.mark.kafka

OF_EACH_SHAPE = 6


@pytest.fixture(scope="module")
def kafka() -> KafkaCleaner:
    try:
        return KafkaCleaner.install()
    except KafkaUnavailable as unavailable:
        no_kafka(str(unavailable))


def left_by_both(kafka: KafkaCleaner, case: Case, folder: Path) -> tuple[list[str], list[str]]:
    """After one round, the active segment aside."""
    cleaned = kafka.clean([case], folder / case.name)[case.name]
    ours = folder / f"ours of {case.name}" / f"{TOPIC}-0"
    shutil.copytree(cleaned.states[0], ours)
    clean_once(ours, case, 0, first_dirty=None)
    return batches_in(cleaned.states[1]), batches_in(ours)


def batches_in(folder: Path) -> list[str]:
    *closed, _ = segments_in(folder).values()
    return [outline(batch) for batches in closed for batch in decode_batches(batches)]


def test_below_a_raised_start_kafka_keeps_what_was_aborted_and_ours_does_not(
    kafka: KafkaCleaner, tmp_path: Path
) -> None:
    """To Kafka the marker may go before its data: that would be an open transaction then."""
    theirs, ours = left_by_both(kafka, aborted_below_the_start(), tmp_path)
    assert theirs == ["0-0: 0", "1-1 marker until 1500: 1", "2-2: 2"]
    assert ours == ["1-1 marker: 1", "2-2: 2"]


@pytest.mark.parametrize("in_its_segment", [True, False])
def test_an_expired_producer_with_a_marker_since_keeps_its_last_batch_whatever_kafka_knows(
    kafka: KafkaCleaner, tmp_path: Path, *, in_its_segment: bool
) -> None:
    case = expired_before_its_marker(in_its_segment=in_its_segment)
    theirs, ours = left_by_both(kafka, case, tmp_path)
    assert ours == ["0-0:", "1-1: 1", "2-2 marker until 1500: 2", "3-3: 3"]
    # Where a segment ends between the two, Kafka had forgotten the producer when the marker came.
    assert theirs == (ours if in_its_segment else ours[1:])


@pytest.fixture(scope="module")
def raised(seed: int) -> list[Case]:
    """Logs that were told to begin anywhere."""
    return [
        drawn(name, shape, number, seed)
        for name, shape in RAISED_SHAPES.items()
        for number in range(OF_EACH_SHAPE)
    ]


def test_from_a_raised_start_on_both_leave_the_same_data(
    kafka: KafkaCleaner, raised: list[Case], tmp_path: Path
) -> None:
    """Below it ours goes on by its rules, as if the log began where its first segment does.

    If Kafka has removed a marker there before its data, ours finds an open transaction. It cleans
    nothing more, as Kafka would if its log's start were lost.
    """
    rounds = 0
    for name, cleaned in kafka.clean(raised, tmp_path / "kafka").items():
        (case,) = (each for each in raised if each.name == name)
        for number, report in enumerate(cleaned.rounds):
            folder = tmp_path / "ours" / name / str(number) / f"{TOPIC}-0"
            shutil.copytree(cleaned.states[number], folder)
            before, theirs = (segments_in(cleaned.states[number + more]) for more in (0, 1))
            first_dirty = report.first_dirty if number else None
            if not report.cleanable_bytes:
                continue
            done = clean_once(folder, case, number, first_dirty=first_dirty)
            opened = first_open_offset(before)
            if opened is not None and opened < case.log_start_offset:
                assert done.offset_next == done.first_dirty, f"{name}, round {number}"
                continue
            by_rule = clean(
                before,
                first_dirty=done.first_dirty,
                first_uncleanable=done.first_uncleanable,
                settings=case.settings,
                now_ms=case.rounds[number].now_ms,
            )
            ours, which = segments_in(folder), f"{name}, round {number}"
            assert list(differences(before, by_rule.segments, ours)) == [], which
            assert done.offset_next == report.next_first_dirty, which
            found = [readable_from(case.log_start_offset, each) for each in (theirs, ours)]
            assert batch_difference(*found) is None, which
            rounds += 1
    assert rounds > len(raised)


def readable_from(log_start_offset: int, segments: dict[int, bytes]) -> bytes:
    """The batches of a log that a reader can see something of, markers aside."""
    kept = []
    for batches in segments.values():
        position = 0
        for batch in decode_batches(batches):
            end = position + batch.size_bytes
            if batch.records and not batch.is_control and batch.last_offset >= log_start_offset:
                kept.append(batches[position:end])
            position = end
    return b"".join(kept)
