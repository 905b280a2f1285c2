"""What to do where a test's means are missing: skip and say so, or fail if the run asks for it."""

import os
from typing import NoReturn

import pytest


def no_kafka(reason: str) -> NoReturn:
    """Skips the test, or at import the module; fails it if OFFSETD_REQUIRE names kafka."""
    if "kafka" in os.environ.get("OFFSETD_REQUIRE", "").split(","):
        pytest.fail(f"OFFSETD_REQUIRE asks for a Kafka broker: {reason}", pytrace=False)
    pytest.skip(f"no Kafka broker can be run here: {reason}", allow_module_level=True)
