"""A listener that commits the progress of streaming queries on Kafka to groups in offsetd."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import attrs
from offsetd_clients import CommitsUnanswered, OffsetClient, RetryPolicy
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from offsetd_pipeline.queries.commit_thread import CommitThread
from offsetd_pipeline.queries.kafka_progress import BatchProgress, batch_progress, idle_progress
from offsetd_pipeline.queries.progress_ledger import ListenerCounts, ProgressLedger
from offsetd_pipeline.queries.query_commits import Rewinds

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

COMMIT_S_MAX: Final = 10.0
"""The timeout of one attempt. The next attempt commits the newest progress."""
REFRESH_S: Final = 3600.0


@attrs.frozen(kw_only=True)
class ReadingQuery:
    """A query that needs a group. Its checkpoint keeps its `id`; `name` may be None."""

    id: str
    run_id: str
    name: str | None
    topics: frozenset[str]


GroupOf: TypeAlias = Callable[[ReadingQuery], str | None]
"""Returns the group of a query. If it is None, the query's progress is not committed."""


class OffsetCommitListener(StreamingQueryListener):
    """Commits the end of each batch of a query on Kafka to a group.

    Use `spark.streams.addListener(listener)`. It never waits and never raises in Spark's calls: a
    thread commits, the newest batch of a query first, and retries without limit. See
    `docs/guides/spark-kafka.md`.
    """

    def __init__(
        self,
        client: OffsetClient | str,
        group: str | GroupOf,
        *,
        queries: Collection[str] = (),
        rewinds: Rewinds | str = Rewinds.REFUSE,
        retention: timedelta | None = None,
        refresh_s: float = REFRESH_S,
    ) -> None:
        """`client`: a client, or the address of a server, `host:port`.

        `queries`: commit only for these, by name or id.
        `rewinds`: what happens to the group when a query reads again what was committed.
        `retention`: how long the offsets are kept, instead of the group's retention.
        `refresh_s`: unchanged offsets are committed again after this many seconds.

        If a session is active at this point, the listener also checks waiting queries for
        unreported progress. Raises ValueError for invalid arguments.
        """
        if isinstance(queries, str):
            raise TypeError("queries: one text where several are expected")
        if not (callable(group) or (isinstance(group, str) and group)):
            raise ValueError(f"group is a name, or a function that names one, not {group!r}")
        ledger = ProgressLedger(rewinds=Rewinds(rewinds), refresh_s=refresh_s)
        using = OffsetClient(client) if isinstance(client, str) else client
        self._own_client = using if isinstance(client, str) else None
        session = SparkSession.getActiveSession()
        self._streams: Any = session and session.streams
        self._group = group
        self._queries = frozenset(queries)
        self._groups: dict[str, str | None] = {}  # The group of each run.
        self._thread = CommitThread(
            using.with_retry(RetryPolicy(timeout_s=COMMIT_S_MAX)),
            ledger,
            retention=retention,
        )

    @property
    def counts(self) -> ListenerCounts:
        """The present counts."""
        return self._thread.counts

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's name
        """Notes that a query runs."""
        query_id, run_id = str(event.id), str(event.runId)
        self._thread.tell(lambda ledger: ledger.start(query_id, run_id))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  Spark's name
        """Passes the end of a batch to the commit thread."""
        found = self._found(lambda: batch_progress(event.progress))
        if found is not None:
            self._thread.tell(lambda ledger: ledger.put(*found))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  Spark's name
        """Commits the last batch if a killed run did not, or if its offsets would expire."""
        found = self._found(lambda: self._idle_progress(str(event.id)))
        if found is not None:
            now_s = self._thread.now_s()
            self._thread.tell(lambda ledger: ledger.put_idle(*found, now_s))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  Spark's name
        """Notes that a query has ended. No more events of the query follow."""
        run_id = str(event.runId)
        self._groups.pop(run_id, None)
        self._thread.tell(lambda ledger: ledger.end(run_id))

    def flush(self, *queries: Any, timeout_s: float = 30.0) -> bool:
        """Waits until all noted progress is committed. Returns False after the timeout.

        For `queries` that have ended, it first waits for all events that Spark still has.
        """
        ended = [str(each.runId) for each in queries if not each.isActive]
        return self._thread.wait(
            lambda ledger: not ledger.is_behind and not any(map(ledger.runs, ended)), timeout_s
        )

    def close(self, timeout_s: float = 10.0) -> bool:
        """Commits the rest, and ends. Returns False if not all was committed in time.

        Later events of Spark are ignored. A client that was passed in stays open.
        """
        is_done = self._thread.close(timeout_s)
        if self._own_client is not None:
            with suppress(CommitsUnanswered):  # The return value says so.
                self._own_client.close(timeout_s=0)
        self._thread.join()
        return is_done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _found(self, read: Callable[[], BatchProgress | None]) -> tuple[str, BatchProgress] | None:
        """The progress in an event, and its group. Errors are noted: none reaches Spark."""
        try:
            progress = read()
            group_id = None if progress is None else self._group_of(progress)
        except Exception as raised:  # noqa: BLE001  As it says above.
            error = raised
            self._thread.tell(lambda ledger: ledger.note_error(error))
            return None
        return None if progress is None or group_id is None else (group_id, progress)

    def _idle_progress(self, query_id: str) -> BatchProgress | None:
        query = self._streams and self._streams.get(query_id)
        last = query and query.lastProgress
        return idle_progress(last) if last else None

    def _group_of(self, progress: BatchProgress) -> str | None:
        if self._queries and not {progress.query_id, progress.name} & self._queries:
            return None
        if isinstance(self._group, str):
            return self._group
        if progress.run_id not in self._groups:
            self._groups[progress.run_id] = self._group(
                ReadingQuery(
                    id=progress.query_id,
                    run_id=progress.run_id,
                    name=progress.name,
                    topics=progress.topics,
                )
            )
        return self._groups[progress.run_id]
