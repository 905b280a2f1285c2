"""A driver that is to be killed: a query that reads from Kafka one record a batch, and commits."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from offsetd_pipeline import OffsetCommitListener
from pyspark.sql import SparkSession


def main() -> None:
    settings = json.loads(sys.argv[1])
    builder: Any = SparkSession.builder
    spark = (
        builder.master("local[1]")
        .config("spark.jars", settings["jars"])
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.local.dir", settings["local"])
        .getOrCreate()
    )
    listener = OffsetCommitListener(settings["server"], settings["group"])
    spark.streams.addListener(listener)
    source = spark.readStream.format("kafka").option("subscribe", settings["topic"])
    source = source.option("kafka.bootstrap.servers", settings["broker"])
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "1")
    sink = source.load().writeStream.format("noop").queryName(settings["group"])
    sink.option("checkpointLocation", settings["checkpoint"]).start().awaitTermination()


os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
main()
