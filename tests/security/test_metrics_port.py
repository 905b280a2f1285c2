"""The metrics port with TLS and a token; and what metrics tell of callers."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from oidc_issuer import signing_key
from oidc_issuer import token as signed_token
from security.secured_server import (
    ACLS,
    GROUP,
    TOPIC,
    SecuredFiles,
    called,
    good_claims,
    request_of,
)
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from certificates import Authority

TOKEN = "a-token-of-prometheus"
SECONDS_MAX = 60
DAY_SECONDS = 86_400
COMMAND = "from offsetd_clients.cli.main import main; main()"


class Port:
    """The metrics port of a server."""

    def __init__(self, server: ServerProcess, files: SecuredFiles) -> None:
        self.server = server
        self.files = files
        address = str(server.wait_for_event("metrics served")["address"])
        self.host, _, port = address.rpartition(":")
        self.port = int(port)

    def read(self, token: str | None = TOKEN, scheme: str = "https") -> str:
        """What a reader gets. Raises URLError."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(
            f"{scheme}://{self.host}:{self.port}/metrics", headers=headers
        )
        context = ssl.create_default_context(cadata=self.files.authority.pem.decode())
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            text: str = answer.read().decode()
            return text

    def lets_in(self, token: str) -> bool:
        try:
            return "offsetd_rpcs_total" in self.read(token)
        except urllib.error.HTTPError:
            return False


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[Port]:
    folder: Path = tmp_path_factory.mktemp("metrics")
    files = SecuredFiles(folder, authority)
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "acls.toml").write_text(ACLS)
    settings = {
        **files.tls_settings,
        **files.token_settings,
        "security.acl.file": folder / "acls.toml",
        "metrics.ssl.enable": "true",
        "metrics.token.file": folder / "token",
    }
    with ServerProcess(folder / "data", settings=settings) as server:
        server.wait_until_serving()
        yield Port(server, files)


def test_a_reader_with_the_token_gets_the_metrics(port: Port) -> None:
    [ends] = re.findall(
        r"^offsetd_ssl_certificate_expiry_timestamp_seconds (\S+)$", port.read(), re.MULTILINE
    )
    assert 29 * DAY_SECONDS < float(ends) - time.time() < 31 * DAY_SECONDS


@pytest.mark.parametrize("token", [None, "", "another", TOKEN + "x", TOKEN[:-1]])
def test_without_the_token_there_is_nothing(port: Port, token: str | None) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        port.read(token)
    assert refused.value.code == 401
    assert refused.value.headers["WWW-Authenticate"] == "Bearer"
    assert refused.value.read() == b""


def test_plain_http_gets_no_answer(port: Port) -> None:
    with pytest.raises((OSError, urllib.error.URLError)):
        port.read(scheme="http")


def test_a_silent_connection_holds_nobody_up(port: Port) -> None:
    with socket.create_connection((port.host, port.port)):
        assert "offsetd_rpcs_total" in port.read()


def test_a_new_certificate_and_a_new_token_count(port: Port) -> None:
    before = ssl.get_server_certificate((port.host, port.port))
    new = port.files.authority.issue("server-new")
    (port.files.folder / "server.key").write_bytes(new.key_pem)
    (port.files.folder / "server.pem").write_bytes(new.certificate_pem)
    poll(lambda: ssl.get_server_certificate((port.host, port.port)) != before, SECONDS_MAX)
    path = port.files.folder / "token"
    path.write_text("another-token")
    poll(lambda: port.lets_in("another-token"), SECONDS_MAX)
    assert not port.lets_in(TOKEN)
    path.write_text(TOKEN)
    poll(lambda: port.lets_in(TOKEN), SECONDS_MAX)


@pytest.mark.parametrize("token", [TOKEN, "another", None])
def test_doctor_reads_the_port_with_the_token_of_its_environment(
    port: Port, token: str | None
) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "OFFSETD_ADDRESS": port.server.address,
        "OFFSETD_TLS_CA": str(port.files.folder / "ca.pem"),
        "OFFSETD_TOKEN": signed_token(signing_key("one", "ES256"), good_claims(sub="owner")),
    }
    if token is not None:
        environment["OFFSETD_METRICS_TOKEN"] = token
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            COMMAND,
            "doctor",
            "--metrics",
            f"{port.host}:{port.port}",
            "-o",
            "json",
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    [row] = [each for each in json.loads(ended.stdout) if each["check"] == "metrics"]
    if token == TOKEN:
        assert row["grade"] == "ok"
    else:
        assert row["what"].endswith("metrics.token.file: set OFFSETD_METRICS_TOKEN")


def test_refusals_are_counted_and_no_name_is_told(port: Port) -> None:
    address = port.server.address
    with port.files.channel(address) as channel:
        for method in ("CommitOffsets", "FetchOffsets"):
            outcome = called(channel, method, request_of(method))
            assert outcome.code is grpc.StatusCode.PERMISSION_DENIED
        bad = [("authorization", "Bearer nobody-knows")]
        outcome = called(channel, "ListGroups", request_of("ListGroups"), bad)
        assert outcome.code is grpc.StatusCode.UNAUTHENTICATED
    text = port.read()
    assert 'offsetd_authorization_refusals_total{operation="Read"} 1.0' in text
    assert 'offsetd_authorization_refusals_total{operation="Describe"} 1.0' in text
    assert "offsetd_authentication_failures_total 1.0" in text
    for name in (GROUP, TOPIC, "User:", "ANONYMOUS"):
        assert name not in text


@pytest.mark.parametrize("content", ["", "two words", "t\u00f6ken"])
def test_a_wrong_token_file_is_refused_at_the_start(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)
    settings = {"metrics.token.file": tmp_path / "token"}
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        assert server.wait_for_exit() == 1
    assert "the token is printable ASCII" in server.log


@pytest.mark.parametrize("named", [{}, {"metrics.address": None}], ids=["said", "default"])
def test_a_key_that_tls_refuses_is_no_matter_of_the_address(
    tmp_path: Path, named: dict[str, None]
) -> None:
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    put_weak(certificate, key)
    settings = {
        "ssl.certificate.file": certificate,
        "ssl.key.file": key,
        "metrics.ssl.enable": "true",
        **named,
    }
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        assert server.wait_for_exit() == 1
    assert f"{certificate}, {key}: not fit for TLS: EE_KEY_TOO_SMALL" in server.log
    assert "cannot listen" not in server.log
    assert "Errno" not in server.log


def put_weak(certificate_path: Path, key_path: Path) -> None:
    """A pair that fits, with a key that Python's TLS finds too short."""
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name.from_rfc4514_string("CN=localhost")
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=9))
    signed = builder.sign(key, hashes.SHA256())
    certificate_path.write_bytes(signed.public_bytes(Encoding.PEM))
    key_path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
