"""What may be written to a shard's log, drawn: by clients, and by a broker before us."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from hypothesis import strategies as st
from offsetd_coordinator.expiry.expiry_rules import ExpiryBase, ExpiryTerms
from offsetd_coordinator.expiry.expiry_sweep import SliceLimits
from offsetd_coordinator.requests import (
    AcquireGroup,
    DeleteGroup,
    DeleteOffsets,
    ReleaseGroup,
    UpdateGroup,
)
from offsetd_storage.batch.compression import Compression
from offsetd_storage.offsets_topic.schemas.group_settings import OWN_OFFSET, GroupSettings, Lease
from shards import (
    batch_of,
    commit,
    consumer_group_key,
    end_of_transaction,
    entry,
    group_key,
    offset_key,
    offset_value,
    settings_key,
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
GROUP_SETTINGS = [
    GroupSettings(never_expires=True).encode(),
    GroupSettings(
        retention_ms=5, lease=Lease(holder="c", epoch=OWN_OFFSET, granted_ms=7, ttl_ms=1000)
    ).encode(),
]
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

    def expire(self, terms: ExpiryTerms, limits: SliceLimits) -> None:
        """A whole sweep, now."""

    def append(self, make: Callable[..., bytes], *arguments: Any, **more: Any) -> None:
        """What a broker wrote before us."""


Step = Callable[[ShardLog], None]

groups = st.sampled_from(GROUPS)
partitions = st.tuples(st.sampled_from(TOPICS), st.sampled_from(PARTITIONS))
metadata = st.sampled_from([b"", b"host-7", "größe".encode(), b"m" * 300])
request_ids = st.integers(0, 4).map(lambda number: b"%d" % number)
epochs = st.integers(0, 12)  # Log offsets: some are those of leases.
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
    request = commit(
        draw(groups),
        *entries,
        request_id=draw(request_ids | st.just(b"")),
        epoch=draw(st.just(-1) | epochs),
        retention_ms=draw(st.sampled_from([-1, -1, 1, 10**9])),
    )
    return lambda log: log.ask(request)


@st.composite
def group_changes(draw: st.DrawFn) -> Step:
    group_id, request_id = draw(groups).encode(), draw(request_ids | st.just(b""))
    kind = draw(st.sampled_from(["acquire", "acquire", "release", "update"]))
    request: Request
    if kind == "acquire":
        request = AcquireGroup(
            group_id=group_id,
            holder=draw(st.sampled_from(["a", "b"])),
            ttl_ms=1000,
            force=draw(st.booleans()),
            request_id=request_id,
        )
    elif kind == "release":
        request = ReleaseGroup(group_id=group_id, epoch=draw(epochs), request_id=request_id)
    else:
        retention_ms = draw(st.sampled_from([None, 1, 1000]))
        request = UpdateGroup(
            group_id=group_id,
            retention_ms=retention_ms,
            never_expires=retention_ms is None and draw(st.booleans()),
            allow_missing=draw(st.booleans()),
            request_id=request_id,
        )
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
    settings_records = st.tuples(
        groups.map(settings_key), st.sampled_from([*GROUP_SETTINGS, UNREADABLE, None])
    )
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
            st.one_of(offset_records, group_records, consumer_records, settings_records, unknown),
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


@st.composite
def sweeps(draw: st.DrawFn) -> Step:
    terms = ExpiryTerms(
        retention_ms=draw(st.sampled_from([0, 0, 1, 60_000, None])),
        base=draw(st.sampled_from(ExpiryBase)),
    )
    limits = draw(
        st.sampled_from([SliceLimits(), SliceLimits(rows=2, groups=2, expired_groups=1, offsets=1)])
    )
    return lambda log: log.expire(terms, limits)


any_step = st.one_of(
    commits(), commits(), group_changes(), deletions(), broker_batches(),
    transactional_batches(), ends_of_transactions(), sweeps(),
)  # fmt: skip
steps = st.lists(any_step, min_size=1, max_size=40)
