"""Holds running queries, the progress they must commit, and the outcomes. Its owner locks it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import attrs

from offsetd_pipeline.queries.query_commits import Part, QueryCommits, Rewinds

if TYPE_CHECKING:
    from offsetd_clients import CommitConflict, Revision

    from offsetd_pipeline.queries.kafka_progress import BatchProgress

RETRY_S_MIN: Final = 0.5
RETRY_S_MAX: Final = 30.0
_DOUBLINGS_MAX: Final = 10
_LOG: Final = logging.getLogger("offsetd_pipeline.queries")


class GroupTaken(Exception):
    """Two running queries read the same topic for one group: its offsets would be wrong."""


@attrs.frozen(kw_only=True)
class ListenerCounts:
    """The counts of a listener since it was made.

    `batches_committed`: batches that are committed.
    `batches_skipped`: a newer batch came before they were committed.
    `batches_out_of_order`: they came twice, or after a newer one.
    `failures`: failed commits, and events that were not progress; `last_error` is the newest.
    Present values: `behind` is the number of batches by which queries are ahead of their groups,
    and `held_back` the number of partitions in which groups are ahead of the queries.
    """

    batches_committed: int = 0
    batches_skipped: int = 0
    batches_out_of_order: int = 0
    failures: int = 0
    last_error: str = ""
    behind: int = 0
    held_back: int = 0


class ProgressLedger:
    """The ledger of all queries of a listener. Times are in seconds of one steady clock."""

    def __init__(self, *, rewinds: Rewinds, refresh_s: float) -> None:
        """`refresh_s`: unchanged offsets are committed again after this time."""
        self._rewinds = rewinds
        self._refresh_s = refresh_s
        self._counts = ListenerCounts()
        self._runs: dict[str, tuple[str, int]] = {}  # The query and the number of each run.
        self._runs_seen = 0
        self._queries: dict[str, QueryCommits] = {}

    @property
    def counts(self) -> ListenerCounts:
        """The present counts."""
        queries = self._queries.values()
        return attrs.evolve(
            self._counts,
            behind=sum(
                each.progress.batch_id - each.committed_batch_id
                for each in queries
                if each.is_behind and each.progress is not None
            ),
            held_back=sum(len(each.held_back) for each in queries),
        )

    @property
    def is_behind(self) -> bool:
        """Whether any progress must be committed."""
        return any(each.is_behind for each in self._queries.values())

    def runs(self, run_id: str) -> bool:
        """Whether a run has begun and not ended, by the events until now."""
        return run_id in self._runs

    def start(self, query_id: str, run_id: str) -> int:
        """Notes a run; returns its number. Later runs have larger numbers."""
        if run_id not in self._runs:
            self._runs_seen += 1
            self._runs[run_id] = (query_id, self._runs_seen)
        return self._runs[run_id][1]

    def end(self, run_id: str) -> None:
        """Notes the end of a run. Its progress is still committed."""
        self._runs.pop(run_id, None)
        self._forget_ended()

    def put(self, group_id: str, progress: BatchProgress) -> None:
        """Notes progress to commit to a group. Raises GroupTaken."""
        number = self.start(progress.query_id, progress.run_id)
        self._check_alone(group_id, progress)
        commits = self._queries.get(progress.query_id)
        was_behind = commits is not None and commits.is_behind
        if commits is None or commits.group_id != group_id:
            commits = QueryCommits(group_id, rewinds=self._rewinds, refresh_s=self._refresh_s)
            commits.committed_batch_id = progress.batch_id - 1
            self._queries[progress.query_id] = commits
        if not commits.put(progress, number):
            self._count(batches_out_of_order=1)
        elif was_behind:
            self._count(batches_skipped=1)

    def put_idle(self, group_id: str, progress: BatchProgress, now_s: float) -> None:
        """Notes that a query waits after this batch, which may not have been reported."""
        number = self.start(progress.query_id, progress.run_id)
        commits = self._queries.get(progress.query_id)
        if commits is None or commits.is_newer(progress, number):
            self.put(group_id, progress)
        else:
            commits.refresh(now_s)

    def hurry(self) -> None:
        """Makes failed commits due at once."""
        for commits in self._queries.values():
            commits.due_s = 0.0
            commits.failures = min(commits.failures, 1)

    def next_part(self, now_s: float) -> tuple[QueryCommits, Part] | None:
        """The next commit that is due. The query with the longest wait comes first."""
        for query_id, commits in list(self._queries.items()):
            if not commits.is_behind or commits.due_s > now_s:
                continue
            part = commits.next_part(now_s)
            if part is not None:
                # Move the query to the end, so that the other queries come next.
                self._queries[query_id] = self._queries.pop(query_id)
                return commits, part
            self._is_done(commits)  # None of its offsets has changed.
        return None

    def next_due_s(self) -> float | None:
        """The time at which the next commit is due; None if there is nothing to commit."""
        return min((each.due_s for each in self._queries.values() if each.is_behind), default=None)

    def committed(
        self, commits: QueryCommits, part: Part, revision: Revision, now_s: float
    ) -> None:
        """Notes that a part is stored."""
        if commits.failures:
            _LOG.info("group %s: offsets are committed again", commits.group_id)
        commits.committed(part, revision, now_s)
        if not commits.is_behind:
            self._is_done(commits)

    def refused(
        self,
        commits: QueryCommits,
        part: Part,
        error: CommitConflict,
        now_s: float,
    ) -> None:
        """Notes that a part was refused because of other stored offsets."""
        were_held_back = bool(commits.held_back)
        if not commits.refused(part, error.conflicts):
            self.failed(commits, error, now_s)
        elif commits.held_back and not were_held_back:
            _LOG.warning("group %s is ahead of its query: %s", commits.group_id, error)
        if not commits.is_behind:
            self._is_done(commits)

    def failed(self, commits: QueryCommits, error: Exception, now_s: float) -> None:
        """Notes a failed commit. It is retried after growing waits."""
        if not commits.failures:
            _LOG.warning("group %s: the commit failed and is retried: %s", commits.group_id, error)
        commits.failures += 1
        commits.refusals = 0
        wait_s = RETRY_S_MIN * 2 ** min(commits.failures - 1, _DOUBLINGS_MAX)
        commits.due_s = now_s + min(wait_s, RETRY_S_MAX)
        self._count(failures=1, last_error=f"group {commits.group_id}: {error}")

    def note_error(self, error: Exception) -> None:
        """Notes an event that was not progress."""
        text = f"{type(error).__name__}: {error}"
        if text != self._counts.last_error:
            _LOG.warning("an event of Spark's is passed over: %s", text)
        self._count(failures=1, last_error=text)

    def _check_alone(self, group_id: str, progress: BatchProgress) -> None:
        running = {query_id for query_id, _ in self._runs.values()}
        for query_id, commits in self._queries.items():
            if query_id == progress.query_id or commits.group_id != group_id:
                continue
            shared = commits.topics & progress.topics
            if shared and query_id in running:
                raise GroupTaken(
                    f"group {group_id}: queries {query_id} and {progress.query_id} both read"
                    f" {min(shared)}; give each a group of its own"
                )
            if shared and self._rewinds is Rewinds.FOLLOW and commits.is_behind:
                commits.drop()  # The group follows the query that reads the topic now.
                self._count(batches_skipped=1)

    def _is_done(self, commits: QueryCommits) -> None:
        assert commits.progress is not None, "what is done was put"
        if commits.progress.batch_id != commits.committed_batch_id:
            self._count(batches_committed=1)
        commits.committed_batch_id = commits.progress.batch_id
        self._forget_ended()

    def _forget_ended(self) -> None:
        running = {query_id for query_id, _ in self._runs.values()}
        self._queries = {
            query_id: commits
            for query_id, commits in self._queries.items()
            if query_id in running or commits.is_behind
        }

    def _count(self, *, last_error: str | None = None, **more: int) -> None:
        counts = self._counts
        grown = {name: getattr(counts, name) + count for name, count in more.items()}
        error = counts.last_error if last_error is None else last_error
        self._counts = attrs.evolve(counts, **grown, last_error=error)
