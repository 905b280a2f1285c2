"""Logs for a cleaner to clean: segments written batch by batch, and what the rounds are to be."""

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import attrs
from offsetd_storage.batch.compression import Compression
from offsetd_storage.batch.record_batch import NO_PRODUCER_ID, Record, encode_batch
from offsetd_storage.log.segment_files import segment_path
from offsetd_storage.timestamp_type import TimestampType

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000

# A marker's key is a version and a type, its value a version and the epoch of the coordinator.
MARKER_KEY = struct.Struct(">hh")
MARKER_VALUE = struct.Struct(">hi")
ABORT, COMMIT = 0, 1

# A key and a value; an offset may be given too, where one batch has gaps.
KeyValue = tuple[bytes | None, bytes | None]


@attrs.frozen(kw_only=True)
class CleanerSettings:
    """Of a topic and of the cleaner."""

    segment_bytes: int = 1 << 20
    segment_index_bytes: int = 1 << 16
    index_interval_bytes: int = 4096
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    message_bytes_max: int = 1_048_588
    producer_expiration_ms: int = DAY_MS
    map_slots: int = 10_000
    map_load_factor: float = 0.9
    io_buffer_bytes: int = 65_536


@attrs.frozen(kw_only=True)
class Round:
    """One pass, at `now_ms`, from where the last one ended."""

    now_ms: int
    end: int | None = None  # It goes no further than this; where it must not, less far.
    reopened: bool = False  # The log is recovered before, as by a broker that was restarted.


@attrs.frozen(kw_only=True)
class Case:
    """A log, by its segments' base offsets, the settings it is cleaned with, and the rounds."""

    name: str
    segments: dict[int, bytes]
    settings: CleanerSettings
    rounds: Sequence[Round]
    log_start_offset: int = 0  # Where the log was told to begin; below it nobody reads.

    def write(self, folder: Path) -> None:
        """The segments, without indexes, in a new folder; written from `START_MS` on."""
        folder.mkdir(parents=True)
        for place, (base_offset, batches) in enumerate(self.segments.items()):
            path = segment_path(folder, base_offset)
            path.write_bytes(batches)
            written_s = START_MS // 1000 + place
            os.utime(path, (written_s, written_s))


@attrs.define
class Producer:
    """A producer that numbers its records; `transaction_at` is where its open transaction began."""

    id: int
    epoch: int = 0
    sequence: int = 0
    transaction_at: int | None = None


@attrs.define
class LogWriter:
    """Puts batches into segments, from offset `offset_next` on."""

    offset_next: int = 0
    now_ms: int = START_MS
    leader_epoch: int = 0
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    _segments: dict[int, bytearray] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.roll()

    @property
    def segments(self) -> dict[int, bytes]:
        """By base offset. The last one takes the appends and is never cleaned."""
        return {base_offset: bytes(batches) for base_offset, batches in self._segments.items()}

    @property
    def segment_bases(self) -> list[int]:
        return list(self._segments)

    def roll(self) -> int:
        """Begins a segment at the log's end, and returns that."""
        self._segments.setdefault(self.offset_next, bytearray())
        return self.offset_next

    def skip(self, offsets: int) -> None:
        """Leaves offsets unused, as a round before has."""
        self.offset_next += offsets

    def put(
        self,
        *key_values: KeyValue,
        producer: Producer | None = None,
        is_transactional: bool = False,
        compression: Compression = Compression.NONE,
        timestamps_ms: Sequence[int] | None = None,
        gaps: Sequence[int] | None = None,
        unused: int = 0,
        delete_horizon_ms: int | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> None:
        """A batch with these records; before record n are `gaps[n]` offsets without one.

        Behind the last record there are `unused` ones. No record at all makes an empty batch.
        """
        base_offset = offset = self.offset_next
        records = []
        for place, (key, value) in enumerate(key_values):
            offset += gaps[place] if gaps else 0
            timestamp_ms = timestamps_ms[place] if timestamps_ms else self.now_ms
            records.append(
                Record(
                    key=key, value=value, offset=offset, timestamp_ms=timestamp_ms, headers=headers
                )
            )
            offset += 1
        last_offset = max(base_offset, offset - 1 + unused)
        if producer is not None and is_transactional and producer.transaction_at is None:
            producer.transaction_at = base_offset
        self._append(
            encode_batch(
                records,
                base_offset=base_offset,
                last_offset=last_offset,
                leader_epoch=self.leader_epoch,
                max_timestamp_ms=None if records else self.now_ms,
                timestamp_type=self.timestamp_type,
                delete_horizon_ms=delete_horizon_ms,
                producer_id=producer.id if producer else NO_PRODUCER_ID,
                producer_epoch=producer.epoch if producer else -1,
                base_sequence=producer.sequence if producer else -1,
                compression=compression if records else Compression.NONE,
                is_transactional=is_transactional,
            ),
            last_offset,
        )
        if producer is not None:
            producer.sequence += last_offset - base_offset + 1

    def mark(self, producer: Producer, kind: int, *, delete_horizon_ms: int | None = None) -> None:
        """Ends the producer's transaction."""
        record = Record(
            key=MARKER_KEY.pack(0, kind),
            value=MARKER_VALUE.pack(0, 0),
            offset=self.offset_next,
            timestamp_ms=self.now_ms,
        )
        producer.transaction_at = None
        self._append(
            encode_batch(
                [record],
                base_offset=self.offset_next,
                leader_epoch=self.leader_epoch,
                timestamp_type=self.timestamp_type,
                delete_horizon_ms=delete_horizon_ms,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                is_transactional=True,
                is_control=True,
            ),
            self.offset_next,
        )

    def _append(self, batch: bytes, last_offset: int) -> None:
        self._segments[self.segment_bases[-1]] += batch
        self.offset_next = last_offset + 1
