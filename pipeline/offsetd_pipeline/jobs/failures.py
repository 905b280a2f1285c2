"""The errors that end a job, as one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from offsetd_clients import OffsetdError
from offsetd_clients.cli.printing.plain_text import error_words
from offsetd_clients.cli.printing.terminal import EXIT_FAILED, EXIT_WRONG_USE, Terminal
from offsetd_clients.migration.values import MigrationError
from offsetd_storage.errors import StorageError
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from offsetd_pipeline.archive.manifests import ArchiveError
from offsetd_pipeline.offset_sources import BadSource

SPARK_ERRORS = (PySparkException, Py4JJavaError)


@contextmanager
def told_failures(terminal: Terminal, *, failed: int = EXIT_FAILED) -> Iterator[None]:
    """Ends the command on an error, with exit code `failed`, or 2 for an invalid source."""
    try:
        yield
    except BadSource as error:
        terminal.fail(str(error), EXIT_WRONG_USE)
    except OffsetdError as error:
        terminal.fail(f"{error.reason}: {error}" if error.reason else f"no answer: {error}", failed)
    except (MigrationError, ArchiveError, StorageError, OSError, ValueError) as error:
        terminal.fail(error_words(error), failed)
    except SPARK_ERRORS as error:
        terminal.fail(cause_of(error), failed)


def cause_of(error: Exception) -> str:
    """The cause of a failure: the end of a task's trace, else the start of Spark's text."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ends = [
        number
        for number, line in enumerate(lines)
        if line.startswith('File "') and number + 1 < len(lines)
    ]
    if not ends:
        return lines[0] if lines else type(error).__name__
    for line in lines[ends[-1] + 1 :]:
        name, colon, told = line.partition(": ")
        if colon and name.replace(".", "").replace("_", "").isalnum():
            return f"{name.rpartition('.')[2]}: {told}"
    return lines[0]
