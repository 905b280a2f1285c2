"""A stream over a running server. Its positions are tokens of WatchOffsets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from offsetd_clients import HistoryCompacted
from pyspark.sql.datasource import InputPartition

from offsetd_pipeline.arrow_columns import record_batch
from offsetd_pipeline.streams.errors import RecordsLost
from offsetd_pipeline.streams.options import EARLIEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from offsetd_clients import OffsetClient
    from offsetd_clients.history_values import OffsetEvent, OffsetEvents
    from offsetd_clients.sync.watch import OffsetWatch

    from offsetd_pipeline.server_options import ServerOptions
    from offsetd_pipeline.streams.limits import Limit
    from offsetd_pipeline.streams.options import StreamOptions

    Text = dict[str, Any]

_log = logging.getLogger(__name__)

_TOKEN: Final = "token"  # noqa: S105  A place in the log.
_ROWS: Final = 10_000  # The most rows in one batch.


class WatchWork(InputPartition):  # type: ignore[misc, unused-ignore]
    """The events between two tokens, which one task watches."""

    def __init__(self, token: str, until_token: str) -> None:
        super().__init__(None)
        self.token = token
        self.until_token = until_token


class ServerStream:
    """Finds new events on a server.

    The driver uses it; see `StreamSource`. Raises the client's errors.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options

    def begin(self) -> Text:
        """The start of a new query, by `starting_offsets`. Raises ValueError, RecordsLost."""
        starting = self._options.starting_offsets
        if isinstance(starting, str):
            return {_TOKEN: self._token_now(from_oldest=starting == EARLIEST)}
        return {_TOKEN: _token_of(starting)}

    def ends(self) -> Text:
        """The present token."""
        return {_TOKEN: self._token_now(from_oldest=False)}

    def latest(self) -> Text:
        """The present token."""
        return self.ends()

    def bounded(self, start: Text, limit: Limit, until: Text | None) -> Text:
        """The present token, or the token after about the number of events that the limit allows.

        To find that token it watches the events. It does not divide a message, which has at most
        200 events.
        """
        end = self.ends() if until is None else until
        if start == end or (limit.records_max is None and not limit.records_min):
            return end
        token, count = _token_of(start), 0
        for batch in _events(self._options, token, _token_of(end)):
            behind = count + len(batch.events)
            if limit.records_max is not None and count and behind > limit.records_max:
                return {_TOKEN: token}
            token, count = batch.token, behind
        return end if count >= limit.records_min else dict(start)

    def works(self, start: Text, end: Text) -> Sequence[InputPartition]:
        """One task reads all events between the tokens."""
        return [WatchWork(_token_of(start), _token_of(end))]

    def commit(self, end: Text) -> None:
        """Does nothing: the server keeps no state of the stream."""

    def _token_now(self, *, from_oldest: bool) -> str:
        options = self._options
        with _server(options).client() as client:
            watch = _watch(client, options, from_oldest=from_oldest)
            for batch in watch.batches():
                watch.cancel()
                damaged = watch.unreachable_log_partitions
                if damaged:
                    _lost(options, damaged[0], f"log partitions {damaged} are damaged")
                return batch.token
        raise AssertionError("a watcher's first answer has a token")


def watched_batches(
    work: WatchWork, schema: pa.Schema, options: StreamOptions
) -> Iterator[pa.RecordBatch]:
    """The events between two tokens as rows of `history`.

    Raises RecordsLost if some were cleaned away, and the client's errors.
    """
    rows: list[dict[str, Any]] = []
    for batch in _events(options, work.token, work.until_token):
        rows += map(_row, batch.events)
        if len(rows) >= _ROWS:
            yield record_batch(rows, schema)
            rows = []
    if rows:
        yield record_batch(rows, schema)


def _events(options: StreamOptions, token: str, until_token: str) -> Iterator[OffsetEvents]:
    """Yields the events between two tokens; only the later ones, if a loss of events is allowed."""
    with _server(options).client() as client:
        while True:
            try:
                watch = _watch(client, options, token=token, until_token=until_token)
                yield from watch.batches()
            except HistoryCompacted as error:
                partition = error.details.get("log_partition", "")
                _lost(
                    options,
                    int(partition) if partition.isdecimal() else None,
                    str(error),
                    goes_on_at=error.oldest_revision,
                )
                if error.oldest_token is None:
                    raise
                token = error.oldest_token
            else:
                return


def _watch(
    client: OffsetClient,
    options: StreamOptions,
    *,
    token: str = "",
    until_token: str = "",
    from_oldest: bool = False,
) -> OffsetWatch:
    return client.watch_offsets(
        options.chosen.groups,
        group_id_prefix=options.chosen.group_prefix,
        topics=options.chosen.topics,
        token=token,
        from_oldest=from_oldest,
        until_token=until_token,
    )


def _server(options: StreamOptions) -> ServerOptions:
    assert options.server is not None, "the options name a server"
    return options.server


def _lost(
    options: StreamOptions, log_partition: int | None, what: str, goes_on_at: int | None = None
) -> None:
    reason = f"{_server(options).server}: {what}"
    if options.fails_on_loss:
        raise RecordsLost(reason, log_partition=log_partition, position=None, goes_on_at=goes_on_at)
    _log.warning("%s", reason)


def _token_of(positions: Mapping[str, Any]) -> str:
    token = positions.get(_TOKEN)
    if not isinstance(token, str) or not token:
        raise ValueError(f'positions on a server are {{"{_TOKEN}": "..."}}, not {dict(positions)}')
    return token


def _row(event: OffsetEvent) -> dict[str, Any]:
    """A row of an event.

    Values that a server does not report are null: transactions, for example.
    """
    is_committed = event.offset is not None
    kind = "committed" if is_committed else "deleted" if event.is_readable else "unreadable"
    return {
        "log_partition": event.revision.log_partition,
        "log_offset": event.revision.log_offset,
        "timestamp": event.time,
        "kind": kind,
        "group": event.group_id,
        "topic": event.topic_partition.topic,
        "partition": event.topic_partition.partition,
        "offset": event.offset,
        "leader_epoch": event.leader_epoch,
        "metadata": event.metadata if is_committed else None,
        "commit_time": event.commit_time,
        "expire_time": event.expire_time,
    }
