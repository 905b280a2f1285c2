"""Kafka's dump tool, and what it says that is wrong."""

from collections.abc import Sequence
from pathlib import Path

from deploy.kafka.kafka_runtime import Runtime, Said

COMPLAINTS = (
    "Mismatches in",
    "mismatch",
    "out of order",
    "Non-consecutive",
    "invalid",
    "Could not",
)


def dump(runtime: Runtime, folder: Path, files: Sequence[str], *options: str) -> Said:
    """Dumps files, by their paths in the folder."""
    return runtime.run(
        "kafka.tools.DumpLogSegments", [*options, "--files", ",".join(files)], folder
    )


def complaints(said: Said) -> list[str]:
    """The lines in which Kafka's tool says that something is wrong."""
    lines = [*said.stdout.splitlines(), *said.stderr.splitlines()]
    return [line for line in lines if any(word in line for word in COMPLAINTS)]
