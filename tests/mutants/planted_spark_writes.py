"""Planted bugs of writing from Spark."""

from __future__ import annotations

from mutants.planted import Mutant

_WRITING = "pipeline/offsetd_pipeline/writing"
_TESTS = "tests/unit/pipeline/writing"
_REQUESTS = f"{_TESTS}/test_commit_requests.py"
_WRITER = f"{_TESTS}/test_writer.py"

SPARK_WRITE_MUTANTS = (
    Mutant(
        name="each attempt of a write has request ids of its own",
        file=f"{_WRITING}/commit_requests.py",
        replace="hashlib.blake2b(name.encode(), digest_size=32).digest()",
        by="__import__('os').urandom(32)",
        caught_by=_REQUESTS,
    ),
    Mutant(
        name="a job's name is the whole request id, whatever is written",
        file=f"{_WRITING}/commit_requests.py",
        replace="hashlib.blake2b(content, digest_size=16",
        by="hashlib.blake2b(b'', digest_size=16",
        caught_by=_REQUESTS,
    ),
    Mutant(
        name="all batches of a query have one name",
        file=f"{_WRITING}/writer.py",
        replace='name = f"{message.query_id}-{batchId}"',
        by='name = f"{message.query_id}"',
        caught_by=_WRITER,
    ),
    Mutant(
        name="the good rows of a group are written without the bad one",
        file=f"{_WRITING}/writer.py",
        replace="if group.group_id in found:",
        by="if group.group_id in ():",
        caught_by=_WRITER,
    ),
    Mutant(
        name="of two rows for one partition any is written",
        file=f"{_WRITING}/writer.py",
        replace="elif group.repeated:",
        by="elif ():",
        caught_by=_WRITER,
    ),
    Mutant(
        name="rows of several tasks come in the order of the tasks",
        file=f"{_WRITING}/written_groups.py",
        replace='np.lexsort((ranks, partitions, keys["topic"], keys["group"]))',
        by='np.lexsort((keys["group"],))',
        caught_by=f"{_TESTS}/test_written_groups.py",
    ),
    Mutant(
        name="a server that is away is the rows' fault",
        file=f"{_WRITING}/commit_sender.py",
        replace="if not isinstance(error, _REFUSALS) or error.retriable:",
        by="if ():",
        caught_by=_WRITER,
    ),
    Mutant(
        name="what an earlier attempt has stored is in the way of the next",
        file=f"{_WRITING}/commit_sender.py",
        replace="elif isinstance(error, OffsetConflict) and self._is_stored(group, error):",
        by="elif ():",
        caught_by=_WRITER,
    ),
    Mutant(
        name="a number that does not fit is cut",
        file=f"{_WRITING}/packed_rows.py",
        replace="numbers > _INT32_MAX",
        by="numbers > 1 << 62",
        caught_by=f"{_TESTS}/test_packed_rows.py",
    ),
    Mutant(
        name="of several rows of a partition the earliest counts",
        file=f"{_WRITING}/written_groups.py",
        replace="ranks == ranks[is_last][run]",
        by="ranks != ranks[is_last][run]",
        caught_by=f"{_TESTS}/test_written_groups.py",
    ),
)
