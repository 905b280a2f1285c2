"""The metrics port beyond loopback: TLS, a token, and readers that mean harm."""

from __future__ import annotations

import socket
import ssl
import threading
import urllib.error
import urllib.request
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest
from certificates import Authority, Issued
from offsetd_coordinator.observability.endpoint_security import EndpointSecurity
from offsetd_coordinator.observability.metrics import endpoint
from offsetd_coordinator.observability.metrics.endpoint import MetricsEndpoint
from offsetd_coordinator.observability.metrics.families import gauge
from offsetd_coordinator.security.certificates import ServerCertificates
from offsetd_coordinator.security.watched_file import WatchedFile
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector
from scrapes import Scrape
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prometheus_client import Metric

AUTHORITY: Final = Authority("the authority of the metrics port")
FIRST: Final = AUTHORITY.issue("first")
SECOND: Final = AUTHORITY.issue("second")
TOKEN: Final = "the-token"
WRONG: Final = (
    *(None, "", "Bearer", "Bearer ", TOKEN, f"Bearer {TOKEN} x", f"Bearer{TOKEN}"),
    *(f"Basic {TOKEN}", f"Bearer {TOKEN.upper()}", f"Bearer {TOKEN}\u00e9", f"Bearer {TOKEN[:-1]}"),
)
MANY: Final = 100
"""More connections than the port keeps waiting."""


class Documented(Collector):
    """One metric, whose documentation may be long. It may have to wait for a permit."""

    def __init__(self) -> None:
        self.documentation = "A metric."
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.arrivals = threading.Semaphore(0)

    def collect(self) -> Iterator[Metric]:
        self.arrivals.release()
        assert self.may_go_on.wait(60)
        yield gauge("offsetd_answer", self.documentation, 42)


class Port:
    """An open metrics port, its files, and its readers."""

    def __init__(self, folder: Path) -> None:
        self.certificate = folder / "server.pem"
        self.key = folder / "server.key"
        self.token = folder / "token"
        self.put(FIRST)
        self.token.write_text(TOKEN)
        self.certificates = ServerCertificates(self.certificate, self.key, None)
        token = WatchedFile(self.token, parse_token, "token")
        self.collector = Documented()
        registry = CollectorRegistry()
        registry.register(self.collector)
        security = EndpointSecurity(self.certificates, token)
        self.endpoint = MetricsEndpoint("127.0.0.1:0", registry, security=security)
        self.context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())

    def put(self, issued: Issued) -> None:
        self.certificate.write_bytes(issued.certificate_pem)
        self.key.write_bytes(issued.key_pem)

    def read(self, authorization: str | None = f"Bearer {TOKEN}", path: str = "/metrics") -> str:
        """What a reader gets. Raises URLError."""
        headers = {} if authorization is None else {"Authorization": authorization}
        url = f"https://{self.endpoint.address}{path}"
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=60, context=self.context) as answer:
            text: str = answer.read().decode()
            return text

    def code(self, authorization: str | None = f"Bearer {TOKEN}", path: str = "/metrics") -> int:
        try:
            self.read(authorization, path)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        return 200

    def connected(self, receive_bytes: int | None = None) -> socket.socket:
        host, _, port = self.endpoint.address.rpartition(":")
        connection = socket.socket()
        if receive_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        connection.settimeout(60)
        connection.connect((host, int(port)))
        return connection

    def secured(
        self, context: ssl.SSLContext | None = None, receive_bytes: int | None = None
    ) -> ssl.SSLSocket:
        return (context or self.context).wrap_socket(
            self.connected(receive_bytes),
            server_hostname="127.0.0.1",
            suppress_ragged_eofs=False,
        )


def parse_token(content: bytes) -> bytes:
    if not content:
        raise ValueError("no token")
    return content


def request_of(token: str = TOKEN) -> bytes:
    return f"GET /metrics HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode()


def subject_name(connection: ssl.SSLSocket) -> str:
    certificate = connection.getpeercert()
    assert certificate is not None
    subject: object = certificate["subject"]
    return str(subject)


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Port]:
    # No reader is closed because it is slow: this machine may be.
    monkeypatch.setattr(endpoint, "_SILENCE_SECONDS_MAX", 600.0)
    monkeypatch.setattr(endpoint._Handler, "timeout", 600.0)
    port = Port(tmp_path)
    yield port
    port.collector.may_go_on.set()
    port.endpoint.close()


class TestToken:
    def test_the_token_lets_in(self, port: Port) -> None:
        for scheme in ("Bearer", "bearer", "BEARER", "Bearer  "):
            assert Scrape.of(port.read(f"{scheme} {TOKEN}")).value("offsetd_answer") == 42

    def test_a_stranger_learns_nothing(self, port: Port) -> None:
        for path in ("/metrics", "/metrics?name[]=x", "/", "/other"):
            assert [port.code(each, path) for each in WRONG] == [401] * len(WRONG)

    def test_a_new_token_counts_at_once(self, port: Port) -> None:
        assert port.code() == 200
        part = port.token.with_suffix(".part")
        part.write_text("another")
        part.replace(port.token)
        assert port.code() == 401
        assert port.code("Bearer another") == 200

    def test_an_empty_file_leaves_the_old_token(self, port: Port) -> None:
        port.token.write_text("")
        for _ in range(3):
            assert port.code("Bearer ") == 401
            assert port.code() == 200


