"""The two parts of the tests: `make test` runs the short one, `make test-rest` the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pytest

TESTS: Final = Path(__file__).parent
ALL, SHORT, REST = PARTS = ("all", "short", "rest")

# Whole folders of the rest, and what is in them.
REST_FOLDERS: Final = {
    "cluster": "nodes on three Kafka brokers (they need Java): killed, stopped, cut off",
    "deployment": "what is in deploy/, with the tools that read it (systemd, Prometheus, Helm)",
    "fault": "servers in processes of their own: killed, attacked, on a full disk; some need root",
    "interop": "Kafka and ZooKeeper (they need Java), and commands in processes of their own",
    "mutants": "planted bugs: for each, a test has to fail",
    "promises": "sentences of the documents, tried on servers in processes of their own",
    "security": "servers with TLS, identities and rules: who may call what",
    "sim": "crashes of a simulated disk",
    "spark": "the Spark pipeline (needs Java)",
    "web": "the pages of `offsetd web`, also in a Chromium",
}
# Single tests of the rest, in the other folders.
REST_MARKERS: Final = ("slow", "kafka", "zookeeper", "spark", "root")


def is_rest(item: pytest.Item) -> bool:
    """Whether `make test` leaves a test out."""
    return is_rest_path(item.path) or any(map(item.get_closest_marker, REST_MARKERS))


def is_rest_path(path: Path) -> bool:
    """Whether a file or folder is in a folder of the rest, or is one."""
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).parts[:1] in _REST_TOPS


def summary_lines() -> list[str]:
    """What the short part says at its end."""
    return [
        *(f"  {'tests/' + name:<15} {holds}" for name, holds in REST_FOLDERS.items()),
        f"  {'slow tests':<15} those with the marker `slow`, in the other folders",
        "`make test-rest` runs these, `make test-all` runs all tests.",
        "For one folder: make test ARGS=tests/sim",
    ]


_REST_TOPS: Final = [(name,) for name in REST_FOLDERS]
