"""The Spark session of a job, and its progress."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from logging import LogRecord, getLogger
from pathlib import Path
from typing import Annotated, Any, Final
from uuid import uuid4

import attrs
import typer
from offsetd_clients.cli.printing.terminal import EXIT_FAILED, ProgressReport, Terminal
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from offsetd_pipeline.files import has_program
from offsetd_pipeline.source import PUSHDOWN_SETTING, register

_POLL_S: Final = 0.2
_LOCAL: Final = "local[*]"

MasterOption = Annotated[
    str,
    typer.Option(
        metavar="URL",
        help="Spark's master, as spark://HOST:PORT; default: that of spark-submit, or this "
        "machine.",
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; repeatable."),
]
PyFilesOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help="A zipped wheel that executors need; repeatable."),
]


@attrs.frozen(kw_only=True)
class SparkOptions:
    """The Spark options of a job. `settings` has `key=value` texts for other settings."""

    master: str = ""
    settings: Sequence[str] = ()
    py_files: Sequence[str] = ()


@contextmanager
def job_session(
    job: str, options: SparkOptions, terminal: Terminal, *, failed: int = EXIT_FAILED
) -> Iterator[SparkSession]:
    """A session with `format("offsetd")`. It is stopped at the end, unless it existed before.

    Without `--master`, the session uses the master of spark-submit, else all cores of this machine.
    Wrong settings end the command; so does a missing Java, with exit code `failed`.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        register(running)
        yield running
        return
    _check_java(terminal, failed)
    getLogger().addFilter(is_not_of_py4j)
    with as_file(files(__package__) / "log4j2.properties") as logging:
        handler = signal.getsignal(signal.SIGINT)
        try:
            session = _builder(job, options, str(logging), terminal).getOrCreate()
        except PySparkException as error:
            terminal.fail(f"Spark does not start: {str(error).splitlines()[0]}", failed)
        # Spark's own handler calls Java from within a call, and fails. `told_progress` cancels the
        # jobs instead.
        signal.signal(signal.SIGINT, handler)
        try:
            register(session)
            # Each query of a job loads its own table, so filters may be pushed down.
            session.conf.set(PUSHDOWN_SETTING, "true")
            yield session
        finally:
            session.stop()


def is_not_of_py4j(record: LogRecord) -> bool:
    """A filter for the root logger: py4j logs each error that it raises, with a trace."""
    return "py4j" not in Path(record.pathname).parts


def _check_java(terminal: Terminal, failed: int) -> None:
    """Searches for Java as Spark does, but gives a better explanation."""
    home = os.environ.get("JAVA_HOME")
    if home and not has_program(f"{home}/bin/java"):
        terminal.fail(f"Spark needs Java 17 or newer: JAVA_HOME={home} has no bin/java", failed)
    if not home and not has_program("java"):
        terminal.fail(
            "Spark needs Java 17 or newer: no `java` is found, and JAVA_HOME is not set", failed
        )


def _builder(job: str, options: SparkOptions, logging: str, terminal: Terminal) -> Any:
    # Spark's own types do not know `builder`.
    builder: Any = SparkSession.builder
    settings = {
        "spark.app.name": f"offsetd {job}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{logging}",
        **_given_settings(options.settings, terminal),
    }
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if options.master or not is_submitted:
        master = options.master or settings.get("spark.master", _LOCAL)
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            # Most of Spark's default of 200 partitions would be empty, and each takes some time.
            settings.setdefault("spark.sql.shuffle.partitions", str(4 * (os.cpu_count() or 1)))
            settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
            settings.setdefault("spark.driver.host", "127.0.0.1")
    if options.py_files:
        settings["spark.submit.pyFiles"] = ",".join(options.py_files)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _given_settings(texts: Sequence[str], terminal: Terminal) -> dict[str, str]:
    given = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.startswith("spark."):
            terminal.fail(f"--conf is spark.NAME=VALUE, not {text!r}", code=2)
        given[name] = value
    return given


@contextmanager
def told_progress(spark: SparkSession, report: ProgressReport, what: str) -> Iterator[None]:
    """During the `with` block, reports the number of Spark's finished tasks, as `what`."""
    context = spark.sparkContext
    group, is_over = str(uuid4()), threading.Event()
    context.setJobGroup(group, what, interruptOnCancel=True)

    def watch() -> None:
        tracker = context.statusTracker()
        while not is_over.wait(_POLL_S):
            jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group)]
            stages = [tracker.getStageInfo(each) for job in jobs if job for each in job.stageIds]
            known = [each for each in stages if each is not None]
            done = sum(each.numCompletedTasks for each in known)
            report(done, sum(each.numTasks for each in known), what)

    report(0, 0, what)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        context.cancelJobGroup(group)
        raise
    finally:
        is_over.set()
        thread.join()
        context.setLocalProperty("spark.jobGroup.id", "")
