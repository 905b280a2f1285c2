"""`offsetd admin health`: one question, and the exit code is the answer."""

from __future__ import annotations

import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from google.rpc import code_pb2
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2
from offsetd_clients.cli.application import run
from offsetd_clients.cli.printing.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable

SERVING = health_pb2.HealthCheckResponse(status="SERVING")
NOT_SERVING = health_pb2.HealthCheckResponse(status="NOT_SERVING")


@pytest.fixture
def health(fake_server: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setenv("OFFSETD_ADDRESS", fake_server.address)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["offsetd", "admin", "health", *arguments])
        stdout, stderr = StringIO(), StringIO()
        code = run(Terminal(stdout, stderr))
        return code, stdout.getvalue(), stderr.getvalue()

    return call


def test_a_server_that_serves_is_healthy(fake_server: Any, health: Callable[..., Any]) -> None:
    fake_server.will_answer("Check", SERVING)
    code, stdout, _ = health()
    assert (code, stdout.split()) == (0, ["SERVICE", "SERVING", "server", "true"])
    assert [each.service for each in fake_server.requests] == [""]


def test_a_service_that_does_not_serve_is_named(
    fake_server: Any, health: Callable[..., Any]
) -> None:
    fake_server.will_answer("Check", SERVING, NOT_SERVING)
    code, stdout, stderr = health("", "offsetd.cleaner", "-o", "csv")
    assert code == 1
    assert stdout.split() == ["service,serving", "server,true", "offsetd.cleaner,false"]
    assert "not serving: offsetd.cleaner" in stderr
    assert [each.service for each in fake_server.requests] == ["", "offsetd.cleaner"]


def test_a_service_that_there_is_not_is_named(fake_server: Any, health: Callable[..., Any]) -> None:
    fake_server.will_answer("Check", Status(code=code_pb2.NOT_FOUND))
    code, stdout, stderr = health("offsetd.clenaer")
    assert (code, stdout) == (1, "")
    assert "the server has no service 'offsetd.clenaer'" in stderr
