"""Planted bugs of writing from Spark."""

from __future__ import annotations

from mutants.planted import Mutant

_TESTS = "tests/unit/pipeline/writing"
_REQUESTS = f"{_TESTS}/test_commit_requests.py"
_WRITER = f"{_TESTS}/test_writer.py"

SPARK_WRITE_MUTANTS = (
    Mutant(
        name="each attempt of a write has request ids of its own",
        where="offsetd_pipeline.writing.commit_requests:RequestMaker.__init__",
        replace="hashlib.blake2b(name.encode(), digest_size=32).digest()",
        by="__import__('os').urandom(32)",
        caught_by=_REQUESTS,
    ),
    Mutant(
        name="a job's name is the whole request id, whatever is written",
        where="offsetd_pipeline.writing.commit_requests:RequestMaker._id_of",
        replace="hashlib.blake2b(content, digest_size=16",
        by="hashlib.blake2b(b'', digest_size=16",
        caught_by=_REQUESTS,
    ),
    Mutant(
        name="all batches of a query have one name",
        where="offsetd_pipeline.writing.writer:OffsetdStreamWriter.commit",
        replace='name = f"{message.query_id}-{batchId}"',
        by='name = f"{message.query_id}"',
        caught_by=_WRITER,
    ),
    Mutant(
        name="the good rows of a group are written without the bad one",
        where="offsetd_pipeline.writing.writer:_whole",
        replace="if group.group_id in found:",
        by="if group.group_id in ():",
        caught_by=_WRITER,
    ),
    Mutant(
        name="of two rows for one partition any is written",
        where="offsetd_pipeline.writing.writer:_whole",
        replace="elif group.repeated:",
        by="elif ():",
        caught_by=_WRITER,
    ),
    Mutant(
        name="rows of several tasks come in the order of the tasks",
        where="offsetd_pipeline.writing.written_groups:GroupedRows.__init__",
        replace='np.lexsort((ranks, partitions, keys["topic"], keys["group"]))',
        by='np.lexsort((keys["group"],))',
        caught_by=f"{_TESTS}/test_written_groups.py",
    ),
    Mutant(
        name="a server that is away is the rows' fault",
        where="offsetd_pipeline.writing.commit_sender:CommitSender._note_error",
        replace="if not isinstance(error, _REFUSALS) or error.retriable:",
        by="if ():",
        caught_by=_WRITER,
    ),
    Mutant(
        name="what an earlier attempt has stored is in the way of the next",
        where="offsetd_pipeline.writing.commit_sender:CommitSender._note_error",
        replace="elif isinstance(error, OffsetConflict) and self._is_stored(group, error):",
        by="elif ():",
        caught_by=_WRITER,
    ),
    Mutant(
        name="a number that does not fit is cut",
        where="offsetd_pipeline.writing.packed_rows:_checked_numbers",
        replace="numbers > _INT32_MAX",
        by="numbers > 1 << 62",
        caught_by=f"{_TESTS}/test_packed_rows.py",
    ),
    Mutant(
        name="of several rows of a partition the earliest counts",
        where="offsetd_pipeline.writing.written_groups:_is_latest",
        replace="ranks == ranks[is_last][run]",
        by="ranks != ranks[is_last][run]",
        caught_by=f"{_TESTS}/test_written_groups.py",
    ),
)
