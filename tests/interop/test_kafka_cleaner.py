"""Kafka's own cleaner over many logs: it does what is known of it, and ours leaves the same."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from compaction.cases import SHAPES, cases, drawn
from compaction.comparison import (
    Segments,
    aborted_batches,
    batch_difference,
    differences,
    marked_after_expiry,
    segments_in,
    without_emptied,
    without_forgotten,
    without_remembered,
)
from compaction.examples import Example, Expected, examples, outline
from compaction.logs import Case, CleanerSettings
from compaction.ours import clean_once
from compaction.reference import clean
from interop.kafka_cleaner import TOPIC, CleanedCase, KafkaCleaner, RoundReport
from interop.kafka_dump import complaints, dump
from interop.requirements import no_kafka
from offsetd_storage.batch.record_batch import RecordBatch, decode_batches
from offsetd_storage.cleaner.cleaning_round import CleanReport
from offsetd_storage.log.segment_files import segment_path

from deploy.kafka.kafka_runtime import KafkaUnavailable

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=1)]

OF_EACH_SHAPE = 5
DUMPED_AT_ONCE = 1500  # A command line has an end.
EXAMPLES = {each.case.name: each for each in examples()}
# Elsewhere it seldom comes to it that a marker stays, emptied.
MOSTLY_MARKERS = "mostly markers"
OF_MOSTLY_MARKERS = 20
DRAWN = [
    *(f"{shape}-{number}" for shape in SHAPES for number in range(OF_EACH_SHAPE)),
    *(f"{MOSTLY_MARKERS}-{number}" for number in range(OF_EACH_SHAPE, OF_MOSTLY_MARKERS)),
]
# What showed something new once: a shape, a number and a seed.
DRAWN_AGAIN = {
    "an emptied batch stays of an epoch that only an emptied marker ended": (
        MOSTLY_MARKERS,
        6,
        2391053569,
    ),
}
NAMES = [*EXAMPLES, *DRAWN, *DRAWN_AGAIN]
# By what says the same, an index may have fewer entries or more; these bound what is joined.
FREELY_JOINED = "small indexes"

# The tool complains of Kafka's own, too: the time of an emptied batch, which no record has.
TIME_OF_NO_RECORD = re.compile(
    r"Found timestamp mismatch in :.*\n(  Index timestamp: \d+, log timestamp: -1\n)+(?!  Index)"
)

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
def every_case(seed: int) -> dict[str, Case]:
    """The examples, and what is drawn."""
    found = [example.case for example in EXAMPLES.values()]
    found += cases(seed, of_each_shape=OF_EACH_SHAPE)
    found += [
        drawn(MOSTLY_MARKERS, SHAPES[MOSTLY_MARKERS], number, seed)
        for number in range(OF_EACH_SHAPE, OF_MOSTLY_MARKERS)
    ]
    found += [
        attrs.evolve(drawn(shape, SHAPES[shape], number, its_seed), name=name)
        for name, (shape, number, its_seed) in DRAWN_AGAIN.items()
    ]
    return {case.name: case for case in found}


@pytest.fixture(scope="module")
def kafka() -> KafkaCleaner:
    try:
        return KafkaCleaner.install()
    except KafkaUnavailable as unavailable:
        no_kafka(str(unavailable))


@pytest.fixture(scope="module")
def cleaned(
    kafka: KafkaCleaner, every_case: dict[str, Case], work_folder: Path
) -> dict[str, CleanedCase]:
    """What Kafka's cleaner did with every case."""
    return kafka.clean(list(every_case.values()), work_folder / "kafka")


def outlines(state: Path) -> list[list[str]]:
    """Of a folder's segments, the last one aside."""
    segments = list(segments_in(state).values())[:-1]
    return [[outline(batch) for batch in decode_batches(batches)] for batches in segments]


@pytest.fixture(autouse=True)
def _seed_is_told(seed: int) -> None:
    print(f"OFFSETD_TEST_SEED={seed}")


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
    of_chance = [cleaned[name] for name in DRAWN]
    assert len(of_chance) >= 200
    met = set()
    for case in of_chance:
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


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_leaves_what_kafka_leaves(
    cleaned: dict[str, CleanedCase], every_case: dict[str, Case], name: str
) -> None:
    case, states = every_case[name], cleaned[name].states
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
        left = ours.segments
        assert left_otherwise(case, number, before, theirs, left) == [], f"round {number}"


