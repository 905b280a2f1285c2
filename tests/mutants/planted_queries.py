"""Planted bugs of what Kafka queries of Spark commit, and of their checkpoints."""

from __future__ import annotations

from mutants.planted import Mutant

_QUERIES = "pipeline/offsetd_pipeline/queries"
_TESTS = "tests/unit/pipeline/queries"
_LEDGER = f"{_TESTS}/test_progress_ledger.py"
_LISTENER = f"{_TESTS}/test_listener.py"
_CHECKPOINTS = f"{_TESTS}/test_checkpoints.py"
_PROGRESS = f"{_TESTS}/test_kafka_progress.py"

QUERY_MUTANTS = (
    Mutant(
        name="what was planned counts as done",
        file=f"{_QUERIES}/checkpoints.py",
        replace="max(planned) if through is Through.PLANNED else max(done)",
        by="max(planned)",
        caught_by=_CHECKPOINTS,
    ),
    Mutant(
        name="an import from a checkpoint goes back",
        file=f"{_QUERIES}/checkpoint_import.py",
        replace="if _goes_back(each) and not allow_back",
        by="if False",
        caught_by=_CHECKPOINTS,
    ),
    Mutant(
        name="an import from a checkpoint overwrites what came meanwhile",
        file=f"{_QUERIES}/checkpoint_import.py",
        replace='        line["expected_revision"] = stored[where].revision\n',
        by="        pass\n",
        caught_by=_CHECKPOINTS,
    ),
    Mutant(
        name="where two sources read one partition the furthest counts",
        file=f"{_QUERIES}/kafka_progress.py",
        replace="least[where] = min(offset, least.get(where, offset))",
        by="least[where] = max(offset, least.get(where, offset))",
        caught_by=_PROGRESS,
    ),
    Mutant(
        name="a waiting query is taken to be behind its next batch",
        file=f"{_QUERIES}/kafka_progress.py",
        replace="batch_id=found.batch_id - 1",
        by="batch_id=found.batch_id",
        caught_by=_PROGRESS,
    ),
    Mutant(
        name="a batch that comes late is committed over a newer one",
        file=f"{_QUERIES}/query_commits.py",
        replace="        if not self.is_before(progress, run_number):\n            return False\n",
        by="",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="runs are told apart by their batches alone",
        file=f"{_QUERIES}/query_commits.py",
        replace="        return (run_number, progress.batch_id) > self._order\n",
        by="        return progress.batch_id > self._order[1]\n",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="groups go back without being asked to",
        file=f"{_QUERIES}/query_commits.py",
        replace="end_offset=at.end_offset, monotonic=True",
        by="end_offset=at.end_offset",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="all commits of a batch have one name, of which the server answers the first",
        file=f"{_QUERIES}/query_commits.py",
        replace="        self._cuts += 1\n",
        by="",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="what does not change is committed once, and expires",
        file=f"{_QUERIES}/query_commits.py",
        replace="        return now_s - done.time_s >= self._refresh_s\n",
        by="        return False\n",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="a query that follows overwrites unseen what is stored",
        file=f"{_QUERIES}/query_commits.py",
        replace="            expected_revision=stored,\n",
        by="",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="two queries share a group and a topic in silence",
        file=f"{_QUERIES}/progress_ledger.py",
        replace="            if shared and query_id in running:\n",
        by="            if False:\n",
        caught_by=_LEDGER,
    ),
    Mutant(
        name="a commit that failed is given up",
        file=f"{_QUERIES}/progress_ledger.py",
        replace="        commits.failures += 1\n",
        by="        commits.failures += 1\n        commits.drop()\n",
        caught_by=_LISTENER,
    ),
    Mutant(
        name="an event that is no progress is raised into Spark",
        file=f"{_QUERIES}/listener.py",
        replace="            error = raised\n",
        by="            raise\n",
        caught_by=_LISTENER,
    ),
    Mutant(
        name="the end of a query is not waited for",
        file=f"{_QUERIES}/listener.py",
        replace="if not each.isActive]",
        by="if each.isActive]",
        caught_by=_LISTENER,
    ),
)
