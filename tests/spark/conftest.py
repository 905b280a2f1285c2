"""A session for all Spark tests of a worker: starting one takes as long as many tests.

Without Java they skip, or fail if OFFSETD_REQUIRE asks for Spark.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import calls_of
from interop.spark_kafka import spark_kafka_jars

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cli_calls import Ended
    from pyspark.sql import DataFrame, SparkSession

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-4.1.1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need Spark, and mind none of the warnings that come with it."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker("spark")
            item.add_marker(pytest.mark.filterwarnings("ignore::FutureWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def java() -> None:
    """Spark can be run here; else the test is skipped, or fails."""
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        if "spark" in os.environ.get("OFFSETD_REQUIRE", "").split(","):
            pytest.fail("OFFSETD_REQUIRE asks for Spark: there is no Java", pytrace=False)
        pytest.skip("Spark cannot be run here: there is no Java")


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session that knows the format, and pushes filters down."""
    from offsetd_pipeline import register
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    builder: Any = SparkSession.builder
    session = (
        builder.master("local[2,2]")  # A task is tried twice.
        .appName("offsetd tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.jars", spark_kafka_jars())
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # Queries are short: compiling them well takes longer than they run.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")  # Tests expect failures, and look at exceptions.
    logging.getLogger("py4j").setLevel(logging.ERROR)
    register(session)
    yield session
    session.stop()


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """`job("audit", folder)` calls a job in this process, and in the session that there is."""
    from offsetd_pipeline.jobs.application import JOBS

    return calls_of(JOBS, monkeypatch)


@pytest.fixture
def read(spark: SparkSession) -> Callable[..., DataFrame]:
    """`read(folder, mode, option=value)` is a table."""

    def read(folder: Path, mode: str, **options: object) -> DataFrame:
        reader = spark.read.format("offsetd").option("mode", mode)
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load(str(folder))

    return read


@pytest.fixture(scope="session")
def golden() -> Path:
    """What a broker wrote (`data`), what its tool prints of it, and what it answered."""
    return GOLDEN


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times come to Python as they are in UTC."""
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