@pytest.mark.parametrize("name", NAMES)
def test_our_cleaner_leaves_what_kafka_leaves(
    cleaned: dict[str, CleanedCase], every_case: dict[str, Case], name: str, work_folder: Path
) -> None:
    """Round by round, each from where Kafka's began; where Kafka has none, we plan none."""
    case, states = every_case[name], cleaned[name].states
    for number, report in enumerate(cleaned[name].rounds):
        folder = work_folder / "ours" / name / str(number) / f"{TOPIC}-0"
        shutil.copytree(states[number], folder)
        done = clean_once(
            folder,
            case,
            number,
            first_dirty=report.first_dirty if number else None,
            dry_run=not report.cleanable_bytes,
        )
        assert done.first_dirty == report.first_dirty, f"round {number}"
        assert done.first_uncleanable == report.first_uncleanable, f"round {number}"
        if not report.cleanable_bytes:
            continue
        before, theirs = segments_in(states[number]), segments_in(states[number + 1])
        assert done.offset_next == report.next_first_dirty, f"round {number}"
        left = segments_in(folder)
        assert left_otherwise(case, number, before, theirs, left) == [], f"round {number}"
        figures, kafkas = (figures_of(each, case.settings) for each in (done, report))
        if _differences(name, before, theirs, left):
            del figures["read"], kafkas["read"]  # Of what goes as a whole no record is looked at.
        assert figures == kafkas, f"round {number}"
        if report.first_dirty in before:
            assert done.map_messages_read == report.map_records_read, f"round {number}"
        if len(b"".join(theirs.values())) == len(b"".join(segments_in(folder).values())):
            assert done.bytes_written == report.bytes_written, f"round {number}"
        for base, batches in segments_in(folder).items():
            if batches != before[base]:
                assert modified_ms(folder, base) == modified_ms(states[number + 1], base)
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def ours(
    cleaned: dict[str, CleanedCase], every_case: dict[str, Case], work_folder: Path
) -> dict[str, Path]:
    """The folders after all rounds of ours, one after the other."""
    folders = {}
    for name, case in every_case.items():
        folder = work_folder / "all rounds" / name / f"{TOPIC}-0"
        shutil.copytree(cleaned[name].states[0], folder)
        first_dirty = None
        for number, report in enumerate(cleaned[name].rounds):
            if report.cleanable_bytes:
                done = clean_once(folder, case, number, first_dirty=first_dirty)
                first_dirty = done.offset_next
        folders[name] = folder
    return folders


@pytest.mark.parametrize("name", NAMES)
def test_our_rounds_one_after_the_other_lead_where_kafkas_do(
    cleaned: dict[str, CleanedCase],
    every_case: dict[str, Case],
    ours: dict[str, Path],
    name: str,
) -> None:
    theirs, mine = segments_in(cleaned[name].states[-1]), segments_in(ours[name])
    kafkas, log = (b"".join(segments.values()) for segments in (theirs, mine))
    if kafkas != log:
        left = without_remembered(log, kafkas, before=kafkas)
        doubtful = marked_after_expiry(
            b"".join(every_case[name].segments.values()),
            expired_ms=_expired_ms(every_case[name], -1),
        )
        allowed = without_emptied(without_forgotten(kafkas, log), doubtful)
        assert batch_difference(allowed, without_emptied(left, doubtful)) is None
    assert list(mine)[-1] == list(theirs)[-1], "the active segment"


@pytest.fixture(scope="module")
def verdicts(
    kafka: KafkaCleaner,
    every_case: dict[str, Case],
    ours: dict[str, Path],
    work_folder: Path,
) -> dict[str, dict[str, Any]]:
    """What Kafka says of our folders, which it opens in copies."""
    copies = {
        name: Path(shutil.copytree(folder, work_folder / "opened" / name / folder.name))
        for name, folder in ours.items()
    }
    settings = {name: case.settings for name, case in every_case.items()}
    now_ms = max(each.rounds[-1].now_ms for each in every_case.values())
    return kafka.accept(copies, settings, now_ms, work_folder / "verdicts")


