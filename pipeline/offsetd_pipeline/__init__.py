"""Offsets as data: tables for Spark, read from data folders and from servers.

from offsetd_pipeline import register

register(spark)
spark.read.format("offsetd").load("path/of/a/data/folder").show()
"""

from offsetd_pipeline.source import OffsetdSource, register
from offsetd_pipeline.starting_offsets import Uncommitted, starting_offsets

__all__ = ["OffsetdSource", "Uncommitted", "register", "starting_offsets"]
