"""Spark's own Kafka source, for sessions of PySpark 4.2."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from deploy.kafka.maven_jars import JavaUnavailable, fetched_jars

# The libraries are those that its POM names; the rest is in PySpark. Of the token provider, which
# only clusters with delegation tokens use, no newer one is in all mirrors of Maven Central.
_ARTIFACTS: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def spark_kafka_jars() -> str:
    """The jars, as the setting `spark.jars` wants them; empty where they cannot be had or used."""
    if not version("pyspark").startswith("4.2."):
        return ""
    try:
        folder = fetched_jars("spark-kafka-4.2.0", _ARTIFACTS, with_dependencies=False)
    except JavaUnavailable:
        return ""
    return ",".join(sorted(map(str, folder.glob("*.jar"))))
