"""What recovery plans for one partition, by its bytes and by what was promised about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.journal.journal_format import RecoveryPoint
from offsetd_storage.kernels import padded_buffer
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.recovery.partition_plan import PartitionPlan
from offsetd_storage.recovery.partition_recovery import PartitionPlanner
from offsetd_storage.recovery.quarantine import Claim, Damage
from partition_logs import FOLDER, TOPIC_PARTITION, batch_of

FAR = 1 << 40  # Offsets do not fit 32 bits.
SIZE = len(batch_of(FAR, size_bytes=120))


def batches(start: int, count: int) -> bytes:
    return b"".join(batch_of(FAR + start + each, size_bytes=120) for each in range(count))


def bad(start: int) -> bytes:
    batch = bytearray(batches(start, 1))
    batch[-1] ^= 1
    return bytes(batch)


def plan(segments: dict[int, bytes], claim: Claim | None = None) -> PartitionPlan | Damage:
    files = SimulatedFiles()
    for start, content in segments.items():
        files.put_durable(segment_path(FOLDER, FAR + start), content)
    planner = PartitionPlanner(files, Path("/"), padded_buffer(4096))
    return planner.plan(TOPIC_PARTITION, claim, LogConfig())


def claim(
    offset: int,
    *,
    segment: int = 0,
    position: int = 0,
    journal: bytes = b"",
    closed_clean: bool = False,
) -> Claim:
    point = RecoveryPoint(
        topic_partition=TOPIC_PARTITION,
        offset=FAR + offset,
        journal_offset_next=FAR + offset,
        segment_base_offset=FAR + segment,
        segment_bytes=position,
        leader_epoch=0,
    )
    split = tuple(journal[start : start + SIZE] for start in range(0, len(journal), SIZE))
    return Claim(point=point, batches=split, closed_clean=closed_clean)


@pytest.mark.parametrize(
    ("segments", "end", "kept", "dropped", "bytes_cut"),
    [
        ({0: batches(0, 3)}, 3, [0], [], 0),
        ({0: batches(0, 3), 3: batches(3, 2)}, 5, [0, 3], [], 0),
        ({0: batches(0, 3), 7: b""}, 7, [0, 7], [], 0),  # Cleaning took what lay between.
        ({0: batches(0, 3) + bad(3)}, 3, [0], [], SIZE),
        ({0: batches(0, 3) + batches(3, 1)[:30]}, 3, [0], [], 30),
        ({0: batches(0, 3) + bytes(5000)}, 3, [0], [], 5000),
        ({0: batches(0, 3) + b"x", 4: b"", 5: b"torn too"}, 3, [0], [4, 5], 9),
        ({0: bad(0)}, 0, [0], [], SIZE),
    ],
)
def test_without_a_promise_only_a_torn_tail_is_cut(
    segments: dict[int, bytes], end: int, kept: list[int], dropped: list[int], bytes_cut: int
) -> None:
    made = plan(segments)
    assert isinstance(made, PartitionPlan)
    assert made.offset_next == FAR + end
    assert [base - FAR for base in made.scans] == kept
    assert [base - FAR for base in made.dropped] == dropped
    assert made.bytes_cut == bytes_cut


@pytest.mark.parametrize(
    ("segments", "segment", "position"),
    [
        ({0: batches(0, 2) + bad(2) + batches(3, 1)}, 0, 2 * SIZE),
        ({0: bad(0) + b"rubbish" + batches(1, 1)}, 0, 0),
        ({0: batches(0, 1) + bad(1), 2: batches(2, 1)}, 0, SIZE),
        ({0: batches(0, 1) + bad(1), 2: b"rubbish" + batches(3, 1)}, 0, SIZE),
        ({0: batches(0, 1) + bad(1), 2: b"", 3: batches(3, 1)}, 0, SIZE),
        ({0: batches(0, 2) + batches(0, 1)}, 0, 2 * SIZE),  # A batch again: no tear does that.
        ({0: batches(0, 3), 2: batches(2, 2)}, 2, 0),
    ],
)
def test_a_bad_batch_that_a_valid_one_follows_is_damage(
    segments: dict[int, bytes], segment: int, position: int
) -> None:
    damage = plan(segments)
    assert isinstance(damage, Damage)
    assert (damage.segment_base_offset, damage.position) == (FAR + segment, position)


@pytest.mark.parametrize(
    ("closed_at", "segments", "end"),
    [
        (3, {0: batches(0, 3)}, 3),
        (3, {0: batches(0, 3) + batches(3, 1)}, 4),  # A broker's.
        (3, {0: batches(0, 3) + bad(3)}, 3),  # A broker's, torn.
        (3, {0: batches(0, 2) + bad(2)}, None),
        (3, {0: batches(0, 2)}, None),
        (3, {}, None),
    ],
)
def test_a_log_that_was_closed_clean_reaches_as_far_as_then(
    closed_at: int, segments: dict[int, bytes], end: int | None
) -> None:
    made = plan(segments, claim(closed_at, closed_clean=True))
    if end is None:
        assert isinstance(made, Damage)
    else:
        assert isinstance(made, PartitionPlan)
        assert made.offset_next == FAR + end


@pytest.mark.parametrize(
    ("segments", "promise", "kept", "again"),
    [
        # The log ends at the recovery point, with or without something behind it.
        ({0: batches(0, 3)}, claim(3, position=3 * SIZE), {0: 3}, 0),
        ({0: batches(0, 4)}, claim(3, position=3 * SIZE), {0: 3}, 0),
        ({0: batches(0, 3) + b"x"}, claim(3, position=3 * SIZE), {0: 3}, 0),
        # What the journal holds is appended again, whatever of it the segment has.
        ({0: batches(0, 5)}, claim(3, position=3 * SIZE, journal=batches(3, 2)), {0: 3}, 2),
        ({0: batches(0, 3)}, claim(3, position=3 * SIZE, journal=batches(0, 5)), {0: 3}, 2),
        # Segments behind the point go.
        ({0: batches(0, 3), 3: batches(3, 1)}, claim(2, position=2 * SIZE), {0: 2}, 0),
        # The log rolled at the point: before the point was taken, or after.
        ({0: batches(0, 3), 3: batches(3, 1)}, claim(3, segment=3), {0: 3, 3: 0}, 0),
        ({0: batches(0, 3), 3: batches(3, 1)}, claim(3, position=3 * SIZE), {0: 3, 3: 0}, 0),
    ],
)
def test_after_a_crash_the_end_is_the_recovery_point_and_the_journal_goes_on_from_there(
    segments: dict[int, bytes], promise: Claim, kept: dict[int, int], again: int
) -> None:
    made = plan(segments, promise)
    assert isinstance(made, PartitionPlan), made
    assert made.offset_next == promise.point.offset
    assert {base - FAR: scan.batches for base, scan in made.scans.items()} == kept
    assert len(made.batches) == again


@pytest.mark.parametrize(
    ("segments", "promise", "reason"),
    [
        ({0: batches(0, 1) + bad(1) + batches(2, 1)}, claim(3, position=3 * SIZE), "damaged"),
        ({0: batches(0, 2) + bad(2)}, claim(3, position=3 * SIZE), "damaged"),
        ({0: batches(0, 2)}, claim(3, position=3 * SIZE), "ends before"),
        ({0: batches(0, 3)}, claim(3, position=3 * SIZE - 5), "damaged"),
        ({0: batches(0, 3)}, claim(2, position=3 * SIZE), "beyond the recovery point"),
        ({}, claim(3, position=3 * SIZE), "missing"),
        ({3: batches(3, 1)}, claim(2, position=2 * SIZE), "missing"),
        # The log rolled at the point; the segment that held it is gone, or is not as long.
        ({-9: batches(-9, 2), 3: b""}, claim(3, position=3 * SIZE), "missing"),
        ({0: batches(0, 2), 3: b""}, claim(3, position=3 * SIZE), "ends before"),
        ({0: batches(0, 2)}, claim(3, segment=2, position=SIZE), "missing"),
        ({0: batches(0, 3)}, claim(3, position=3 * SIZE, journal=batches(4, 1)), "not at"),
        (
            {0: batches(0, 3)},
            claim(3, position=3 * SIZE, journal=batches(3, 1) + batches(5, 1)),
            "not at",
        ),
    ],
)
def test_damage_below_the_recovery_point_and_holes_in_the_journal_are_found(
    segments: dict[int, bytes], promise: Claim, reason: str
) -> None:
    damage = plan(segments, promise)
    assert isinstance(damage, Damage)
    assert reason in damage.reason


def test_a_batch_of_the_journal_that_straddles_the_recovery_point_is_damage() -> None:
    straddling = batch_of(FAR + 2, count=3)
    promise = Claim(
        point=claim(3, position=3 * SIZE).point, batches=(straddling,), closed_clean=False
    )
    assert isinstance(plan({0: batches(0, 3)}, promise), Damage)


def test_a_partition_of_which_nothing_was_ever_durable_begins_with_the_journal() -> None:
    point = RecoveryPoint(
        topic_partition=TOPIC_PARTITION,
        offset=0,
        journal_offset_next=0,
        segment_base_offset=0,
        segment_bytes=0,
        leader_epoch=0,
    )
    made = plan({}, Claim(point=point, batches=(batch_of(0), batch_of(1)), closed_clean=False))
    assert isinstance(made, PartitionPlan)
    assert (made.offset_next, len(made.batches)) == (0, 2)


@pytest.mark.parametrize("epoch", [0, 4])
def test_the_leader_epochs_of_what_is_cut_are_told(epoch: int) -> None:
    theirs = batch_of(FAR + 3, leader_epoch=epoch)
    for segments in ({0: batches(0, 3) + theirs}, {0: batches(0, 3), 3: theirs}):
        made = plan(segments, claim(3, position=3 * SIZE))
        assert isinstance(made, PartitionPlan)
        assert made.leader_epoch_known == 0
        assert made.leader_epoch_cut == epoch or FAR + 3 in made.scans
