"""offsetd_clients.calling.handshakes: whose connection failed, and what is left as it is."""

import pytest
from offsetd_clients.calling.handshakes import explained

FAILED = "failed to connect to all addresses; last error: UNAVAILABLE: "


@pytest.mark.parametrize(
    ("peer", "shown"),
    [
        ("ipv4:127.0.0.1:7171: ", "127.0.0.1:7171"),
        ("ipv6:%5B::1%5D:7171: ", "[::1]:7171"),
        ("unix:/run/offsetd.sock: ", "the server"),
    ],
)
def test_the_server_is_named_as_people_write_it(peer: str, shown: str) -> None:
    told = explained(f"{FAILED}{peer}Socket closed", None)
    assert told.startswith(f"{shown} hung up, as a TLS port does")
    assert told.endswith(f"({FAILED}{peer}Socket closed)")


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Socket closed",  # A connection that was in use.
        f"{FAILED}ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused",
        "User:app has no right to Read Group billing",
    ],
)
def test_other_failures_are_left_as_they_are(message: str) -> None:
    assert explained(message, None) == message
