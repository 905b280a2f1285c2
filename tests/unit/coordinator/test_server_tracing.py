"""The set-up of traces: off by default, and clear about the extra that it needs."""

from __future__ import annotations

import sys

import pytest
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.server_folder import StartFailed
from offsetd_coordinator.server_tracing import ServerTracing


def test_tracing_is_off_by_default() -> None:
    tracing = ServerTracing(Settings())
    assert tracing.calls is None
    tracing.close()


def test_a_start_without_the_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(StartFailed, match=r"pip install 'offsetd\[otel\]'"):
        ServerTracing(Settings(tracing_enable=True))


def test_a_client_without_the_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from offsetd_clients import OffsetClient

    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'offsetd\[otel\]'"):
        OffsetClient(tracing=True)
