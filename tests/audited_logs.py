"""A log of `__consumer_offsets` written by hand, record by record, and plain figures of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_storage.batch.record_batch import Record, encode_batch
from offsetd_storage.offsets_topic.schemas.keys import OffsetKey, encode_key
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any


class WrittenLog:
    """Records in batches of their own, uncompressed."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.rolls: list[int] = [0]  # Which batches segments begin with.

    @property
    def offset_next(self) -> int:
        return len(self.batches)

    def put(self, key: bytes | None, value: bytes | None, time_ms: int, **of_batch: Any) -> int:
        """Appends a record; returns its batch's bytes."""
        offset = self.offset_next
        record = Record(key=key, value=value, offset=offset, timestamp_ms=time_ms)
        self.batches.append(encode_batch([record], base_offset=offset, **of_batch))
        return len(self.batches[-1])

    def commit(
        self,
        group: str,
        offset: int,
        time_ms: int,
        *,
        topic: str = "t",
        partition: int = 0,
        **of_batch: Any,
    ) -> int:
        """Appends a commit; returns its batch's bytes."""
        key = encode_key(OffsetKey(group=group, topic=topic, partition=partition))
        value = OffsetCommitValue(
            offset=offset, leader_epoch=-1, metadata="", commit_timestamp_ms=time_ms
        )
        return self.put(key, value.encode(3), time_ms, **of_batch)

    def delete(
        self,
        group: str,
        time_ms: int,
        *,
        topic: str = "t",
        partition: int = 0,
        **of_batch: Any,
    ) -> int:
        """Appends the tombstone of an offset."""
        key = encode_key(OffsetKey(group=group, topic=topic, partition=partition))
        return self.put(key, None, time_ms, **of_batch)

    def roll(self) -> None:
        """What follows is in another segment."""
        self.rolls.append(len(self.batches))

    def write(self, folder: Path, *, partition: int = 0) -> None:
        """As a broker's folder has it."""
        log = folder / f"__consumer_offsets-{partition}"
        log.mkdir(parents=True)
        for begin, end in zip(self.rolls, [*self.rolls[1:], None], strict=True):
            (log / f"{begin:020d}.log").write_bytes(b"".join(self.batches[begin:end]))
