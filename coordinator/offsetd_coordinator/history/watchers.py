"""Watchers: they receive the changes of log partitions after a position, once durable.

A watcher reads the log by positions of its own, up to the durable end. So it gets each change
exactly once, and even a slow one holds at most one stretch of the log. Watchers at the same
position share one read. Commits never wait for watchers.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_coordinator.errors import (
    InvalidRequest,
    LogPartitionQuarantined,
    OffsetOutOfRange,
)
from offsetd_coordinator.history.history_errors import HistoryCompacted, TooManyWatchers
from offsetd_coordinator.history.offset_events import next_stretch
from offsetd_coordinator.history.offset_history import durable_log, reading
from offsetd_coordinator.wire.varints import decode_varints, encode_varint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_coordinator.history.offset_events import Change, Stretch
    from offsetd_coordinator.runtime.runtime import Runtime

STRETCH_BYTES: Final = 1 << 16
_STRETCHES_MAX: Final = 64  # About 100 bytes of log become a change of half a KiB.
_WAKE_SECONDS: Final = 0.005  # Several flushes in this time wake watchers once.
_TOKEN_VERSION: Final = 1
_DIGEST_BYTES: Final = 8


@attrs.frozen(kw_only=True)
class Filter:
    """A filter of changes. Empty fields match everything. Groups match by id or by prefix."""

    group_ids: frozenset[bytes] = frozenset()
    prefix: bytes = b""
    topics: frozenset[bytes] = frozenset()

    def takes(self, change: Change) -> bool:
        """Whether the filter accepts a change."""
        if self.topics and change.topic not in self.topics:
            return False
        if change.group_id in self.group_ids:
            return True
        if self.prefix:
            return change.group_id.startswith(self.prefix)
        return not self.group_ids

    @property
    def only_group_id(self) -> bytes | None:
        """The only watched group, if there is exactly one."""
        if len(self.group_ids) == 1 and not self.prefix:
            return next(iter(self.group_ids))
        return None

    def digest(self, folder_id: str) -> bytes:
        """A digest that differs between filters and between folders."""
        parts = [
            folder_id.encode(),
            self.prefix,
            b"".join(_framed(each) for each in sorted(self.group_ids)),
            b"".join(_framed(each) for each in sorted(self.topics)),
        ]
        return hashlib.sha256(b"".join(map(_framed, parts))).digest()[:_DIGEST_BYTES]


def encode_token(positions: Mapping[int, int], digest: bytes) -> str:
    """A token: for each log partition, the log offset at which to continue."""
    encoded = bytearray([_TOKEN_VERSION]) + digest
    for partition, position in sorted(positions.items()):
        encoded += encode_varint(partition) + encode_varint(position)
    return base64.urlsafe_b64encode(encoded).rstrip(b"=").decode()


def decode_token(token: str, digest: bytes, field: str = "token") -> dict[int, int]:
    """The positions in the token of a request's field. Raises InvalidRequest."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        numbers = list(decode_varints(raw[1 + _DIGEST_BYTES :]))
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(field, "not one that a server made") from error
    if raw[:1] != bytes([_TOKEN_VERSION]) or len(numbers) % 2:
        raise InvalidRequest(field, "not one that this server's version makes")
    if raw[1 : 1 + _DIGEST_BYTES] != digest:
        raise InvalidRequest(field, "made for other groups or topics, or on another data folder")
    return dict(zip(numbers[::2], numbers[1::2], strict=True))


class Watchers:
    """All watchers of one runtime. For the event loop's thread."""

    def __init__(self, runtime: Runtime, folder_id: str) -> None:
        self.runtime = runtime
        self.folder_id = folder_id
        self._watchers: set[Watcher] = set()
        self._is_waking = False
        # Oldest first.
        self._stretches: OrderedDict[tuple[object, ...], asyncio.Task[Stretch]] = OrderedDict()

    @property
    def count(self) -> int:
        """The number of watchers."""
        return len(self._watchers)

    def add(self, watcher: Watcher, watchers_max: int) -> None:
        """Registers a watcher, and wakes it when more is durable. Raises TooManyWatchers."""
        if len(self._watchers) >= watchers_max:
            raise TooManyWatchers(
                "there are {watchers_max} watchers already", watchers_max=watchers_max
            )
        self._watchers.add(watcher)
        self.runtime.log.on_durable = self._wake_soon

    def remove(self, watcher: Watcher) -> None:
        """Removes a watcher."""
        self._watchers.discard(watcher)
        if not self._watchers:
            self.runtime.log.on_durable = None
            self._stretches.clear()

    def _wake_soon(self) -> None:
        if not self._is_waking:
            self._is_waking = True
            asyncio.get_running_loop().call_later(_WAKE_SECONDS, self._wake)

    def _wake(self) -> None:
        self._is_waking = False
        for watcher in self._watchers:
            watcher.wake()

    async def stretch(
        self, partition: int, position: int, end: int, group_id: bytes | None
    ) -> Stretch:
        """The stretch after a position. Raises HistoryCompacted and the errors of `durable_log`."""
        log, _ = durable_log(self.runtime, partition)
        key = (partition, position, end, group_id)
        task = self._stretches.get(key)
        if task is None:
            read = reading(next_stretch, log, position, end, group_id, chunk_bytes=STRETCH_BYTES)
            task = asyncio.ensure_future(read)
            task.add_done_callback(_retrieved)
            self._stretches[key] = task
            if len(self._stretches) > _STRETCHES_MAX:
                self._stretches.popitem(last=False)
        try:
            stretch = await asyncio.shield(task)
        except Exception:
            self._stretches.pop(key, None)
            raise
        # The cached stretch does not change, but cleaning may have removed its records since then.
        oldest = log.gapless_from
        if position < oldest:
            raise HistoryCompacted("the log has been cleaned", oldest_revision=oldest)
        return stretch


