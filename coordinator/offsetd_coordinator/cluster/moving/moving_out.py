"""The topics of a cluster become the folder of a single server.

The logs continue above all offsets that nodes have given out: Kafka's end of a partition, and the
shift of its newest claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition

from offsetd_coordinator.cluster.copy_appends import append_read_batch, fill_gap, skip_unused
from offsetd_coordinator.cluster.moving.folder_records import log_digest
from offsetd_coordinator.cluster.moving.log_digest import Compared, compared
from offsetd_coordinator.cluster.topic_records import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.log_store import LogStore

    from offsetd_coordinator.cluster.claims import Claim
    from offsetd_coordinator.cluster.moving.topic_contents import TopicContents
    from offsetd_coordinator.cluster.topic_records import PlacedRecord

_FLUSH_BYTES: Final = 4 << 20
_REPORT_RECORDS: Final = 10_000


@attrs.define
class FolderWriter:
    """Appends records to the logs of a new store. The records of a batch come together."""

    store: LogStore
    _batches: dict[TopicPartition, list[PlacedRecord]] = attrs.field(factory=dict)
    _bytes: int = 0

    def add(self, topic_partition: TopicPartition, placed: PlacedRecord) -> None:
        """Adds a record. Raises the errors of `LogStore.append` and `LogStore.flush`."""
        batch = self._batches.setdefault(topic_partition, [])
        if batch and batch[0].batch_offset != placed.batch_offset:
            self._append(topic_partition, batch)
        batch.append(placed)

    def claim(self, topic_partition: TopicPartition, claim: Claim) -> None:
        """Leaves out the log offsets that a node skipped when it began. Raises as `add`."""
        self._append(topic_partition, self._batches.get(topic_partition, []))
        skip_unused(self.store, topic_partition, claim)

    def end(self) -> None:
        """Appends what is left, and makes all durable. Raises as `add`."""
        for topic_partition, batch in self._batches.items():
            self._append(topic_partition, batch)
        self.store.flush()

    def _append(self, topic_partition: TopicPartition, records: list[PlacedRecord]) -> None:
        for batch in batches_of(records):
            append_read_batch(self.store, topic_partition, batch)
            self._bytes += len(batch)
        records.clear()
        if self._bytes > _FLUSH_BYTES:
            self.store.flush()
            self.store.bound_unwritten()
            self._bytes = 0


def move_out(
    contents: TopicContents, store: LogStore, report: Callable[[int, int, str], None]
) -> list[Compared]:
    """Fills the logs of a new store, and reads them back.

    Raises TopicUnreadable, MalformedClaim and the errors of the store.
    """
    writer = FolderWriter(store)
    for count, (topic_partition, placed) in enumerate(contents.records(writer.claim)):
        writer.add(topic_partition, placed)
        if count % _REPORT_RECORDS == 0:
            report(count, 0, topic_partition.folder_name)
    writer.end()
    for partition, end in contents.ends.items():
        claim = contents.claims.get(partition)
        topic_partition = TopicPartition(OFFSETS_TOPIC, partition)
        first = end + (0 if claim is None else claim.shift)
        fill_gap(store, topic_partition, first, is_unused=True)
    store.flush()
    report(0, 0, "reading back")
    copies = {each: log_digest(each, store.log(each), has_keys=False) for each in contents.digests}
    for each, digest in contents.digests.items():
        digest.end_offset = store.log(each).offset_next
    return list(compared(contents.digests, copies))
