"""A server that answers as it is told, for tests of the client and of the command line."""

from collections.abc import Callable, Iterator

import pytest
from fake_server import EitherClient, FakeServer, serving
from google.rpc.code_pb2 import Code
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from offsetd_clients import AsyncOffsetClient, OffsetClient


@pytest.fixture
def fake_server() -> Iterator[FakeServer]:
    """Listens on a port of its own."""
    with serving() as fake:
        yield fake


@pytest.fixture
def other_server() -> Iterator[FakeServer]:
    """Another one."""
    with serving() as fake:
        yield fake


@pytest.fixture(params=[OffsetClient, AsyncOffsetClient])
def connect(request: pytest.FixtureRequest) -> Callable[..., EitherClient]:
    """Makes a client."""
    return lambda *arguments, **options: EitherClient(request.param(*arguments, **options))


@pytest.fixture
def failed() -> Callable[..., Status]:
    """Makes the status of a refused call, as the server sends it."""

    def make(
        code: str,
        reason: str,
        message: str = "it went wrong",
        *,
        retry_after_ms: int | None = None,
        violations: dict[str, str] | None = None,
        **details: str,
    ) -> Status:
        status = Status(code=Code.Value(code), message=message)
        status.details.add().Pack(ErrorInfo(reason=reason, domain="offsetd", metadata=details))
        if retry_after_ms is not None:
            retry = RetryInfo()
            retry.retry_delay.FromMilliseconds(retry_after_ms)
            status.details.add().Pack(retry)
        if violations:
            bad = [
                BadRequest.FieldViolation(field=field, description=description)
                for field, description in violations.items()
            ]
            status.details.add().Pack(BadRequest(field_violations=bad))
        return status

    return make
