"""What a crash left in a partition's folder is finished or undone, in Kafka's order."""

from __future__ import annotations

import errno
from random import Random

import pytest
from offsetd_storage.disk.simulated_faults import Fault, Operation, OperationKind
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.recovery.swap_recovery import (
    SegmentFileName,
    apply_swaps,
    plan_swaps,
    sync_segments,
    unlink_orphans,
)
from partition_logs import FOLDER, batch_of, contents


def name(base_offset: int, suffix: str = ".log") -> str:
    return f"{base_offset:020d}{suffix}"


def batches(*base_offsets: int, count: int = 1) -> bytes:
    return b"".join(batch_of(base_offset, count=count) for base_offset in base_offsets)


OLD = {name(0): batches(0, 1, 2), name(3): batches(3, 4, 5), name(6): batches(6, 7)}
CLEANED = batches(1, 5)  # Of the first two.


def disk(held: dict[str, bytes]) -> SimulatedFiles:
    files = SimulatedFiles()
    for each, content in held.items():
        files.put_durable(FOLDER / each, content)
    return files


def settled(files: SimulatedFiles) -> dict[str, bytes]:
    before = contents(files)
    swap_plan = plan_swaps(files, FOLDER)
    assert contents(files) == before
    apply_swaps(files, FOLDER, swap_plan)
    after = contents(files)
    logs = [(each, int(each.removesuffix(".log"))) for each in after if each.endswith(".log")]
    assert {base: before[swap_plan.log_names[base]] for _, base in logs} == {
        base: after[each] for each, base in logs
    }
    return contents(files.power_cut())


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        (name(5), (5, ".log", "")),
        (name(5, ".timeindex.swap"), (5, ".timeindex", ".swap")),
        (name(5, ".txnindex.cleaned"), (5, ".txnindex", ".cleaned")),
        (name(5, ".log.deleted"), None),
        (name(5, ".snapshot"), None),
        ("5.log", None),
        ("leader-epoch-checkpoint", None),
    ],
)
def test_names_of_segment_files_are_told_from_others(
    text: str, parsed: tuple[int, str, str] | None
) -> None:
    found = SegmentFileName.parse(text)
    assert (None if found is None else (found.base_offset, found.suffix, found.state)) == parsed


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        ({}, OLD),
        ({name(0, ".log.deleted"): b"x", name(9, ".index.deleted"): b""}, OLD),
        ({name(0, ".log.cleaned"): CLEANED, name(0, ".index.cleaned"): b""}, OLD),
        # Renames go from the highest base down: where a `.cleaned` is left, swaps above it are not
        # all there.
        ({name(0, ".log.cleaned"): batches(1), name(3, ".log.swap"): batches(5)}, OLD),
        ({name(0, ".log.swap"): CLEANED, name(0, ".index.cleaned"): b""}, OLD),
        ({name(0, ".log.swap"): CLEANED}, {name(0): CLEANED, name(6): OLD[name(6)]}),
        (
            {
                name(0, ".log.swap"): CLEANED,
                name(0, ".timeindex.swap"): b"t",
                name(3, ".index"): b"",
            },
            {name(0): CLEANED, name(6): OLD[name(6)]},
        ),
        # A segment that was split into two.
        (
            {name(0, ".log.swap"): batches(0), name(1, ".log.swap"): batches(1, 2)},
            OLD | {name(0): batches(0), name(1): batches(1, 2)},
        ),
        ({name(6, ".log.swap"): b""}, OLD | {name(6): b""}),
        ({name(2, ".snapshot"): b"kept"}, OLD | {name(2, ".snapshot"): b"kept"}),
    ],
)
def test_each_state_is_settled(left: dict[str, bytes], expected: dict[str, bytes]) -> None:
    assert settled(disk(OLD | left)) == expected


def test_a_crash_anywhere_while_settling_ends_the_same() -> None:
    left = {
        name(0, ".log.swap"): CLEANED,
        name(0, ".index.swap"): b"",
        name(0, ".txnindex.swap"): b"new",
        name(0, ".txnindex"): b"old",
        name(9, ".log.deleted"): b"",
    }
    expected = {name(0): CLEANED, name(0, ".txnindex"): b"new", name(6): OLD[name(6)]}
    files = disk(OLD | left)
    states: list[SimulatedFiles] = []

    def look(running: SimulatedFiles, _: Operation) -> None:
        states.extend(running.crash_states(samples=4, random=Random(1)))

    files.before_operation = look
    apply_swaps(files, FOLDER, plan_swaps(files, FOLDER))
    assert len(states) > 10
    for state in states:
        assert settled(state) == expected


def test_a_swap_that_is_not_whole_is_damage_and_nothing_is_removed() -> None:
    files = disk(OLD | {name(0, ".log.swap"): CLEANED[:-1]})
    before = contents(files)
    with pytest.raises(DamageFound) as found:
        plan_swaps(files, FOLDER)
    assert found.value.base_offset == 0
    assert contents(files) == before


def test_index_files_without_a_log_go_apart_from_settling() -> None:
    orphans = {name(2, ".index"): b"x", name(2, ".timeindex"): b""}
    files = disk(OLD | orphans | {name(2, ".snapshot"): b"kept"})
    assert settled(files).keys() >= orphans.keys()
    unlink_orphans(files, FOLDER)
    assert contents(files.power_cut()) == OLD | {name(2, ".snapshot"): b"kept"}


def test_what_is_read_is_on_the_disk_first() -> None:
    files = disk({name(0): b"", name(0, ".index"): b""})
    file = files.open(FOLDER / name(0))
    file.pwrite([b"durable"], 0)
    lost = files.open(FOLDER / name(0, ".index"))
    lost.pwrite([b"lost"], 0)
    files.faults.append(Fault(errno=errno.EIO, kind=OperationKind.SYNC, path="*.index", nth=1))
    with pytest.raises(OSError, match="Input/output"):
        lost.sync()
    files = files.kill()
    assert contents(files)[name(0, ".index")] == b"lost", "the page cache shows it"
    sync_segments(files, FOLDER, drop_cache=True)
    assert contents(files) == contents(files.power_cut())
    assert contents(files)[name(0)] == b"durable"
