"""A thread that commits the ledger's progress, so that calls that note progress never wait."""

from __future__ import annotations

import atexit
import threading
import time
from typing import TYPE_CHECKING, Final, Protocol

from offsetd_clients import CommitConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import timedelta

    from offsetd_clients import CommittedOffset, OffsetToCommit, Revision, TopicPartition

    from offsetd_pipeline.queries.progress_ledger import ListenerCounts, ProgressLedger
    from offsetd_pipeline.queries.query_commits import Part, QueryCommits

EXIT_S_MAX: Final = 10.0
"""The time that the program's end waits for commits, if `close` was not called before."""
_JOIN_S_MAX: Final = 1.0


class CommitsOffsets(Protocol):
    """The part of `OffsetClient` that this module needs."""

    def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetToCommit],
        *,
        retention: timedelta | None = None,
        request_id: str | None = None,
    ) -> Revision:
        """Commits all of `offsets` or none."""

    def fetch(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """The stored offsets of a group."""


class CommitThread:
    """Makes one commit at a time, for the queries in turn. It starts at the first progress."""

    def __init__(
        self,
        client: CommitsOffsets,
        ledger: ProgressLedger,
        *,
        retention: timedelta | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """The thread takes over `ledger`. Other threads use it only through `tell` and `wait`."""
        self._client = client
        self._ledger = ledger
        self._retention = retention
        self._monotonic_s = monotonic_s
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def counts(self) -> ListenerCounts:
        """The present counts."""
        with self._changed:
            return self._ledger.counts

    def now_s(self) -> float:
        """The time by the ledger's clock."""
        return self._monotonic_s()

    def tell(self, note: Callable[[ProgressLedger], object]) -> None:
        """Calls `note` with the ledger, unless the thread is closed. Its errors are noted too."""
        with self._changed:
            if self._is_closed:
                return
            try:
                note(self._ledger)
            except Exception as error:  # noqa: BLE001  No caller could receive it.
                self._ledger.note_error(error)
            if self._ledger.is_behind and self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="offsetd commits of queries", daemon=True
                )
                self._thread.start()
                atexit.register(self.close, EXIT_S_MAX)
            self._changed.notify_all()

    def wait(self, is_over: Callable[[ProgressLedger], bool], timeout_s: float) -> bool:
        """Waits until `is_over` holds for the ledger. Returns False after the timeout."""
        with self._changed:
            self._ledger.hurry()
            self._changed.notify_all()
            return self._changed.wait_for(lambda: is_over(self._ledger), timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Ends the thread when all progress is committed, or after `timeout_s`.

        Returns False if not all progress was committed.
        """
        self.wait(lambda ledger: self._is_closed or not ledger.is_behind, timeout_s)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            is_done = not self._ledger.is_behind
        atexit.unregister(self.close)
        return is_done

    def join(self) -> None:
        """Waits a short time for a commit in progress, after `close`."""
        if self._thread is not None:
            self._thread.join(_JOIN_S_MAX)

    def _run(self) -> None:
        while True:
            work = self._wait_for_work()
            if work is None:
                return
            self._commit(*work)

    def _wait_for_work(self) -> tuple[QueryCommits, Part] | None:
        with self._changed:
            while not self._is_closed:
                now_s = self._monotonic_s()
                work = self._ledger.next_part(now_s)
                if work is not None:
                    return work
                self._changed.notify_all()
                due_s = self._ledger.next_due_s()
                self._changed.wait(None if due_s is None else due_s - now_s)
            return None

    def _commit(self, commits: QueryCommits, part: Part) -> None:
        try:
            revision = self._send(commits, part)
        except CommitConflict as error:
            with self._changed:
                self._ledger.refused(commits, part, error, self._monotonic_s())
        except Exception as error:  # noqa: BLE001  Whatever it is, it is told and tried again.
            with self._changed:
                self._ledger.failed(commits, error, self._monotonic_s())
        else:
            with self._changed:
                self._ledger.committed(commits, part, revision, self._monotonic_s())

    def _send(self, commits: QueryCommits, part: Part) -> Revision:
        unknown = commits.unknown(part)
        stored = self._client.fetch(commits.group_id, unknown) if unknown else {}
        with self._changed:
            commits.learn(unknown, stored)
            offsets = commits.offsets_of(part)
        return self._client.commit(
            commits.group_id, offsets, retention=self._retention, request_id=part.request_id
        )
