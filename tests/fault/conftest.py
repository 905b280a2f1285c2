"""What tests of a server in a process of its own share; each module has its own `server`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from offsetd_clients import OffsetClient, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server_process import ServerProcess

CLIENT_WAIT_S = 60

_names = itertools.count()


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[OffsetClient]:
    """A client of the module's server."""
    with OffsetClient(server.address, retry=RetryPolicy(timeout_s=CLIENT_WAIT_S)) as client:
        yield client


@pytest.fixture
def group() -> str:
    """A name that no other test has."""
    return f"group-{next(_names)}"
