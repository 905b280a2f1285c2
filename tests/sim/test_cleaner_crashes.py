"""A crash before every operation of a swap leaves a log that says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from cleaned_logs import (
    CONFIG,
    clean_group,
    keyed_log,
    last_offsets,
    names_of,
    offsets_of,
    recovered,
    replayed,
)
from log_stores import seeded
from offsetd_storage.cleaner.cleaning_plan import LogToClean
from offsetd_storage.cleaner.cleaning_round import CleanerTools, clean_and_checkpoint
from offsetd_storage.cleaner.offset_map import OffsetMap
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.log.segment_list import SEGMENT_LIST_NAME
from offsetd_storage.log.segment_swap import delete_oldest, install
from partition_logs import FOLDER, bases, contents, everything

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from offsetd_storage.disk.simulated_faults import Operation
    from offsetd_storage.log.partition_log import PartitionLog


@attrs.frozen(kw_only=True)
class Case:
    """A log, a segment for each word (see `keyed_log`), and which neighbours become one.

    `kept` says which offsets stay of all groups; by default the last one of each key.
    """

    words: Sequence[str]
    groups: Sequence[tuple[int, int]]  # Base offsets: from the first one up to the second.
    kept: Sequence[int] | None = None


CASES = {
    "one into one": Case(words=["aabab", "b"], groups=[(0, 5)]),
    "several into one": Case(words=["aab", "abc", "ca", "b"], groups=[(0, 8)]),
    "several into none": Case(words=["aab", "bba", "ab", "abab", "a"], groups=[(0, 8)]),
    "one into none": Case(words=["aa", "ab", "b"], groups=[(0, 2)]),
    "several groups": Case(
        words=["aab", "abc", "cad", "dde", "ebf", "g"], groups=[(0, 6), (6, 12), (12, 15)]
    ),
    "a group into none between others": Case(
        words=["abc", "ddd", "dde", "eed", "a"], groups=[(0, 3), (3, 6), (6, 12)]
    ),
    # What stays ends in the first segment: a `.swap` covers that one alone. The tombstone in the
    # third one is due; the value that it hides lies in the second one.
    "a tombstone that is due hides a value": Case(
        words=["bcc", "kc", "Kc", "c", "c"], groups=[(0, 8)], kept=[0]
    ),
    "tombstones that are due, and nothing else": Case(
        words=["kl", "km", "KL", "M", "x"], groups=[(0, 7)], kept=[]
    ),
    "tombstones over groups": Case(
        words=["kab", "KaL", "lKb", "Lax", "x"], groups=[(0, 3), (3, 9), (9, 12)], kept=[10, 8]
    ),
    "a tombstone that stays": Case(words=["kab", "Kab", "x"], groups=[(0, 6)], kept=[3, 4, 5]),
}


def clean(files: SimulatedFiles, log: PartitionLog, case: Case) -> None:
    """Swaps one group after the other."""
    kept = case.kept
    if kept is None:
        kept = sorted(last_offsets(log, log.segments[-1].base_offset))
    for start, end in case.groups:
        group = [each for each in log.segments if start <= each.base_offset < end]
        cleaned = clean_group(files, group, kept)
        install(files, log, [] if cleaned is None else [cleaned], group)


@attrs.define
class Explorer:
    """Recovers from what a crash may leave before each operation, also while it recovers."""

    said: dict[bytes, bytes]
    offset_next: int
    random: Random
    states: int = 0
    seen: set[int] = attrs.Factory(set)

    def watch(self, files: SimulatedFiles, *, samples: int = 6, depth: int = 1) -> None:
        def look(running: SimulatedFiles, operation: Operation) -> None:
            states = [*running.crash_states(samples=samples, random=self.random), running.kill()]
            for state in states:
                self.check(state, f"before {operation}", depth)

        files.before_operation = look

    def check(self, disk: SimulatedFiles, what: str, depth: int) -> None:
        found = hash(tuple(contents(disk).items()))
        if found in self.seen:
            return
        self.seen.add(found)
        self.states += 1
        if depth and self.random.random() < 0.2:
            self.watch(disk, samples=2, depth=depth - 1)
        try:
            log = recovered(disk)
            log.sync()
            log.close()
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        disk.before_operation = None
        assert replayed(everything(log)) == self.said, what
        assert log.offset_next == self.offset_next, what
        offsets = offsets_of(everything(log))
        assert offsets == sorted(set(offsets)), what
        left = [name for name in names_of(contents(disk)) if name.count(".") > 1]
        assert not left, what
        # Again, from what is durable by now.
        assert replayed(everything(recovered(disk.power_cut()))) == self.said, what


def explore(case: Case, act: Callable[[SimulatedFiles, PartitionLog], None]) -> Explorer:
    files = SimulatedFiles()
    log = keyed_log(files, case.words)
    said = replayed(everything(log))
    explorer = Explorer(said, log.offset_next, seeded())
    explorer.watch(files)
    act(files, log)
    files.before_operation = None
    explorer.check(files.power_cut(), "at the end", 0)
    explorer.check(files.kill(), "at the end", 0)
    assert replayed(everything(log)) == said
    return explorer


@pytest.mark.parametrize("name", CASES)
def test_a_crash_before_every_operation_of_a_swap_changes_nothing_that_the_log_says(
    name: str,
) -> None:
    case = CASES[name]
    explorer = explore(case, lambda files, log: clean(files, log, case))
    assert explorer.states > 5


def logs_in(files: SimulatedFiles, ending: str) -> list[str]:
    """Logs in use (`.log`), or the files of another state."""
    return [name for name in files.list_folder(FOLDER) if name.endswith(ending)]


@pytest.mark.parametrize("name", CASES)
def test_each_step_of_a_swap_is_durable_before_the_next(name: str) -> None:
    case = CASES[name]
    files = SimulatedFiles()
    log = keyed_log(files, case.words)
    steps: list[str] = []

    def look(running: SimulatedFiles, operation: Operation) -> None:
        if operation.target is None:
            return
        step = operation.target.suffix
        after = running.power_cut()
        if step == ".deleted":
            assert logs_in(after, ".swap") == logs_in(running, ".swap")
            assert not logs_in(after, ".cleaned")
        elif operation.path.name.endswith(".log.swap"):
            assert logs_in(after, ".log") == logs_in(running, ".log")
        steps.append(step)

    files.before_operation = look
    clean(files, log, case)
    assert steps


def test_the_checkpoint_says_that_a_log_is_clean_only_when_it_is() -> None:
    files = SimulatedFiles()
    log = keyed_log(files, ["aab", "abc", "ca", "b"])
    checkpoint = CleanerCheckpoint(files, FOLDER.parent)
    found = LogToClean(
        topic_partition=log.topic_partition,
        first_dirty=0,
        checkpoint_was_reset=False,
        first_uncleanable=8,
        clean_bytes=0,
        cleanable_bytes=1,
        overdue_ms=0,
        is_dirty=True,
        horizon_is_due=False,
    )
    states: list[SimulatedFiles] = []
    random = seeded()

    def look(running: SimulatedFiles, _: Operation) -> None:
        states.extend([*running.crash_states(samples=4, random=random), running.kill()])

    files.before_operation = look
    offset_map = OffsetMap(240, load_factor=1.0, hash_key=bytes(16), bitmap_bytes_max=64)
    tools = CleanerTools(files=files, offset_map=offset_map, clock=ManualClock())
    clean_and_checkpoint(log, tools, found, checkpoint)
    states += [files.power_cut(), files.kill()]
    said = {
        (
            CleanerCheckpoint(state, FOLDER.parent).first_dirty(log.topic_partition),
            everything(recovered(state)) == everything(log),
        )
        for state in states
    }
    assert said == {(None, False), (None, True), (8, True)}


def test_what_is_cleaned_twice_says_the_same_after_a_crash_anywhere() -> None:
    first = Case(words=["kab", "Kab", "lka", "Lcb", "x"], groups=[(0, 6), (6, 12)])
    # Tombstones stay in the first round and go in the second.
    first = attrs.evolve(first, kept=[3, 7, 8, 9, 10, 11])
    second = attrs.evolve(first, groups=[(0, 12)], kept=[7, 8, 10, 11])

    def act(files: SimulatedFiles, log: PartitionLog) -> None:
        clean(files, log, first)
        clean(files, log, second)

    explore(first, act)


@pytest.mark.parametrize("count", [1, 3])
def test_a_crash_while_the_oldest_segments_go_leaves_all_above_the_log_start(count: int) -> None:
    words = ["aab", "abc", "ca", "b"]
    files = SimulatedFiles()
    log = keyed_log(files, words)
    log_start_offset = log.segments[count].base_offset
    log.raise_log_start_offset(log_start_offset)
    expected = [each for each in range(log.offset_next) if each >= log_start_offset]
    states: list[SimulatedFiles] = []
    random = seeded()

    def look(running: SimulatedFiles, _: Operation) -> None:
        states.extend(running.crash_states(samples=6, random=random))
        states.append(running.kill())

    files.before_operation = look
    delete_oldest(files, log, count)
    assert len(states) > 10
    for state in states:
        offsets = offsets_of(everything(recovered(state)))
        assert [each for each in offsets if each >= log_start_offset] == expected


# Kafka's testRecoveryAfterCrash


def swapped_files() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The files of a group before a swap and those after it, by suffix and base offset."""
    files = SimulatedFiles()
    log = keyed_log(files, ["aab", "abc", "ca", "b"])
    log.close()
    before = contents(files)
    clean(files, log, Case(words=[], groups=[(0, 8)]))
    after = contents(files)
    return before, {name: after[name] for name in after if name != SEGMENT_LIST_NAME}


