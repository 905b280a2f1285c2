"""What to do where a test's means are missing: skip and say so, or fail if the run asks for it."""

import os
from typing import NoReturn

import pytest


def no_kafka(reason: str) -> NoReturn:
    """Skips the test, or at import the module; fails it if OFFSETD_REQUIRE names kafka."""
    _missing("kafka", "Kafka broker", reason)


def no_zookeeper(reason: str) -> NoReturn:
    """The same for a ZooKeeper."""
    _missing("zookeeper", "ZooKeeper", reason)


def no_chromium(reason: str) -> NoReturn:
    """The same for a Chromium, and what drives it."""
    _missing("chromium", "Chromium", reason)


def no_go(reason: str) -> NoReturn:
    """The same for a Go, which builds the program."""
    _missing("go", "Go program", reason)


def no_java(reason: str) -> NoReturn:
    """The same for a Java, and Maven, which builds the program."""
    _missing("java", "Java program", reason)


def _missing(name: str, what: str, reason: str) -> NoReturn:
    if name in os.environ.get("OFFSETD_REQUIRE", "").split(","):
        pytest.fail(f"OFFSETD_REQUIRE asks for a {what}: {reason}", pytrace=False)
    pytest.skip(f"no {what} can be run here: {reason}", allow_module_level=True)