class TestTls:
    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_newer_versions_are_spoken(self, port: Port, version: ssl.TLSVersion) -> None:
        port.context.minimum_version = port.context.maximum_version = version
        with port.secured() as connection:
            assert connection.version() == version.name.replace("_", ".")

    @pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
    def test_older_versions_are_refused(self, port: Port) -> None:
        port.context.set_ciphers("ALL:@SECLEVEL=0")
        port.context.minimum_version = ssl.TLSVersion.TLSv1
        port.context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            port.secured()

    def test_plain_text_gets_no_answer(self, port: Port) -> None:
        with port.connected() as connection:
            connection.sendall(request_of())
            assert b"HTTP" not in received(connection)

    def test_a_new_certificate_counts_for_new_connections(self, port: Port) -> None:
        with port.secured() as old:
            assert "first" in subject_name(old)
            port.put(SECOND)
            assert port.certificates.refresh()
            with port.secured() as new:
                assert "second" in subject_name(new)
            old.sendall(request_of())
            assert b"offsetd_answer 42" in received(old)

    def test_half_replaced_files_leave_the_old_certificate(self, port: Port) -> None:
        port.certificate.write_bytes(SECOND.certificate_pem)
        assert not port.certificates.refresh()
        with port.secured() as connection:
            assert "first" in subject_name(connection)
        port.key.write_bytes(SECOND.key_pem)
        assert port.certificates.refresh()
        with port.secured() as connection:
            assert "second" in subject_name(connection)

    def test_files_that_are_wrong_after_the_look_leave_the_old_certificate(
        self, port: Port
    ) -> None:
        port.put(SECOND)
        assert port.certificates.refresh()
        port.key.write_bytes(FIRST.key_pem)
        with port.secured() as connection:
            assert "first" in subject_name(connection)
        port.key.write_bytes(SECOND.key_pem)
        with port.secured() as connection:
            assert "second" in subject_name(connection)


class TestEndOfAnAnswer:
    @pytest.mark.parametrize("token", [TOKEN, "wrong"])
    def test_a_whole_answer_has_the_end_of_tls(self, port: Port, token: str) -> None:
        with port.secured() as connection:
            connection.sendall(request_of(token))
            assert received(connection).startswith(b"HTTP/1.0 ")

    def test_a_cut_answer_has_not(self, port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(endpoint._Handler, "timeout", 0.2)
        port.collector.documentation = "long " * 4_000_000
        with port.secured(receive_bytes=4096) as connection:
            connection.sendall(request_of())
            assert port.collector.arrivals.acquire(timeout=60)
            poll(lambda: not readers_are_served(), 60)
            with pytest.raises(OSError, match=r"EOF|reset"):
                received(connection)


class TestManyReaders:
    def test_silent_connections_keep_no_reader_out(self, port: Port) -> None:
        with ExitStack() as opened:
            silent = [opened.enter_context(port.connected()) for _ in range(MANY)]
            assert port.code() == 200
            assert received(silent[0]) == b"", "the oldest is closed"

    def test_half_a_handshake_keeps_no_reader_out(self, port: Port) -> None:
        with ExitStack() as opened:
            for _ in range(MANY):
                # A record of a handshake, of which one byte of 512 comes.
                opened.enter_context(port.connected()).sendall(b"\x16\x03\x01\x02\x00\x01")
            assert port.code() == 200

    def test_half_a_request_keeps_no_reader_out(self, port: Port) -> None:
        with ExitStack() as opened:
            for _ in range(MANY):
                opened.enter_context(port.secured()).sendall(b"GET /metrics HTTP/1.1\r\nA: b")
            assert port.code() == 200

    def test_one_silent_connection_is_left_in_peace(self, port: Port) -> None:
        with port.secured() as connection:
            assert port.code() == 200
            connection.sendall(request_of())
            assert b"offsetd_answer 42" in received(connection)

    def test_a_reader_that_is_served_is_not_closed_for_others(self, port: Port) -> None:
        port.collector.may_go_on.clear()
        with port.secured() as connection, ExitStack() as opened:
            connection.sendall(request_of())
            assert port.collector.arrivals.acquire(timeout=60)
            for _ in range(MANY):
                opened.enter_context(port.connected())
            assert port.code("Bearer wrong") == 401
            port.collector.may_go_on.set()
            assert b"offsetd_answer 42" in received(connection)

    def test_one_reader_too_many_is_told(self, port: Port) -> None:
        port.collector.may_go_on.clear()
        with ExitStack() as opened:
            readers = [opened.enter_context(port.secured()) for _ in range(8)]
            for reader in readers:
                reader.sendall(request_of())
                assert port.collector.arrivals.acquire(timeout=60)
            assert port.code() == 503
            port.collector.may_go_on.set()
            for reader in readers:
                assert b"offsetd_answer 42" in received(reader)
        assert port.code() == 200


def received(connection: socket.socket) -> bytes:
    """Everything until the end. Raises OSError if TLS has no end."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)


def readers_are_served() -> bool:
    return any("process_request_thread" in each.name for each in threading.enumerate())
