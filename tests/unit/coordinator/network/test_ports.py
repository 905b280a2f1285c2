"""Ports: whether one can be listened on, and which one is free beside it."""

from __future__ import annotations

import errno
import socket

import pytest
from offsetd_coordinator.network.ports import listen_error, next_free_address


def test_a_port_is_taken_while_somebody_listens_on_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "{}:{}".format(*taken.getsockname())
        error = listen_error(address)
        assert error is not None
        assert error.errno == errno.EADDRINUSE
        near = next_free_address(address, error)
        assert near is not None
        assert near != address
        assert listen_error(near) is None
    assert listen_error(address) is None


@pytest.mark.parametrize("address", ["no.such.host.invalid:7171", "203.0.113.1:7171"])
def test_no_port_is_proposed_where_the_host_is_wrong(address: str) -> None:
    error = listen_error(address)
    assert error is not None
    assert "\n" not in str(error.strerror)
    assert next_free_address(address, error) is None


def test_after_the_last_port_none_is_proposed() -> None:
    taken = OSError(errno.EADDRINUSE, "Address already in use")
    assert next_free_address("127.0.0.1:65535", taken) is None


@pytest.mark.parametrize("address", ["unix:offsetd.sock", "unix-abstract:offsetd"])
def test_a_path_has_no_port(address: str) -> None:
    assert listen_error(address) is None
