"""What cleaning has to know of producers and their transactions, in the order of offsets.

The records of an aborted transaction go, whatever their keys; its marker, like that of a commit,
goes only when a pass has met no batch of the transaction any more, and then by a delete horizon,
like a tombstone. The last batch of an active producer stays, empty if need be: it says which
sequence numbers were used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from offsetd_storage.cleaner.segment_bytes import SegmentBytes


@attrs.frozen(kw_only=True)
class AbortedTransaction:
    """As an entry of `.txnindex` has it: `last_offset` is that of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int  # Of the log, right behind the marker.


@attrs.frozen(kw_only=True)
class LastRecord:
    """Where an active producer's last data batch ends (its last offset); None: there is none of
    its epoch.
    """

    last_data_offset: int | None
    producer_epoch: int
    last_timestamp_ms: int


@attrs.frozen(kw_only=True)
class ProducerHistory:
    """What the batches of a log say of its producers. Empty for a log that none of them wrote to.

    `open_first_offsets`: where transactions begin that are not decided yet, by producer's id.
    """

    aborted: Sequence[AbortedTransaction] = ()
    last_records: Mapping[int, LastRecord] = attrs.Factory(dict)
    open_first_offsets: Mapping[int, int] = attrs.Factory(dict)

    def last_stable_offset(self, offset_next: int) -> int:
        """The log's last stable offset, where its end is `offset_next`."""
        return min(self.open_first_offsets.values(), default=offset_next)

    def active(self, *, now_ms: int, expiration_ms: int) -> Mapping[int, LastRecord]:
        """The last records of the producers that are not forgotten by now, as Kafka's
        `producer.id.expiration.ms` has it.
        """
        raise NotImplementedError


def read_producers(source: Iterable[SegmentBytes]) -> ProducerHistory:
    """Reads the headers of a whole log's batches. Raises CorruptBatch and OldMessageFormat."""
    raise NotImplementedError


class CleanedTransactions:
    """Kafka's `CleanedTransactionMetadata`: one for each pass over a log, from its start on."""

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self.retained_aborts: list[AbortedTransaction] = []

    def take_retained_aborts(self) -> list[AbortedTransaction]:
        """The aborted transactions whose markers were met and stay, since the last call: what
        the `.txnindex` of the cleaned segment holds.
        """
        taken, self.retained_aborts = self.retained_aborts, []
        return taken