@pytest.mark.parametrize("name", NAMES)
def test_kafka_opens_what_our_cleaner_left(
    cleaned: dict[str, CleanedCase],
    every_case: dict[str, Case],
    ours: dict[str, Path],
    verdicts: dict[str, dict[str, Any]],
    name: str,
) -> None:
    rounds = [report for _, report in rounds_of(cleaned[name])]
    if not rounds:  # A transaction is open from the start: nobody touches it, or makes its indexes.
        assert segments_in(ours[name]) == segments_in(cleaned[name].states[-1])
        return
    verdict, last = verdicts[name], rounds[-1]
    assert verdict.get("error") is None
    assert verdict["complaints"] == []
    log = b"".join(segments_in(ours[name]).values())
    assert aborted_batches(verdict["aborted"], log) == aborted_batches(last.aborted, log)
    assert verdict["log_end_offset"] == end_of(every_case[name])


def test_kafkas_dump_tool_finds_nothing_wrong_with_what_our_cleaner_left(
    kafka: KafkaCleaner, ours: dict[str, Path], work_folder: Path
) -> None:
    root = work_folder / "all rounds"
    files = [
        str(path.relative_to(root))
        for suffix in (".log", ".index", ".timeindex")
        for path in sorted(root.glob(f"*/*/*{suffix}"))
    ]
    for first in range(0, len(files), DUMPED_AT_ONCE):
        some = files[first : first + DUMPED_AT_ONCE]
        said = dump(kafka.runtime, root, some)
        assert said.stdout.count("Dumping ") == len(some)
        assert complaints(attrs.evolve(said, stderr=TIME_OF_NO_RECORD.sub("", said.stderr))) == []


def left_otherwise(
    case: Case, number: int, before: Segments, theirs: Segments, ours: Segments
) -> list[str]:
    """How what round `number` left differs from what Kafka left."""
    found = _differences(case.name, before, theirs, ours)
    if found:  # It takes long to look for the batches that may differ.
        log, kafkas, left = (b"".join(segments.values()) for segments in (before, theirs, ours))
        allowed = {
            base: without_forgotten(batches, left, empty_before=log)
            for base, batches in theirs.items()
        }
        mine = {
            base: without_remembered(batches, kafkas, before=log) for base, batches in ours.items()
        }
        doubtful = marked_after_expiry(log, expired_ms=_expired_ms(case, number))
        if doubtful:
            allowed, mine = (
                {base: without_emptied(batches, doubtful) for base, batches in each.items()}
                for each in (allowed, mine)
            )
        found = _differences(case.name, before, allowed, mine)
    return found


def _expired_ms(case: Case, number: int) -> int:
    """In this round producers that wrote last at this time, or before, are forgotten."""
    return case.rounds[number].now_ms - case.settings.producer_expiration_ms


def _differences(name: str, before: Segments, theirs: Segments, ours: Segments) -> list[str]:
    if not name.startswith(FREELY_JOINED):
        return list(differences(before, theirs, ours))
    found = batch_difference(b"".join(theirs.values()), b"".join(ours.values()))
    return [found] if found else []


def figures_of(report: CleanReport | RoundReport, settings: CleanerSettings) -> dict[str, Any]:
    """Those that do not depend on where reading began and on how well a codec does."""
    if isinstance(report, CleanReport):
        return {
            "bytes read": report.bytes_read,
            "read": report.messages_read,
            "written": report.messages_written,
            "invalid": report.invalid_messages,
            "utilization": report.map_utilization,
        }
    assert report.map_keys is not None
    return {
        "bytes read": report.bytes_read,
        "read": report.records_read,
        "written": report.records_written,
        "invalid": report.records_invalid,
        "utilization": report.map_keys / settings.map_slots,
    }


def end_of(case: Case) -> int:
    """Where the next record would go."""
    base, batches = list(case.segments.items())[-1]
    return max((batch.last_offset + 1 for batch in decode_batches(batches)), default=base)


def modified_ms(folder: Path, base_offset: int) -> int:
    return segment_path(folder, base_offset).stat().st_mtime_ns // 10**6


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
