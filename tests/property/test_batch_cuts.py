"""Records come to the same in one batch as in a batch each: nothing is kept of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st
from offsetd_storage.batch.record_batch import Record, encode_batch
from shards import (
    COLLIDING_SEEDS,
    NOW_MS,
    new_shard,
    offset_key,
    offset_value,
    replay,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetd_coordinator.shard.shard import Shard

NAMES = st.sampled_from(["a", "b", "t", "ab", "größe", "x" * 30, "y" * 300])
# A value; None is a tombstone, and bytes something that no value is.
VALUES = st.one_of(st.integers(0, 9), st.none(), st.just(b"\0\x63bad"))


class Drawn(NamedTuple):
    """A record of an offset, as it is drawn."""

    group: str
    topic: str
    value: int | bytes | None
    partition: int = 0
    key_version: int = 1  # Those of version 0 are not the kernel's.

    def record(self, offset: int) -> Record:
        key = offset_key(self.group, self.topic, self.partition, version=self.key_version)
        value = self.value
        if isinstance(value, int):
            value = offset_value(value, metadata="m" * (value * 70))
        return Record(key=key, value=value, offset=offset, timestamp_ms=NOW_MS)


DRAWN = st.builds(
    Drawn,
    group=NAMES,
    topic=NAMES,
    value=VALUES,
    partition=st.integers(0, 1),
    key_version=st.sampled_from([1, 1, 1, 0]),
)


def pending_record() -> Record:
    """Of a transaction that stays open: tombstones of its group are not the kernel's."""
    return Drawn("a", "pending", 1).record(0)


def replayed_in(
    shard: Shard, records: Sequence[Record], batch_records: int, *, has_transaction: bool
) -> Shard:
    if has_transaction:
        pending = encode_batch(
            [pending_record()],
            base_offset=0,
            is_transactional=True,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
        )
        replay(shard, pending)
    for first in range(0, len(records), batch_records):
        some = records[first : first + batch_records]
        replay(shard, encode_batch(some, base_offset=some[0].offset))
    return shard


@example(
    drawn=[Drawn("a", "t", 1), Drawn("a", "t", None), Drawn("a", "t", 2), Drawn("b", "u", 3)],
    collide=False,
    has_transaction=False,
)
@example(
    drawn=[
        Drawn("a", "t", 1),
        Drawn("a", "t", None, key_version=0),
        Drawn("a", "t", 2),
        Drawn("b", "u", 3),
    ],
    collide=False,
    has_transaction=False,
)
@example(
    drawn=[Drawn("a", "t", 1), Drawn("a", "t", None), Drawn("b", "u", 2), Drawn("a", "t", 3)],
    collide=False,
    has_transaction=True,
)
@given(
    drawn=st.lists(DRAWN, min_size=1, max_size=60),
    collide=st.booleans(),
    has_transaction=st.booleans(),
)
def test_records_come_to_the_same_in_one_batch_as_in_a_batch_each(
    drawn: list[Drawn], collide: bool, has_transaction: bool
) -> None:
    config: dict[str, object] = {"hash_seeds": COLLIDING_SEEDS} if collide else {}
    records = [each.record(1 + place) for place, each in enumerate(drawn)]
    in_one, in_many = (
        replayed_in(new_shard(**config), records, batch_records, has_transaction=has_transaction)
        for batch_records in (len(records), 1)
    )
    assert state_of(in_one) == state_of(in_many)
