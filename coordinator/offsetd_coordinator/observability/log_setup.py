"""Set-up of the server's log on stderr: readable lines on a terminal, else JSON lines."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from structlog.typing import EventDict, ExcInfo, Processor


@contextlib.contextmanager
def _as_if_not_installed(package: str) -> Iterator[None]:
    """A context in which this package counts as not installed."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # None makes its import fail.
    try:
        yield
    finally:
        del sys.modules[package]


# structlog imports Rich if it is installed. Rich is not used here, and costs a twentieth of a
# start.
with _as_if_not_installed("rich"):
    import structlog

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def set_up_logging(
    *, level: str, log_format: str, has_traces: bool = False, stream: TextIO = sys.stderr
) -> None:
    """Sets up the log. `log_format` is auto, console or json.

    The libraries' own loggers write to the same stream. With `has_traces`, lines of a traced call
    have the ids of its trace and its span.
    """
    for_people = log_format == "console" or (log_format == "auto" and stream.isatty())
    processors: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if has_traces and find_spec("opentelemetry") is not None:  # Else the start will fail.
        processors.append(_with_trace_ids)
    if for_people:
        processors += [
            _on_one_line,
            structlog.dev.ConsoleRenderer(
                colors=stream.isatty(), exception_formatter=_indented_traceback
            ),
        ]
    else:
        processors += [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(default=str, ensure_ascii=False),
        ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(file=cast("TextIO", _Unfailing(stream))),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_Forward()], force=True)


def _with_trace_ids(_: object, __: str, event: EventDict) -> EventDict:
    from opentelemetry import trace  # noqa: PLC0415  The extra `otel` has it.

    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event


def _on_one_line(_: object, __: str, event: EventDict) -> EventDict:
    """Escapes line ends and control characters, because clients may choose names and texts."""
    for name, value in event.items():
        if name != "exc_info":
            event[name] = _escaped(str(value))
    return event


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def _indented_traceback(stream: TextIO, exc_info: ExcInfo) -> None:
    """Indents a traceback, so that its lines cannot be mistaken for lines of the log."""
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    stream.writelines(f"\n    {_escaped(line)}" for line in text.getvalue().splitlines())


class _Unfailing:
    """A stream that ignores a full disk and a reader that is gone, so that logging never fails.

    It ignores too that the stream itself is closed: Python raises ValueError then.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


class _Forward(logging.Handler):
    """Passes log records of the standard module, which libraries use, to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("grpc.") and "ExecuteBatchError" in record.getMessage():
            return  # The client ended before its answer was sent: not an error.
        facts: dict[str, Any] = {"logger": record.name}
        if record.exc_info:
            facts["exc_info"] = record.exc_info
        structlog.get_logger().log(record.levelno, record.getMessage(), **facts)
