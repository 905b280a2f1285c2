"""The state of a shard: the result of replaying its log's records, one by one.

A kernel replays committed offsets and stops at anything else: group records, transactions,
compressed batches, bytes that do not decode. Python code here handles these. Then the kernel
continues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from offsetd_storage.batch.compression import Compression, DecompressionFailed, decompress
from offsetd_storage.batch.record_batch import batch_header, decode_batch
from offsetd_storage.errors import CorruptBatch
from offsetd_storage.kernels import PADDING_BYTES, padded_copy
from offsetd_storage.kernels.decode import RECORD_BYTES_MIN
from offsetd_storage.kernels.encode import (
    ATTRIBUTES_AT,
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    COUNT_AT,
    LENGTH_EXCLUDES_BYTES,
)
from offsetd_storage.kernels.offset_records import METADATA_SIZE_MAX
from offsetd_storage.offsets_topic.group_records import GroupRecords
from offsetd_storage.offsets_topic.placement import partition_of
from offsetd_storage.offsets_topic.schemas.consumer_group import decode_consumer_group_value
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
from offsetd_storage.offsets_topic.schemas.keys import (
    ConsumerGroupKey,
    GroupKey,
    GroupSettingsKey,
    OffsetKey,
    UnknownKey,
    decode_key,
)
from offsetd_storage.offsets_topic.schemas.offset_commit import OffsetCommitValue
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.transaction_marker import (
    ControlType,
    decode_transaction_marker,
)

from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.records.replay import has_only_offsets, replay_batches
from offsetd_coordinator.kernels.records.tombstone_records import (
    DELETED_COLUMNS,
    GONE_COLUMNS,
    GROUP_AT,
    OFFSET_KEY_FIXED_BYTES,
    read_deletion,
)
from offsetd_coordinator.state.deletion_dedup import DeletedBatch, KnownDeletions
from offsetd_coordinator.state.offset_table import OffsetTable
from offsetd_coordinator.state.pending_transactions import PendingOffset, PendingOffsets
from offsetd_coordinator.state.settings_dedup import KnownChanges

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

    from offsetd_storage.batch.record_batch import BatchHeader, RecordBatch
    from offsetd_storage.offsets_topic.group_records import GroupRecordKey, GroupRecordValue

    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.state.pending_transactions import EndedTransaction, OffsetId


class ReplayedState:
    """Offsets, groups, open transactions and request ids of one partition."""

    def __init__(
        self,
        *,
        request_window_ms: int,
        request_ids_max: int,
        deletion_bytes_max: int,
        hash_seeds: tuple[int, int, int, int],
    ) -> None:
        self.offsets = OffsetTable(
            request_window_ms=request_window_ms,
            request_ids_max=request_ids_max,
            hash_seeds=hash_seeds,
        )
        self.pending = PendingOffsets()
        self.deletions = KnownDeletions(
            window_ms=request_window_ms, count_max=request_ids_max, bytes_max=deletion_bytes_max
        )
        self.changes = KnownChanges(window_ms=request_window_ms, count_max=request_ids_max)
        self.unknown_records = 0
        self.undecodable_records = 0
        self.nameless_records = 0  # Undecodable records whose group is unknown.
        self._groups: dict[bytes, GroupRecords] = {}
        # The keys of records that name offsets in other bytes than our keys (type 0, of brokers
        # before Kafka 0.9). A tombstone for our key does not delete them: they would reappear after
        # compaction has removed that tombstone. By group, then by topic and partition.
        self._other_keys: dict[bytes, dict[tuple[bytes, int], set[bytes]]] = {}
        self._cursor = np.zeros(columns.CURSOR_COLUMNS, np.int64)

    @property
    def offset_next(self) -> int:
        """The log offset after the last batch replayed."""
        return int(self.offsets.counters[columns.OFFSET_NEXT])

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the last batch replayed."""
        return int(self.offsets.counters[columns.LEADER_EPOCH])

    def end_load(self, *, offset_next: int, leader_epoch: int) -> None:
        """Sets the next offset to the log's end: compaction may have removed the last batches."""
        self.offsets.counters[columns.OFFSET_NEXT] = offset_next
        self.offsets.counters[columns.LEADER_EPOCH] = leader_epoch

    def replay(self, buffer: Bytes, start: int, end: int) -> None:
        """Replays whole batches of a padded buffer; see `Shard.replay`."""
        self._replay(buffer, start, end, self._cursor)

    def known_group_records(self, group_id: bytes) -> GroupRecords | None:
        """A group's records, or None if it has none."""
        return self._groups.get(group_id)

    @property
    def has_group_records(self) -> bool:
        """Returns whether any group has records of its own."""
        return bool(self._groups)

    def all_group_records(self) -> Iterator[GroupRecords]:
        """The records of each group that has any, in no order."""
        return iter(self._groups.values())

    def group_records(self, group_id: bytes) -> GroupRecords:
        """A group's records, which may be empty."""
        return self._groups.get(group_id) or GroupRecords(group_id)

    def has_group(self, group_id: bytes) -> bool:
        """Returns whether a group has a record of its own, or a stored or pending offset."""
        return (
            self.group_records(group_id).group_type is not None
            or self.offsets.count(group_id) > 0
            or bool(self.pending.partitions(group_id))
        )

    def recorded_group_ids(self) -> list[bytes]:
        """The groups that have any record, even if no group exists by it."""
        return list(self._groups)

    @property
    def group_count(self) -> int:
        """The number of groups."""
        return self.offsets.group_count + sum(1 for _ in self._groups_without_offsets())

    def _groups_without_offsets(self) -> Iterator[bytes]:
        recorded = {group_id for group_id, group in self._groups.items() if group.group_type}
        for group_id in recorded | self.pending.group_ids():
            if self.offsets.count(group_id) == 0:
                yield group_id

    def misplaced_groups(self, partition: int, partitions: int) -> list[bytes]:
        """The groups whose hash belongs to another partition."""
        return self.offsets.misplaced_groups(partition, partitions) + [
            group_id
            for group_id in self._groups_without_offsets()
            if partition_of(group_id.decode(), partitions) != partition
        ]

    def other_keys(
        self, group_id: bytes, partitions: AbstractSet[tuple[bytes, int]] | None = None
    ) -> list[bytes]:
        """The sorted keys in the log that name a group's offsets in another form than commits do.

        Without `partitions`, returns the keys of all partitions.
        """
        of_group = self._other_keys.get(group_id, {})
        named = of_group.keys() if partitions is None else of_group.keys() & partitions
        return sorted(key for partition in named for key in of_group[partition])

    def _replay(self, buffer: Bytes, start: int, end: int, cursor: Int64s) -> None:
        cursor[columns.BATCH_AT] = start
        cursor[columns.RECORD_AT] = 0
        self.replay_on(buffer, end, cursor)

    def replay_on(self, buffer: Bytes, end: int, cursor: Int64s) -> None:
        """Replays from the position of a cursor, to which a kernel may have moved it.

        The cursor must not be inside a batch that is not plain: the kernel must report that batch.
        """
        while True:
            stop = replay_batches(self.offsets.arrays, buffer, end, cursor)
            if stop == columns.DONE:
                return
            if stop == columns.NEEDS_ROOM:
                key_size, value_size = cursor[columns.KEY_SIZE], cursor[columns.VALUE_SIZE]
                self.offsets.make_room(int(key_size), int(value_size))
            elif stop == columns.NOT_PLAIN_RECORD:
                self._replay_record_at(buffer, cursor)
                cursor[columns.RECORD_AT] = cursor[columns.RECORD_END]
                cursor[columns.RECORDS_LEFT] -= 1
            elif stop == columns.BROKEN_BATCH:
                raise CorruptBatch("no whole batch", position=int(cursor[columns.BATCH_AT]))
            else:
                if stop == columns.MALFORMED_BATCH:
                    self._pass_over(int(cursor[columns.RECORDS_LEFT]))
                else:
                    self._replay_batch(
                        buffer, int(cursor[columns.BATCH_AT]), int(cursor[columns.BATCH_END])
                    )
                cursor[columns.RECORDS_LEFT] = 0

    def _replay_record_at(self, buffer: Bytes, cursor: Int64s) -> None:
        """Replays the record of a plain batch at which the kernel stopped."""
        batch_at = cursor[columns.BATCH_AT]
        if (
            cursor[columns.HEADER_COUNT] > 0
            and cursor[columns.RECORD_AT] == batch_at + BATCH_HEADER_BYTES
        ):
            self._note_deletion(buffer, int(batch_at), int(cursor[columns.BATCH_END]))
            self._note_change(buffer, int(batch_at), int(cursor[columns.BATCH_END]))
        self._replay_record(
            _span(buffer, cursor[columns.KEY_START], cursor[columns.KEY_SIZE]),
            _span(buffer, cursor[columns.VALUE_START], cursor[columns.VALUE_SIZE]),
            int(cursor[columns.RECORD_OFFSET]),
            None,
        )
        if cursor[columns.VALUE_SIZE] < 0 and self.offsets.counters[columns.OPEN_TRANSACTIONS]:
            self._note_settled_group(buffer, cursor)

    def _note_settled_group(self, buffer: Bytes, cursor: Int64s) -> None:
        """Allows the kernel to replay the tombstones of a group that has nothing pending.

        This is valid until the end of the batch.
        """
        key_start, key_size = int(cursor[columns.KEY_START]), int(cursor[columns.KEY_SIZE])
        if key_size >= OFFSET_KEY_FIXED_BYTES:
            start = key_start + GROUP_AT
            size = int.from_bytes(buffer[start - 2 : start].tobytes())
            if size <= key_size - GROUP_AT and not self.pending.partitions(
                buffer[start : start + size].tobytes()
            ):
                cursor[columns.SETTLED_START], cursor[columns.SETTLED_END] = start, start + size

    def _replay_batch(self, buffer: Bytes, start: int, end: int) -> None:
        """Replays a batch that is compressed, transactional or control."""
        encoded = buffer[start:end].tobytes()
        header = batch_header(encoded)
        if header.count == 0:
            return  # Compaction removed its records, and perhaps the end of its transaction.
        try:
            if header.is_control:
                self._replay_control(decode_batch(encoded, check_crc=False))
            elif not header.is_transactional:
                self._replay_plain(_plain(encoded, header))
            elif header.compression is Compression.NONE and has_only_offsets(buffer, start, end):
                self.pending.add_batch(header.producer_id, encoded)
            else:
                for record in decode_batch(encoded, check_crc=False).records:
                    self._replay_record(record.key, record.value, record.offset, header.producer_id)
        except (CorruptBatch, DecompressionFailed):
            self._pass_over(header.count)
        self.offsets.counters[columns.OPEN_TRANSACTIONS] = self.pending.producer_count

    def _replay_plain(self, batch: Bytes, *, is_merging: bool = False) -> None:
        """Replays one batch that `_plain` made, so that the kernel does not stop at it."""
        cursor = np.zeros(columns.CURSOR_COLUMNS, np.int64)
        cursor[columns.MERGING] = is_merging
        self._replay(batch, 0, batch.size - PADDING_BYTES, cursor)

    def _pass_over(self, record_count: int) -> None:
        """Counts records that cannot be read and whose group is unknown."""
        self.undecodable_records += record_count
        self.nameless_records += record_count

    def _replay_control(self, batch: RecordBatch) -> None:
        for record in batch.records:
            try:
                marker = decode_transaction_marker(record.key or b"", record.value)
            except UndecodableRecord:
                self._pass_over(1)
                continue
            if marker is not None:
                ended = self.pending.end(batch.producer_id)
                if marker.control_type is ControlType.COMMIT:
                    self._merge(ended)

    def _merge(self, ended: EndedTransaction) -> None:
        """Stores the offsets of a committed transaction, unless a newer offset is stored."""
        for encoded in ended.batches:
            self._replay_plain(_plain(encoded, batch_header(encoded)), is_merging=True)
        for offset_id, offset in ended.offsets.items():
            revision = self.offsets.revision_of(*offset_id)
            if revision is None or offset.revision > revision:
                self._store(offset_id, offset.value, offset.revision)

    def _replay_record(
        self, key: bytes | None, value: bytes | None, offset: int, producer_id: int | None
    ) -> None:
        """Replays one record. `producer_id` is that of its transaction, or None without one."""
        try:
            decoded = decode_key(key or b"")
        except UndecodableRecord:
            self._pass_over(1)
            return
        match decoded:
            case OffsetKey():
                offset_id = (decoded.group.encode(), decoded.topic.encode(), decoded.partition)
                names_bytes = len(offset_id[0]) + len(offset_id[1])
                if decoded.version != 1 or len(key or b"") != OFFSET_KEY_FIXED_BYTES + names_bytes:
                    self._note_other_key(offset_id, key or b"", is_tombstone=value is None)
                self._replay_offset(offset_id, value, offset, producer_id)
            case GroupKey() | ConsumerGroupKey() | GroupSettingsKey():
                self._replay_group_record(decoded, value, offset)
            case UnknownKey():
                self.unknown_records += 1

    def _replay_offset(
        self, offset_id: OffsetId, encoded: bytes | None, revision: int, producer_id: int | None
    ) -> None:
        if encoded is None:
            self.offsets.remove(*offset_id)
            self.pending.drop(offset_id)
            self.offsets.counters[columns.OPEN_TRANSACTIONS] = self.pending.producer_count
            return
        value: OffsetCommitValue | None = None
        try:
            value = OffsetCommitValue.decode(encoded)
        except UndecodableRecord:
            self.undecodable_records += 1
        if producer_id is None:
            self._store(offset_id, value, revision)
        else:
            self.pending.add(producer_id, offset_id, PendingOffset(revision=revision, value=value))

    def _store(self, offset_id: OffsetId, value: OffsetCommitValue | None, revision: int) -> None:
        metadata = b"" if value is None else value.metadata.encode()
        if value is None or len(metadata) > METADATA_SIZE_MAX:
            self.offsets.mark_undecodable(*offset_id, revision=revision)
            return
        self.offsets.store(
            *offset_id,
            revision=revision,
            offset=value.offset,
            leader_epoch=value.leader_epoch,
            metadata=metadata,
            commit_timestamp_ms=value.commit_timestamp_ms,
            expire_timestamp_ms=value.expire_timestamp_ms,
        )

    def _replay_group_record(self, key: GroupRecordKey, encoded: bytes | None, offset: int) -> None:
        group_id = key.group.encode()
        group = self._groups.setdefault(group_id, GroupRecords(group_id))
        if encoded is None:
            group.remove(key)
            if not group:
                del self._groups[group_id]
            return
        value: GroupRecordValue | None = None
        try:
            if isinstance(key, GroupKey):
                value = GroupMetadataValue.decode(encoded)
            elif isinstance(key, GroupSettingsKey):
                value = GroupSettings.decode(encoded, offset=offset)
            else:
                value = decode_consumer_group_value(key.record_type, encoded)
        except UndecodableRecord:
            self.undecodable_records += 1
        group.put(key, value)

    def _note_other_key(self, offset_id: OffsetId, key: bytes, *, is_tombstone: bool) -> None:
        group_id, topic, partition = offset_id
        of_group = self._other_keys.setdefault(group_id, {})
        keys = of_group.setdefault((topic, partition), set())
        if not is_tombstone:
            keys.add(key)
            return
        keys.discard(key)
        if not keys:
            del of_group[topic, partition]
            if not of_group:
                del self._other_keys[group_id]

    def _note_deletion(self, buffer: Bytes, start: int, end: int) -> None:
        """Notes a batch of tombstones with headers, before its offsets are removed."""
        described = np.zeros(DELETED_COLUMNS, np.int64)
        count = int.from_bytes(buffer[start + COUNT_AT : start + COUNT_AT + 4].tobytes())
        count_max = (end - start) // RECORD_BYTES_MIN
        gone = np.empty((min(count, count_max), GONE_COLUMNS), np.int64)
        found = -1
        if count <= count_max:
            found = read_deletion(self.offsets.arrays, buffer, start, end, described, gone)
        if found >= 0:
            self.deletions.note(DeletedBatch.of(buffer, described, gone[:found]))

    def _note_change(self, buffer: Bytes, start: int, end: int) -> None:
        """Notes the change of a group's settings, if that is the only record of a batch."""
        if int.from_bytes(buffer[start + COUNT_AT : start + COUNT_AT + 4].tobytes()) != 1:
            return
        try:
            [record] = decode_batch(buffer[start:end].tobytes(), check_crc=False).records
            key = decode_key(record.key or b"")
        except (CorruptBatch, UndecodableRecord):
            return
        if isinstance(key, GroupSettingsKey):
            self.changes.note(
                key.group.encode(),
                record.headers,
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
            )


def _span(buffer: Bytes, start: int, size: int) -> bytes | None:
    return None if size < 0 else buffer[start : start + size].tobytes()


def _plain(encoded: bytes, header: BatchHeader) -> Bytes:
    """The batch in the form that the kernel replays: padded, not compressed or transactional.

    Raises DecompressionFailed.
    """
    try:
        records = decompress(header.compression, encoded[BATCH_HEADER_BYTES:])
    except ValueError as error:  # No such codec; DecompressionFailed is one too.
        raise DecompressionFailed(str(error)) from error
    batch = bytearray(encoded[:BATCH_HEADER_BYTES])
    length = BATCH_HEADER_BYTES - LENGTH_EXCLUDES_BYTES + len(records)
    batch[BATCH_LENGTH_AT : BATCH_LENGTH_AT + 4] = length.to_bytes(4, "big")
    batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = bytes(2)
    return padded_copy(batch + records)