OLD, NEW = swapped_files()
REPLACED = [name for name in OLD if name[:20] in {f"{base:020d}" for base in (0, 3, 6)}]
CLEANED = [name for name in NEW if name.startswith(f"{0:020d}")]
LEFT_ALONE = {name: OLD[name] for name in OLD if name not in REPLACED}


def old(state: str = "", *, names: Sequence[str] = tuple(REPLACED)) -> dict[str, bytes]:
    return {name + state: OLD[name] for name in names}


def new(state: str = "", *, names: Sequence[str] = tuple(CLEANED)) -> dict[str, bytes]:
    return {name + state: NEW[name] for name in names}


@pytest.mark.parametrize(
    ("found", "is_cleaned"),
    [
        # 1. The cleaned files are there, none of them renamed.
        (old() | new(".cleaned"), False),
        # 2. Some of them are `.swap`.
        (old() | new(".cleaned", names=CLEANED[1:]) | new(".swap", names=CLEANED[:1]), False),
        (old() | new(".cleaned", names=CLEANED[:1]) | new(".swap", names=CLEANED[1:]), False),
        # 3. All of them are, and the old ones are as they were.
        (old() | new(".swap"), True),
        # 4. The old ones are `.deleted`, or some of them are.
        (old(".deleted") | new(".swap"), True),
        (
            old(names=REPLACED[2:]) | old(".deleted", names=REPLACED[:2]) | new(".swap"),
            True,
        ),
        # 5. Some of the new ones have their final names.
        (old(".deleted") | new(".swap", names=CLEANED[1:]) | new(names=CLEANED[:1]), True),
        (old(".deleted") | new(".swap", names=CLEANED[:1]) | new(names=CLEANED[1:]), True),
        # 6. All of them have, and the old ones are not removed yet.
        (old(".deleted") | new(), True),
    ],
)
def test_each_of_kafkas_points_of_a_crash_is_recovered_from(
    found: Mapping[str, bytes], is_cleaned: bool
) -> None:
    files = SimulatedFiles()
    for name, content in (LEFT_ALONE | found).items():
        files.put_durable(FOLDER / name, content)
    log = recovered(files)
    expected = [0, 8] if is_cleaned else [0, 3, 6, 8]
    assert bases(log) == expected
    log.sync()
    log.close()
    assert contents(files) == (NEW if is_cleaned else OLD)
    # And it can be cleaned: again, or for the first time.
    again = recovered(files)
    again.sync()
    clean(files, again, Case(words=[], groups=[(0, 8)]))
    assert offsets_of(everything(again)) == [*offsets_of(NEW[segment_path(FOLDER, 0).name]), 8]
    assert again.config == CONFIG
