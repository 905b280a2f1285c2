"""Every answer has the headers that protect it, that of a defect too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from offsetd_clients.web.application import application
from offsetd_clients.web.options import LOOPBACK_NAMES, WebOptions
from offsetd_clients.web.protection import HEADERS


def _never(*_: object) -> Any:
    raise RuntimeError("these pages have no client")


def test_the_answer_after_a_defect_is_protected() -> None:
    # Without its lifespan, the application has no client. That is a defect, as far as it knows.
    app = application(_never, WebOptions(host_names=LOOPBACK_NAMES, port=7172))
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": "/status",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"localhost")],
    }
    with pytest.raises(AssertionError):
        asyncio.run(app(scope, receive, send))
    begin = sent[0]
    assert begin["status"] == 500
    headers = {name.decode(): value.decode() for name, value in begin["headers"]}
    expected = {**HEADERS, "Cache-Control": "no-store"}
    assert {name.lower(): value for name, value in expected.items()}.items() <= headers.items()
