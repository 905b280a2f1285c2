"""What two cleaners left of the same segments, compared."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import attrs
from compaction.examples import outline
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import RecordBatch, decode_batches

Segments = Mapping[int, bytes]  # Batches by base offset, in order.


def segments_in(folder: Path) -> dict[int, bytes]:
    """The segments of a partition's folder."""
    return {int(log.stem): log.read_bytes() for log in sorted(folder.glob("*.log"))}


def differences(before: Segments, theirs: Segments, ours: Segments) -> Iterator[str]:
    """Where our round on the segments `before` has not done as Kafka's.

    By our rules a group of segments with nothing to gain is not rewritten: where Kafka made one of
    it, ours may be those that were there, if they hold the very same bytes. And where nothing is
    left of a group, we leave no segment, where Kafka leaves an empty one.
    """
    bases = [*theirs, 2**63]
    for base, following in pairwise(bases):
        mine = _within(ours, base, following)
        if len(mine) > 1 and mine == _within(before, base, following):
            if b"".join(mine.values()) != theirs[base]:
                yield f"the group at {base} is left as it was, and Kafka's is not that"
        elif list(mine) != [base] and (mine or theirs[base]):
            yield f"ours has segments at {list(mine)} where Kafka's has one at {base}"
        else:
            found = batch_difference(theirs[base], mine.get(base, b""))
            if found:
                yield f"segment {base}: {found}"
    early = [base for base in ours if base < bases[0]]
    if early:
        yield f"ours has segments at {early}, before Kafka's first"


def batch_difference(theirs: bytes, ours: bytes) -> str | None:
    """The first batch in which two rows of batches differ."""
    if theirs == ours:
        return None
    kafkas, mine = list(decode_batches(theirs)), list(decode_batches(ours))
    for their, our in zip(kafkas, mine, strict=False):
        if not _are_equal(their, our):
            return f"Kafka's\n    {shown(their)}\n  and ours\n    {shown(our)}"
    if len(kafkas) > len(mine):
        return f"ours lacks {shown(kafkas[len(mine)])}"
    if len(mine) > len(kafkas):
        return f"Kafka's lacks {shown(mine[len(kafkas)])}"
    return None


def without_forgotten(theirs: bytes, ours: bytes, *, empty_before: bytes | None = None) -> bytes:
    """Kafka's batches but for the emptied markers that ours has not, if they were `empty_before`.

    Such a marker stays for what Kafka's memory holds of its producer. We know of producers what
    their batches say, as Kafka does after a crash; to both, an empty marker says nothing.
    """
    here = {batch.base_offset for batch in decode_batches(ours)}
    before = {
        batch.base_offset for batch in decode_batches(empty_before or theirs) if not batch.records
    }
    kept, position = [], 0
    for batch in decode_batches(theirs):
        end = position + batch.size_bytes
        is_forgotten = batch.is_control and not batch.records and batch.base_offset in before
        if not is_forgotten or batch.base_offset in here:
            kept.append(theirs[position:end])
        position = end
    return b"".join(kept)


def without_remembered(ours: bytes, theirs: bytes, *, before: bytes) -> bytes:
    """Our batches but for the emptied ones that Kafka has not, as it knew a newer epoch of them.

    They stay for the last sequence of their producer. That epoch is told by nothing but an empty
    marker, which was there `before`: see above.
    """
    there = {batch.base_offset for batch in decode_batches(theirs)}
    last_epochs: dict[int, int] = {}
    for batch in decode_batches(before):
        if batch.is_control and not batch.records:
            epoch = max(batch.producer_epoch, last_epochs.get(batch.producer_id, 0))
            last_epochs[batch.producer_id] = epoch
    kept, position = [], 0
    for batch in decode_batches(ours):
        end = position + batch.size_bytes
        is_of_old_epoch = batch.producer_epoch < last_epochs.get(batch.producer_id, 0)
        is_remembered = not batch.records and is_of_old_epoch
        if not is_remembered or batch.base_offset in there:
            kept.append(ours[position:end])
        position = end
    return b"".join(kept)


def marked_after_expiry(before: bytes, *, expired_ms: int) -> set[int]:
    """The producers whose last data is from before `expired_ms`, and that have a marker behind it.

    To Kafka such a producer has no data, if it was expired when the marker came, or when a restart
    read on behind the end of a segment. To us it has: see `without_emptied`.
    """
    last_data_ms: dict[int, int] = {}
    marked = set()
    for batch in decode_batches(before):
        if not batch.is_control:
            last_data_ms[batch.producer_id] = batch.max_timestamp_ms
            marked.discard(batch.producer_id)
        elif last_data_ms.get(batch.producer_id, expired_ms + 1) <= expired_ms:
            marked.add(batch.producer_id)
    return marked


def without_emptied(batches: bytes, producer_ids: set[int]) -> bytes:
    """Batches but for the emptied ones of these producers.

    The last data batch stays, emptied, of a producer that has data, and else its markers.
    """
    kept, position = [], 0
    for batch in decode_batches(batches):
        end = position + batch.size_bytes
        if batch.records or batch.producer_id not in producer_ids:
            kept.append(batches[position:end])
        position = end
    return b"".join(kept)


def aborted_batches(index: Sequence[Mapping[str, int]], log: bytes) -> list[list[int]]:
    """Of each transaction that an index says was aborted, the batches that are left in the log.

    By their offsets, the marker's last. An index that was made anew begins a transaction where its
    first batch is left, another where it began once; and it may lack one of which none is.
    """
    batches = [batch for batch in decode_batches(log) if batch.is_transactional]
    found = []
    for each in index:
        offsets = range(each["first_offset"], each["last_offset"])
        left = [
            batch.base_offset
            for batch in batches
            if batch.producer_id == each["producer_id"] and batch.base_offset in offsets
        ]
        if left:
            found.append([*left, each["last_offset"]])
    return found


def shown(batch: RecordBatch) -> str:
    """A batch for people to read."""
    header = (
        f"bytes={batch.size_bytes}"
        f" base_ts={batch.base_timestamp_ms} max_ts={batch.max_timestamp_ms}"
        f" attributes={batch.attributes:#b} leader_epoch={batch.partition_leader_epoch}"
        f" producer={batch.producer_id}/{batch.producer_epoch}/{batch.base_sequence}"
    )
    return f"{outline(batch)} | {header}"


def _are_equal(their: RecordBatch, our: RecordBatch) -> bool:
    if their.compression is Compression.NONE or our.compression is Compression.NONE:
        return their == our
    # Other code made the same records smaller.
    return their == attrs.evolve(our, size_bytes=their.size_bytes, crc=their.crc)


def _within(segments: Segments, base: int, following: int) -> dict[int, bytes]:
    return {each: batches for each, batches in segments.items() if base <= each < following}
