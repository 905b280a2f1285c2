"""Kafka's own cleaner over many logs; what is known of its rules, by hand and by a reference."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from compaction.cases import SHAPES, cases
from compaction.comparison import batch_difference, differences, segments_in
from compaction.examples import Example, Expected, examples, outline
from compaction.logs import Case
from compaction.reference import clean
from interop.kafka_cleaner import CleanedCase, KafkaCleaner, RoundReport
from interop.kafka_runtime import KafkaUnavailable
from interop.requirements import no_kafka
from offsetd_storage.record_batch import RecordBatch, decode_batches

pytestmark = pytest.mark.kafka

OF_EACH_SHAPE = 5
EXAMPLES = {each.case.name: each for each in examples()}
NAMES = [f"{shape}-{number}" for shape in SHAPES for number in range(OF_EACH_SHAPE)]

# Both cleaners sync what they write; in memory that costs nothing.
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def work_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if MEMORY.is_dir():
        folder = Path(tempfile.mkdtemp(prefix="offsetd-", dir=MEMORY))
        yield folder
        shutil.rmtree(folder)
    else:
        yield tmp_path_factory.mktemp("cleaned")


@pytest.fixture(scope="module")
def drawn(seed: int) -> dict[str, Case]:
    return {case.name: case for case in cases(seed, of_each_shape=OF_EACH_SHAPE)}


@pytest.fixture(scope="module")
def cleaned(drawn: dict[str, Case], work_folder: Path) -> dict[str, CleanedCase]:
    """By name: every case that is drawn, and every example."""
    try:
        cleaner = KafkaCleaner.install()
    except KafkaUnavailable as unavailable:
        no_kafka(str(unavailable))
    made = [each.case for each in EXAMPLES.values()]
    return cleaner.clean([*made, *drawn.values()], work_folder / "kafka")


def outlines(state: Path) -> list[list[str]]:
    """Of a folder's segments, the last one aside."""
    segments = list(segments_in(state).values())[:-1]
    return [[outline(batch) for batch in decode_batches(batches)] for batches in segments]


def rounds_of(case: CleanedCase) -> Iterator[tuple[int, RoundReport]]:
    """The rounds that had something to clean, with their numbers from 0."""
    for number, report in enumerate(case.rounds):
        if report.cleanable_bytes:
            yield number, report


@pytest.mark.parametrize("name", EXAMPLES)
def test_kafkas_cleaner_does_what_is_known_of_it(
    cleaned: dict[str, CleanedCase], name: str
) -> None:
    example: Example = EXAMPLES[name]
    done = cleaned[name]
    found = [
        Expected(next_first_dirty=report.next_first_dirty, segments=outlines(state))
        for report, state in zip(done.rounds, done.states[1:], strict=True)
    ]
    assert found == example.expected


def test_at_least_two_hundred_logs_are_cleaned_and_nothing_is_left_untried(
    cleaned: dict[str, CleanedCase],
) -> None:
    """What a round can make of a batch, each of it happens in some of the cases."""
    drawn = {name: cleaned[name] for name in NAMES}
    assert len(drawn) >= 200
    met = set()
    for case in drawn.values():
        for number, report in rounds_of(case):
            before, after = (_batches_by_base(case.states[number + more]) for more in (0, 1))
            for base, batch in before.items():
                met.add(_fate(batch, after.get(base)))
            if report.next_first_dirty < report.first_uncleanable:
                met.add("a full map")
            if report.records_invalid:
                met.add("records without a key")
            if report.aborted:
                met.add("aborted transactions")
    assert met >= {
        "kept",
        "gone",
        "marker kept",
        "marker gone",
        "emptied",
        "marker emptied",
        "rewritten",
        "stamped",
        "marker stamped",
        "a full map",
        "records without a key",
        "aborted transactions",
    }


@pytest.mark.parametrize("name", [*EXAMPLES, *NAMES])
def test_the_reference_leaves_what_kafka_leaves(
    cleaned: dict[str, CleanedCase], drawn: dict[str, Case], name: str
) -> None:
    case = EXAMPLES[name].case if name in EXAMPLES else drawn[name]
    states = cleaned[name].states
    for number, report in rounds_of(cleaned[name]):
        before, theirs = segments_in(states[number]), segments_in(states[number + 1])
        ours = clean(
            before,
            first_dirty=report.first_dirty,
            first_uncleanable=report.first_uncleanable,
            settings=case.settings,
            now_ms=case.rounds[number].now_ms,
        )
        assert ours.next_first_dirty == report.next_first_dirty, f"round {number}"
        if name.startswith("small indexes"):  # They bound groups, of which the reference is free.
            found = batch_difference(b"".join(theirs.values()), b"".join(ours.segments.values()))
            assert found is None, f"round {number}: {found}"
        else:
            found = list(differences(before, theirs, ours.segments))
            assert found == [], f"round {number}"


def _batches_by_base(state: Path) -> dict[int, RecordBatch]:
    batches = b"".join(segments_in(state).values())
    return {batch.base_offset: batch for batch in decode_batches(batches)}


def _fate(before: RecordBatch, after: RecordBatch | None) -> str:
    marker = "marker " if before.is_control else ""
    if after is None:
        return f"{marker}gone"
    if after == before:
        return f"{marker}kept"
    if not after.records:
        return f"{marker}emptied"
    if after.has_delete_horizon and not before.has_delete_horizon:
        return f"{marker}stamped"
    return f"{marker}rewritten"
