"""What may be written to a shard's log, drawn: by clients, and by a broker before us."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from hypothesis import strategies as st
from offsetd_coordinator.requests import DeleteGroup, DeleteOffsets
from offsetd_storage.compression import Compression
from shards import (
    batch_of,
    commit,
    consumer_group_key,
    end_of_transaction,
    entry,
    group_key,
    offset_key,
    offset_value,
)

if TYPE_CHECKING:
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


class ShardLog(Protocol):
    """A shard that lives, and its log."""

    def ask(self, request: Request) -> None:
        """What a client asks; whatever is written is in the log."""

    def append(self, make: Callable[..., bytes], *arguments: Any, **more: Any) -> None:
        """What a broker wrote before us."""


Step = Callable[[ShardLog], None]

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
def commits(draw: st.DrawFn) -> Step:
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
def deletions(draw: st.DrawFn) -> Step:
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
def broker_batches(draw: st.DrawFn) -> Step:
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
def transactional_batches(draw: st.DrawFn) -> Step:
    records = draw(st.lists(transactional_records, min_size=1, max_size=4))
    producer_id = draw(st.sampled_from(PRODUCERS))
    return lambda log: log.append(
        batch_of, *records, producer_id=producer_id, producer_epoch=0, is_transactional=True
    )


@st.composite
def ends_of_transactions(draw: st.DrawFn) -> Step:
    producer_id, commits = draw(st.sampled_from(PRODUCERS)), draw(st.booleans())
    return lambda log: log.append(end_of_transaction, producer_id, commit=commits)


any_step = st.one_of(
    commits(), commits(), deletions(), broker_batches(), transactional_batches(),
    ends_of_transactions(),
)  # fmt: skip
steps = st.lists(any_step, min_size=1, max_size=40)
