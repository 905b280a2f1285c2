"""A store on a simulated disk that the real cleaner cleans, driven by hand, and its model.

The model is each log as it would be without cleaning: every batch ever appended. Whatever cleaning,
restarts and crashes have done to the folder, it has to say what all these batches say.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from typing import TYPE_CHECKING, Self

import attrs
from log_stores import FOLDER
from offsetd_storage.batch.record_batch import decode_batches
from offsetd_storage.cleaner.cleaning_plan import log_to_clean
from offsetd_storage.cleaner.cleaning_round import CleanerTools, clean_and_checkpoint, read_history
from offsetd_storage.cleaner.log_summaries import log_summary
from offsetd_storage.cleaner.offset_map import SLOT_BYTES, OffsetMap
from offsetd_storage.configuration.log_config import COMPACT, LogConfig
from offsetd_storage.folder.cleaner_checkpoint import CleanerCheckpoint
from offsetd_storage.log_store import OFFSETS_TOPIC, LogStore, LogStoreConfig
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import everything

if TYPE_CHECKING:
    from random import Random

    from offsetd_storage.batch.record_batch import Record
    from offsetd_storage.cleaner.cleaning_plan import LogToClean
    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.clock import ManualClock
    from offsetd_storage.disk.simulated_files import SimulatedFiles
    from offsetd_storage.log.partition_log import PartitionLog

SEGMENT_BYTES = 900
DELETE_RETENTION_MS = 1000
LOG = LogConfig(
    cleanup_policy=COMPACT,
    segment_bytes_max=SEGMENT_BYTES,
    index_interval_bytes=150,
    preallocate_step_bytes=512,
    delete_retention_ms=DELETE_RETENTION_MS,
)
CONFIG = LogStoreConfig(
    partitions=2, log=LOG, journal_file_bytes=16384, journal_header_bytes=512, recovery_threads=1
)


@attrs.define
class Appended:
    """All batches of one partition, as if nobody had ever cleaned it."""

    batches: list[bytes] = attrs.Factory(list)
    ends: list[int] = attrs.Factory(list)  # Where each ends (exclusive).

    def add(self, batch: bytes, offset_next: int) -> None:
        """Puts a batch at the end."""
        self.batches.append(batch)
        self.ends.append(offset_next)

    def copy(self) -> Appended:
        """One of its own."""
        return Appended(list(self.batches), list(self.ends))

    def before(self, offset_next: int) -> list[bytes]:
        """The batches that end at or below an offset, which has to be where one of them ends."""
        count = bisect_right(self.ends, offset_next)
        assert offset_next == (self.ends[count - 1] if count else 0), "it ends within a batch"
        return self.batches[:count]

    def cut(self, offset_next: int) -> None:
        """Forgets what a crash has taken."""
        count = len(self.before(offset_next))
        self.batches, self.ends = self.batches[:count], self.ends[:count]

    def records(self, offset_next: int) -> dict[int, Record]:
        """All records by offset."""
        batches = decode_batches(b"".join(self.before(offset_next)))
        return {record.offset: record for batch in batches for record in batch.records}


class CleanedStore:
    """The store, the cleaner and the model."""

    def __init__(
        self,
        files: SimulatedFiles,
        random: Random,
        clock: ManualClock,
        config: LogStoreConfig = CONFIG,
    ) -> None:
        self.files, self.random, self.clock, self.config = files, random, clock, config
        self.partitions = range(config.partitions or 0)
        self.appended = {partition: Appended() for partition in self.partitions}
        self.acknowledged = dict.fromkeys(self.partitions, 0)  # Flushed up to here (exclusive).
        self.rounds = 0  # That changed something.
        self.open()

    def open(self) -> None:
        """Opens what is on the disk, as a start does."""
        self.store = LogStore.open(
            self.files, FOLDER, self.config, clock=self.clock, random=self.random
        )
        self.checkpoint = CleanerCheckpoint(self.files, FOLDER)
        self.horizons: dict[int, int | None] = {}

    def log(self, partition: int = 0) -> PartitionLog:
        """The log of one partition."""
        return self.store.logs[TopicPartition(OFFSETS_TOPIC, partition)]

    def append_batch(self, partition: int, batch: bytes) -> None:
        """Puts a batch at the end of a log; it is acknowledged by a later flush."""
        offset_next = int.from_bytes(batch[:8]) + int.from_bytes(batch[23:27]) + 1
        self.store.append(
            self.log(partition).topic_partition,
            batch,
            last_offset=offset_next - 1,
            max_timestamp_ms=int.from_bytes(batch[35:43], signed=True),
        )
        self.appended[partition].add(batch, offset_next)

    def flush(self) -> None:
        """Makes durable, and so acknowledges, what was appended."""
        ends = {partition: self.log(partition).offset_next for partition in self.partitions}
        self.store.flush()
        self.acknowledged |= ends

    def advance(self) -> None:
        """Makes all that was appended cleanable, but for what lies in active segments."""
        self.flush()
        self.store.advance_recovery_points()

    def roll(self, partition: int) -> None:
        """Begins a new segment."""
        self.store.roll(self.log(partition).topic_partition)

    def found(self, partition: int) -> LogToClean:
        """What there is to clean."""
        log = self.log(partition)
        summary = log_summary(
            self.files,
            log,
            recovery_point=self.store.recovery_point(log.topic_partition),
            history=read_history(log),
            checkpoint=self.checkpoint.first_dirty(log.topic_partition),
            delete_horizon_ms=self.horizons.get(partition),
        )
        return log_to_clean(summary, log.config, now_ms=self.clock.now_ms())

    def clean(
        self, partition: int, *, slots: int = 1000, bitmap_bytes_max: int = 1 << 10
    ) -> CleanReport:
        """One round, whatever the ratio is."""
        found = self.found(partition)
        offset_map = OffsetMap(
            slots * SLOT_BYTES,
            load_factor=1.0,
            hash_key=self.random.randbytes(16),
            bitmap_bytes_max=bitmap_bytes_max,
        )
        tools = CleanerTools(files=self.files, offset_map=offset_map, clock=self.clock)
        log = self.log(partition)
        with self.store.latching():
            report = clean_and_checkpoint(
                log, tools, found, self.checkpoint, history=read_history(log)
            )
        self.horizons[partition] = report.delete_horizon_ms
        self.rounds += report.segments_before > report.segments_left_alone
        return report

    def restart(self) -> None:
        """Stops in order and starts again."""
        self.flush()
        self.store.close()
        self.open()

    def crash(self, disk: SimulatedFiles) -> None:
        """Goes on with a disk that a crash has left."""
        self.store.abandon()
        self.files = disk
        self.open()
        self.settle()

    def twin(self, disk: SimulatedFiles) -> Self:
        """What a start makes of a disk that a crash could leave now, while this one goes on."""
        twin = copy.copy(self)
        twin.files = disk
        twin.appended = {partition: each.copy() for partition, each in self.appended.items()}
        twin.acknowledged = dict(self.acknowledged)
        twin.open()
        twin.settle()
        return twin

    def settle(self) -> None:
        """Takes what a recovered folder holds for all that there is; nothing may be missing."""
        for partition in self.partitions:
            offset_next = self.log(partition).offset_next
            assert offset_next >= self.acknowledged[partition], "acknowledged, and lost"
            self.appended[partition].cut(offset_next)
            self.acknowledged[partition] = offset_next

    def check_offsets(self, partition: int) -> None:
        """What is left has the order, the offsets and the contents that it was written with."""
        log = self.log(partition)
        written = self.appended[partition].records(log.offset_next_written)
        left = [each for batch in decode_batches(everything(log)) for each in batch.records]
        offsets = [record.offset for record in left]
        assert offsets == sorted(set(offsets))
        assert left == [written[offset] for offset in offsets]
