"""Which transport serves: by the setting, and by what is installed."""

from __future__ import annotations

import importlib.util

import pytest
from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.network.transports import TransportMissing, transport_of


def test_the_default_is_grpcio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    assert transport_of(Settings()) == "grpcio"


@pytest.mark.parametrize(
    ("setting", "is_installed", "transport"),
    [
        ("auto", True, "wire"),
        ("auto", False, "grpcio"),
        ("wire", True, "wire"),
        ("grpcio", True, "grpcio"),
        ("grpcio", False, "grpcio"),
    ],
)
def test_auto_takes_the_wire_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, setting: str, is_installed: bool, transport: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: is_installed or None)
    assert transport_of(Settings(transport=setting)) == transport


def test_wire_that_is_not_installed_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TransportMissing, match="install the extra wire, or set transport=grpcio"):
        transport_of(Settings(transport="wire"))
