"""offsetd_coordinator.observability.log_setup"""

from __future__ import annotations

import json
import logging
from io import StringIO
from typing import TYPE_CHECKING

import pytest
import structlog
from offsetd_coordinator.observability.log_setup import set_up_logging

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _leave_logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def logged_defect(log_format: str) -> str:
    """The log of an error with its traceback, and of a line below the level."""
    stream = StringIO()
    set_up_logging(level="info", log_format=log_format, stream=stream)
    try:
        raise ZeroDivisionError("our own mistake")
    except ZeroDivisionError:
        structlog.get_logger().exception("a defect", folder="data")
    structlog.get_logger().debug("not shown")
    return stream.getvalue()


def test_lines_are_json_with_the_traceback_of_an_error() -> None:
    line = json.loads(logged_defect("json"))
    assert (line["event"], line["level"], line["folder"]) == ("a defect", "error", "data")
    assert "Traceback" in line["exception"]


def test_lines_for_people_end_with_a_plain_traceback() -> None:
    logged = logged_defect("console")
    assert "a defect" in logged
    assert "\n    Traceback (most recent call last):\n" in logged
    assert logged.endswith("\n    ZeroDivisionError: our own mistake\n")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_name_begins_a_line_of_its_own(log_format: str) -> None:
    forged = "x\n2026-11-20 [info] forged \x1b[2J\r\u2028"
    stream = StringIO()
    set_up_logging(level="info", log_format=log_format, stream=stream)
    structlog.get_logger().warning("a group is odd", group=forged)
    logging.getLogger("library").warning("of a library: %s", forged)
    assert stream.getvalue().count("\n") == 2
    assert "\x1b" not in stream.getvalue()
    try:
        raise ValueError(forged)
    except ValueError:
        structlog.get_logger().exception("a defect")
    lines = stream.getvalue().split("\n")
    assert not [line for line in lines if line.startswith("2026-11-20 [info] forged")]


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device"),
        BrokenPipeError(),
        ValueError("I/O operation on closed file."),
    ],
)
@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_log_that_takes_nothing_more_is_no_failure_of_the_server(
    error: Exception, log_format: str
) -> None:
    class Full(StringIO):
        def write(self, _text: str) -> int:
            raise error

        def flush(self) -> None:
            raise error

    set_up_logging(level="info", log_format=log_format, stream=Full())
    structlog.get_logger().error("the disk is full")
    logging.getLogger("library").warning("so it is")
