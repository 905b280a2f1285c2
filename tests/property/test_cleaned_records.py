"""What map and filter leave of drawn logs, against the reference of Kafka's rules."""

from __future__ import annotations

import attrs
import hypothesis.strategies as st
import pytest
from cleaning import HASH_KEY, no_throttle
from compaction.cases import SHAPES, drawn
from compaction.comparison import batch_difference
from compaction.logs import CleanerSettings
from compaction.reference import clean
from hypothesis import event, given, note
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.cleaner.cleaned_transactions import CleanedTransactions, read_producers
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from offsetd_storage.cleaner.segment_chunks import SegmentChunks
from offsetd_storage.cleaner.segment_filter import KeepRules, KeepStats, filter_segment
from offsetd_storage.disk.simulated_files import SimulatedFiles
from partition_logs import FOLDER, GOLDEN, GOLDEN_PARTITIONS, NOW_MS

pytestmark = pytest.mark.kernel


@attrs.frozen(kw_only=True)
class Memory:
    """What must make no difference."""

    bitmap_bytes_max: int
    chunk_bytes: int


MEMORIES = st.builds(
    Memory,
    bitmap_bytes_max=st.sampled_from((0, 1, 2, 8, 1 << 20)),
    chunk_bytes=st.sampled_from((61, 100, 1000, 1 << 20)),
)


def sources(segments: dict[int, bytes], end: int) -> list[SegmentChunks]:
    """Those that begin below `end`."""
    files = SimulatedFiles()
    files.make_folder(FOLDER)
    bases = [base for base in segments if base < end]
    found = []
    for base, offset_next in zip(bases, [*bases[1:], end], strict=True):
        file = files.open(FOLDER / f"{base}.log", create=True)
        file.pwrite([segments[base]], 0)
        found.append(
            SegmentChunks(
                file=file,
                size_bytes=len(segments[base]),
                base_offset=base,
                offset_next=offset_next,
            )
        )
    return found


def cleaned(
    segments: dict[int, bytes],
    memory: Memory,
    settings: CleanerSettings,
    *,
    first_dirty: int,
    first_uncleanable: int,
    now_ms: int,
) -> tuple[bytes, int, KeepStats]:
    """What is left of the segments that the map reaches, where it ends, and the figures."""
    source = sources(segments, first_uncleanable)
    history = read_producers(sources(segments, 2**62))
    offset_map = OffsetMap(
        settings.map_slots * SLOT_BYTES,
        load_factor=settings.map_load_factor,
        hash_key=HASH_KEY,
        bitmap_bytes_max=memory.bitmap_bytes_max,
    )
    mapped = offset_map.build(
        [each for each in source if each.offset_next > first_dirty],
        first_dirty=first_dirty,
        first_uncleanable=first_uncleanable,
        aborted=history.aborted,
        throttle=no_throttle,
        chunk_bytes=memory.chunk_bytes,
    )
    transactions = CleanedTransactions(history.aborted)
    rules = KeepRules(
        now_ms=now_ms,
        delete_retention_ms=settings.delete_retention_ms,
        first_uncleanable=first_uncleanable,
        last_records=history.active(now_ms=now_ms, expiration_ms=settings.producer_expiration_ms),
    )
    written: list[bytes] = []
    stats = KeepStats()
    for each in source:
        if each.base_offset < mapped.offset_next:
            stats += filter_segment(
                each,
                offset_map,
                mapped,
                transactions,
                rules,
                lambda batches: written.append(batches.tobytes()),
                throttle=no_throttle,
                chunk_bytes=memory.chunk_bytes,
            )
    return b"".join(written), mapped.offset_next, stats


@pytest.mark.parametrize("partition", GOLDEN_PARTITIONS)
def test_of_a_brokers_log_is_left_what_the_reference_leaves(partition):
    logs = sorted((GOLDEN / partition).glob("*.log"))
    segments = {int(log.stem): log.read_bytes() for log in logs}
    offset_next = list(decode_batches(b"".join(segments.values())))[-1].last_offset + 1
    segments[offset_next] = b""
    fields = {
        "first_dirty": min(segments),
        "first_uncleanable": offset_next,
        "settings": CleanerSettings(),
        "now_ms": NOW_MS,
    }
    memory = Memory(bitmap_bytes_max=1000, chunk_bytes=1000)
    theirs = clean(segments, **fields)
    ours, end, _ = cleaned(segments, memory, **fields)
    assert end == theirs.next_first_dirty
    assert batch_difference(b"".join(theirs.segments.values()), ours) is None


@pytest.mark.slow
@given(st.sampled_from(list(SHAPES)), st.integers(0, 2**32), MEMORIES)
def test_what_is_left_is_what_the_reference_leaves(shape, seed, memory):
    case = drawn(shape, SHAPES[shape], 0, seed)
    segments, first_dirty = case.segments, 0
    for number, each in enumerate(case.rounds):
        bases = list(segments)
        offset_next = 2**62
        stable = read_producers(sources(segments, offset_next)).last_stable_offset(offset_next)
        end = min(bases[-1] if each.end is None else each.end, stable)
        first_uncleanable = max((base for base in bases if base <= end), default=0)
        if first_uncleanable <= max(first_dirty, bases[0]):
            continue
        first_dirty = max(first_dirty, bases[0])
        fields = {
            "first_dirty": first_dirty,
            "first_uncleanable": first_uncleanable,
            "settings": case.settings,
            "now_ms": each.now_ms,
        }
        note(f"round {number}: {fields}")
        theirs = clean(segments, **fields)
        ours, offset_next, stats = cleaned(segments, memory, **fields)
        mapped = {base: left for base, left in segments.items() if base < offset_next}
        assert offset_next == theirs.next_first_dirty
        kept = b"".join(left for base, left in theirs.segments.items() if base < offset_next)
        assert batch_difference(kept, ours) is None
        assert stats.is_changed == (ours != b"".join(mapped.values()))
        assert stats.bytes_retained == len(ours)
        assert stats.bytes_read == sum(map(len, mapped.values()))
        event(f"changed: {stats.is_changed}")
        segments, first_dirty = theirs.segments, theirs.next_first_dirty
