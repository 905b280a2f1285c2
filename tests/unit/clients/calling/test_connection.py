"""offsetd_clients.calling.connection: which addresses are some."""

from __future__ import annotations

import pytest
from offsetd_clients import OffsetClient
from offsetd_clients.calling.connection import ADDRESS_DEFAULT, address_of


@pytest.mark.parametrize(
    "address", ["localhost:7171", "10.0.0.1:0", "[::1]:65535", "unix:offsetd.sock", "dns:///a:1"]
)
def test_what_is_an_address_stays_as_it_is(address: str) -> None:
    assert address_of(address) == address


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:65536", "::1:7171", "a:", "a:b", ":1"])
def test_what_is_none_is_said_before_anything_is_sent(address: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        OffsetClient(address)


def test_without_one_it_is_the_environments_else_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OFFSETD_ADDRESS", raising=False)
    assert address_of(None) == ADDRESS_DEFAULT
    monkeypatch.setenv("OFFSETD_ADDRESS", "a:1")
    assert address_of(None) == "a:1"
