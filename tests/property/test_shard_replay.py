"""Live state equals a replay of the log, also of the log as any legal compaction leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
from offsetd_coordinator.requests import DeleteGroup, DeleteOffsets
from offsetd_storage.compression import Compression
from offsetd_storage.record_batch import RecordBatch, decode_batch, encode_batch
from shards import (
    COLLIDING_SEEDS,
    NOW_MS,
    ask,
    batch_of,
    commit,
    consumer_group_key,
    end_of_transaction,
    entry,
    group_key,
    new_shard,
    offset_key,
    offset_value,
    replay,
    replayed,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.requests import Request

GROUPS = ["g", "group-2", "группа", ""]
TOPICS = ["t", "orders", "g"]
PARTITIONS = [0, 1, 7]
PRODUCERS = [100, 101]
UNREADABLE = b"\0\x63"
EMPTY_CLASSIC = (
    bytes.fromhex("0003 0008")
    + b"consumer"
    + bytes.fromhex("00000001 ffff ffff 0000018bcfe56800 00000000")
)
CONSUMER_VALUES = {
    3: bytes.fromhex("0000 00000004 00"),
    5: bytes.fromhex("0000 00 00 01 01 01 00 00000000 00 00"),
    6: bytes.fromhex("0000 00000004 00"),
    7: bytes.fromhex("0000 01 00"),
    8: bytes.fromhex("0000 00000004 00000003 00 01 01 00"),
}


class Log:
    """A shard that lives, and the batches that were appended for it."""

    def __init__(self, message_bytes_max: int) -> None:
        self.shard = new_shard(message_bytes_max=message_bytes_max)
        self.batches: list[bytes] = []
        self.answered: list[tuple[Request, Any]] = []

    def ask(self, request: Request) -> None:
        """What a client asks; whatever is written is in the log."""
        decision = ask(self.shard, request)
        if decision.batch is not None:
            self.batches.append(decision.batch)
            self.answered.append((request, decision.reply))
        elif decision.batches:
            self.batches += [batch for batch, _ in decision.batches]
            self.answered.append((request, decision.reply))

    def append(self, make: Callable[..., bytes], *arguments: Any, **more: Any) -> None:
        """What a broker wrote before us."""
        batch = make(self.shard.offset_next, *arguments, **more)
        self.batches.append(batch)
        replay(self.shard, batch)


groups = st.sampled_from(GROUPS)
partitions = st.tuples(st.sampled_from(TOPICS), st.sampled_from(PARTITIONS))
metadata = st.sampled_from([b"", b"host-7", "größe".encode(), b"m" * 300])
request_ids = st.integers(0, 4).map(lambda number: b"%d" % number)
offset_keys = st.builds(lambda group, name: offset_key(group, *name), groups, partitions)
offset_values = st.just(UNREADABLE) | st.integers(0, 10**6).map(offset_value)
offset_records = st.tuples(offset_keys, st.none() | offset_values)
# Brokers write no tombstones in transactions. (They would act at once, even if it is aborted.)
transactional_records = st.tuples(offset_keys, offset_values)


@st.composite
def commits(draw: st.DrawFn) -> Callable[[Log], None]:
    chosen = draw(st.lists(partitions, min_size=1, max_size=5, unique=True))
    entries = [
        entry(
            topic,
            partition,
            draw(st.integers(0, 2**63 - 1)),
            leader_epoch=draw(st.sampled_from([-1, 0, 3])),
            metadata=draw(metadata),
            monotonic=draw(st.booleans()),
        )
        for topic, partition in chosen
    ]
    request = commit(draw(groups), *entries, request_id=draw(request_ids | st.just(b"")))
    return lambda log: log.ask(request)


@st.composite
def deletions(draw: st.DrawFn) -> Callable[[Log], None]:
    group_id = draw(groups).encode()
    if draw(st.booleans()):
        request: Request = DeleteGroup(group_id=group_id, request_id=draw(request_ids))
    else:
        named = draw(st.lists(partitions, min_size=1, max_size=3, unique=True))
        topics = draw(st.lists(st.sampled_from(TOPICS), max_size=1))
        request = DeleteOffsets(
            group_id=group_id,
            partitions=tuple((topic.encode(), partition) for topic, partition in named),
            topics=tuple(topic.encode() for topic in topics),
            request_id=draw(request_ids),
        )
    return lambda log: log.ask(request)


@st.composite
def broker_batches(draw: st.DrawFn) -> Callable[[Log], None]:
    group_values = st.sampled_from([EMPTY_CLASSIC, UNREADABLE, None])
    group_records = st.tuples(groups.map(group_key), group_values)
    consumer_records = st.tuples(
        groups, st.sampled_from(sorted(CONSUMER_VALUES)), st.booleans()
    ).map(
        lambda drawn: (
            consumer_group_key(
                drawn[0], drawn[1], **({"member_id": "m"} if drawn[1] in (5, 7, 8) else {})
            ),
            CONSUMER_VALUES[drawn[1]] if drawn[2] else None,
        )
    )
    unknown = st.just((b"\0\x0a\0\1g", b"value"))
    records = draw(
        st.lists(
            st.one_of(offset_records, group_records, consumer_records, unknown),
            min_size=1,
            max_size=4,
        )
    )
    codec = draw(st.sampled_from([Compression.NONE, Compression.NONE, Compression.SNAPPY]))
    return lambda log: log.append(batch_of, *records, compression=codec)


@st.composite
def transactional_batches(draw: st.DrawFn) -> Callable[[Log], None]:
    records = draw(st.lists(transactional_records, min_size=1, max_size=4))
    producer_id = draw(st.sampled_from(PRODUCERS))
    return lambda log: log.append(
        batch_of, *records, producer_id=producer_id, producer_epoch=0, is_transactional=True
    )


@st.composite
def ends_of_transactions(draw: st.DrawFn) -> Callable[[Log], None]:
    producer_id, commits = draw(st.sampled_from(PRODUCERS)), draw(st.booleans())
    return lambda log: log.append(end_of_transaction, producer_id, commit=commits)


steps = st.lists(
    st.one_of(
        commits(), commits(), deletions(), broker_batches(), transactional_batches(),
        ends_of_transactions(),
    ),
    min_size=1,
    max_size=40,
)  # fmt: skip


# Into the smaller go commits of one partition or two, and as many tombstones.
bytes_of_batches = st.sampled_from([200, 1_048_588])


def written(steps: list[Callable[[Log], None]], message_bytes_max: int) -> Log:
    log = Log(message_bytes_max)
    for step in steps:
        step(log)
    return log


@given(steps, bytes_of_batches)
def test_a_replay_of_the_log_is_the_live_state(
    steps: list[Callable[[Log], None]], message_bytes_max: int
) -> None:
    log = written(steps, message_bytes_max)
    restarted = replayed(*log.batches)
    assert state_of(restarted) == state_of(log.shard)
    assert state_of(replayed(*log.batches, hash_seeds=COLLIDING_SEEDS)) == state_of(log.shard)
    assert restarted.offset_next == log.shard.offset_next
    assert restarted.counters() == attrs.evolve(
        log.shard.counters(), table_bytes=restarted.counters().table_bytes
    )
    for request, reply in log.answered:
        if request.request_id:
            for shard in (log.shard, restarted):
                again = shard.decide(request, NOW_MS)
                assert (again.reply, again.refusal) == (reply, None)
                assert (again.batch, again.batches) == (None, ())


@given(steps, bytes_of_batches, st.data())
def test_any_legal_compaction_replays_to_the_same_state(
    steps: list[Callable[[Log], None]], message_bytes_max: int, data: st.DataObject
) -> None:
    log = written(steps, message_bytes_max)
    batches = [decode_batch(batch) for batch in log.batches]
    compacted = compact(batches, data.draw)
    restarted = replayed(*compacted)
    assert state_of(restarted) == state_of(log.shard)
    assert restarted.offset_next == log.shard.offset_next


def compact(batches: list[RecordBatch], draw: Callable[..., Any]) -> list[bytes]:
    """The log with superseded records taken out here and there, as the cleaner may leave it.

    Nothing at or above the first offset of an open transaction is touched; records of aborted
    transactions go as a whole; a tombstone may go once nothing before it has its key.
    """
    aborted, first_open = transactions(batches)
    cleanable = [
        (batch, record)
        for batch in batches
        if not batch.is_control and batch.last_offset < first_open
        for record in batch.records
    ]
    newest = {
        record.key: record.offset
        for batch, record in cleanable
        if batch.base_offset not in aborted and record.key is not None
    }
    dropped = set()
    kept_keys = set()
    for batch, record in cleanable:
        superseded = record.offset < newest.get(record.key, -1)
        needless = record.value is None and record.key not in kept_keys
        if batch.base_offset in aborted or ((superseded or needless) and draw(st.booleans())):
            dropped.add(record.offset)
        else:
            kept_keys.add(record.key)
    return [rewritten(batch, dropped) for batch in batches]


def transactions(batches: list[RecordBatch]) -> tuple[set[int], int]:
    """Base offsets of the batches of aborted transactions; where the first open one begins."""
    aborted: set[int] = set()
    open_batches: dict[int, list[RecordBatch]] = {}
    for batch in batches:
        if batch.is_control:
            ended = open_batches.pop(batch.producer_id, [])
            if batch.records[0].key == bytes(4):
                aborted.update(each.base_offset for each in ended)
        elif batch.is_transactional:
            open_batches.setdefault(batch.producer_id, []).append(batch)
    still_open = [each.base_offset for open_ in open_batches.values() for each in open_]
    return aborted, min(still_open, default=2**62)


def rewritten(batch: RecordBatch, dropped: set[int]) -> bytes:
    """The batch without the dropped records, with the offsets it had."""
    return encode_batch(
        [record for record in batch.records if record.offset not in dropped],
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        leader_epoch=batch.partition_leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        compression=batch.compression,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
    )
