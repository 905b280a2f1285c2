"""A notice that the first read on a machine waits for its kernels to be compiled."""

from __future__ import annotations

import functools
import sys
from typing import Final

from offsetd_storage.kernels.registry import registered_kernels
from pyspark import TaskContext

from offsetd_pipeline.kernels.records import read_batches

_EVERY_READING_HAS: Final = f"{read_batches.__module__}.{read_batches.__name__}"
_SAID: Final = (
    "offsetd: compiling kernels, once for this machine and version; the first query waits for it,"
    " half a minute or more\n"
)


@functools.cache
def say_if_kernels_compile() -> None:
    """Prints a line to stderr if kernels are not in the cache yet. Only one task prints it.

    A task's output appears where Spark runs: on this machine, or in an executor's log.
    """
    task = TaskContext.get()
    if task is not None and task.partitionId() != 0:
        return
    is_missing = any(
        not each.cache.holds_kernel()
        for each in registered_kernels()
        if each.name == _EVERY_READING_HAS
    )
    if is_missing:
        sys.stderr.write(_SAID)
        sys.stderr.flush()
