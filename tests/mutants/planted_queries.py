"""Planted bugs of what Kafka queries of Spark commit, and of their checkpoints."""

from __future__ import annotations

from mutants.planted import Mutant

_TESTS = "tests/unit/pipeline/queries"
_LEDGER = f"{_TESTS}/test_progress_ledger.py"
_LISTENER = f"{_TESTS}/test_listener.py"
_CHECKPOINTS = f"{_TESTS}/test_checkpoints.py"
_PROGRESS = f"{_TESTS}/test_kafka_progress.py"

QUERY_MUTANTS = (
    Mutant(
        name="what was planned counts as done",
        where="offsetd_pipeline.queries.checkpoints:read_checkpoint",
        replace="max(planned) if through is Through.PLANNED else max(done)",
        by="max(planned)",
        caught_by=_CHECKPOINTS,
    ),
    Mutant(
        name="an import from a checkpoint goes back",
        where="offsetd_pipeline.queries.checkpoint_import:import_checkpoint",
        replace="if _goes_back(each) and not allow_back",
        by="if False",
        caught_by=_CHECKPOINTS,
    ),
    Mutant(
        name="an import from a checkpoint overwrites what came meanwhile",
        where="offsetd_pipeline.queries.checkpoint_import:_line",
        replace='line["expected_revision"] = stored[where].revision',
        by="pass",
        caught_by=_CHECKPOINTS,
    ),
    Mutant(
        name="where two sources read one partition the furthest counts",
        where="offsetd_pipeline.queries.kafka_progress:least_offsets",
        replace="least[where] = min(offset, least.get(where, offset))",
        by="least[where] = max(offset, least.get(where, offset))",
        caught_by=_PROGRESS,
    ),
    Mutant(
        name="a waiting query is taken to be behind its next batch",
        where="offsetd_pipeline.queries.kafka_progress:idle_progress",
        replace="batch_id=found.batch_id - 1",
        by="batch_id=found.batch_id",
        caught_by=_PROGRESS,
    ),
    Mutant(
        name="a batch that comes late is committed over a newer one",
        where="offsetd_pipeline.queries.query_commits:QueryCommits.put",
        replace="if not self.is_newer(progress, run_number):\n    return False",
        by="",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="runs are told apart by their batches alone",
        where="offsetd_pipeline.queries.query_commits:QueryCommits.is_newer",
        replace="return (run_number, progress.batch_id) > self._order",
        by="return progress.batch_id > self._order[1]",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="groups go back without being asked to",
        where="offsetd_pipeline.queries.query_commits:QueryCommits._to_commit",
        replace="end_offset=at.end_offset, monotonic=True",
        by="end_offset=at.end_offset",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="all commits of a batch have one name, of which the server answers the first",
        where="offsetd_pipeline.queries.query_commits:QueryCommits._part",
        replace="self._cuts += 1",
        by="",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="what does not change is committed once, and expires",
        where="offsetd_pipeline.queries.query_commits:QueryCommits._is_old",
        replace="return now_s - done.time_s >= self._refresh_s",
        by="return False",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="a query that follows overwrites unseen what is stored",
        where="offsetd_pipeline.queries.query_commits:QueryCommits._to_commit",
        replace="expected_revision=stored,",
        by="",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="two queries share a group and a topic in silence",
        where="offsetd_pipeline.queries.progress_ledger:ProgressLedger._check_alone",
        replace="if shared and query_id in running:",
        by="if False:",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="a commit that failed is given up",
        where="offsetd_pipeline.queries.progress_ledger:ProgressLedger.failed",
        replace="commits.failures += 1",
        by="commits.failures += 1\ncommits.drop()",
        caught_by=_LISTENER,
    ),
    Mutant(
        name="an event that is no progress is raised into Spark",
        where="offsetd_pipeline.queries.listener:OffsetCommitListener._found",
        replace="error = raised",
        by="raise",
        caught_by=_LISTENER,
    ),
    Mutant(
        name="the end of a query is not waited for",
        where="offsetd_pipeline.queries.listener:OffsetCommitListener.flush",
        replace="if not each.isActive]",
        by="if each.isActive]",
        caught_by=_LISTENER,
    ),
)