@attrs.define(eq=False)
class Watcher:
    """One call: its filter, its positions, and where it ends (`until`; None if it has no end)."""

    watchers: Watchers
    filter: Filter
    positions: dict[int, int] = attrs.field(factory=dict)
    until: dict[int, int] | None = None
    unreachable: list[int] = attrs.field(factory=list)
    _woken: asyncio.Event = attrs.field(factory=asyncio.Event)
    _digest: bytes = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._digest = self.filter.digest(self.watchers.folder_id)

    def concerned(self) -> list[int]:
        """All log partitions with watched groups, on this node or not, in ascending order."""
        runtime, groups = self.watchers.runtime, self.filter.group_ids
        if groups and not self.filter.prefix:
            return sorted({runtime.partition_of(each) for each in groups})
        return list(range(runtime.partitions))

    def begin(
        self,
        partitions: Sequence[int],
        token: str,
        *,
        from_oldest: bool,
        until_token: str = "",
    ) -> None:
        """Sets the start positions: those of a token, or the oldest ones, or the logs' ends.

        `partitions` are those of `concerned` that this node watches. With `until_token`, the
        watcher ends there. Raises InvalidRequest, HistoryCompacted, OffsetOutOfRange,
        LogPartitionQuarantined, StorageUnavailable.
        """
        runtime = self.watchers.runtime
        known = decode_token(token, self._digest) if token else {}
        until = decode_token(until_token, self._digest, "until_token") if until_token else {}
        self.until = until if until_token else None
        is_alone = len(self.concerned()) == 1
        for partition in partitions:
            try:
                log, end = durable_log(runtime, partition)
            except LogPartitionQuarantined:
                # A call with an end must send all changes up to its end.
                if is_alone or until.get(partition, 0) > known.get(partition, 0):
                    raise
                self.unreachable.append(partition)
                if partition in known:  # Keep the position: the partition may be repaired later.
                    self.positions[partition] = known[partition]
                continue
            position = known.get(partition, log.gapless_from if from_oldest else end)
            farthest = max(position, until.get(partition, 0))
            if farthest > end:
                raise OffsetOutOfRange(
                    "log partition {log_partition} ends at {log_end_offset}, below the token's "
                    "{offset}",
                    log_partition=partition,
                    log_end_offset=end,
                    offset=farthest,
                )
            self.positions[partition] = position
        for partition in self.reachable:
            log, _ = durable_log(runtime, partition)
            if self.positions[partition] < log.gapless_from:
                raise self._compacted(partition, log.gapless_from)

    @property
    def token(self) -> str:
        """The token of the current positions."""
        return encode_token(self.positions, self._digest)

    def wake(self) -> None:
        """Wakes the watcher: there may be something to read, or it has to end."""
        self._woken.set()

    async def wait(self, seconds: float) -> bool:
        """Waits for `wake` for at most this time. Returns whether it was called."""
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def read(self, partition: int) -> tuple[list[Change], int]:
        """The next watched changes, and the position after them and any unwatched ones.

        Raises HistoryCompacted with the oldest token, LogPartitionQuarantined, StorageUnavailable.
        """
        position = self.positions[partition]
        _, end = durable_log(self.watchers.runtime, partition)
        until = end if self.until is None else self.until.get(partition, position)
        if position >= min(end, until):
            return [], position
        try:
            stretch = await self.watchers.stretch(
                partition, position, end, self.filter.only_group_id
            )
        except HistoryCompacted as error:
            raise self._compacted(partition, error.oldest_revision) from error
        wanted = [each for each in stretch.changes if self.filter.takes(each)]
        if stretch.offset_next <= until:
            return wanted, stretch.offset_next
        # A token may lie within a batch.
        return [each for each in wanted if each.log_offset < until], until

    def _compacted(self, partition: int, oldest: int) -> HistoryCompacted:
        return HistoryCompacted(
            "events of log partition {log_partition} may be cleaned away",
            oldest_revision=oldest,
            tokens={"oldest_token": self._oldest_token()},
            log_partition=partition,
        )

    def _oldest_token(self) -> str:
        """A token from which nothing is missing: the current position, or the end of the gap."""
        positions = dict(self.positions)
        for partition in positions.keys() - set(self.unreachable):
            log, _ = durable_log(self.watchers.runtime, partition)
            positions[partition] = max(positions[partition], log.gapless_from)
        return encode_token(positions, self._digest)

    @property
    def reachable(self) -> list[int]:
        """The log partitions that can be read."""
        return [each for each in self.positions if each not in self.unreachable]


def _retrieved(task: asyncio.Task[Stretch]) -> None:
    """Retrieves a failure that no call waits for, so that it is not logged as a defect."""
    if not task.cancelled():
        task.exception()


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(4) + part
