"""The names in certificates are Java's, and the server's files are read again, or kept."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Final

import attrs
import pytest
from certificates import Authority, Issued
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from offsetd_coordinator.security import certificates
from offsetd_coordinator.security.certificates import ServerCertificates
from structlog.testing import capture_logs

AUTHORITY: Final = Authority("test authority")


@attrs.frozen
class Files:
    """The files of a server, which an operator replaces."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        return self.folder / "server.key"

    @property
    def truststore(self) -> Path:
        return self.folder / "clients.pem"

    def put(self, issued: Issued) -> None:
        replace(self.certificate, issued.certificate_pem)
        replace(self.key, issued.key_pem)

    def opened(self) -> ServerCertificates:
        return ServerCertificates(self.certificate, self.key, self.truststore)


def replace(path: Path, content: bytes) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)


def issued_until(days: float) -> Issued:
    now = datetime.now(UTC)
    return AUTHORITY.issue(
        "localhost", not_before=now - timedelta(days=99), not_after=now + timedelta(days=days)
    )


LONG: Final = issued_until(90)
OTHER: Final = issued_until(91)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    files = Files(tmp_path)
    files.put(LONG)
    replace(files.truststore, AUTHORITY.pem)
    return files


LONG_AGO: Final = timedelta(days=180)
LATE: Final = datetime.now(UTC) + timedelta(days=90)


def self_signed(key: rsa.RSAPrivateKey) -> Issued:
    name = x509.Name.from_rfc4514_string("CN=localhost")
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, LATE - LONG_AGO, LATE)
    certificate = builder.sign(key, hashes.SHA256())
    return Issued(certificate.public_bytes(Encoding.PEM), other_key(key))


def other_key(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def with_password(pem: bytes) -> bytes:
    return load_pem_private_key(pem, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )


def refuse_read(path: Path) -> bytes:
    raise PermissionError(errno.EACCES, "not readable", str(path))


WRONG: Final = (
    ("server.pem", b"", "no certificates in PEM"),
    ("server.pem", b"nothing", "no certificates in PEM"),
    ("server.pem", LONG.key_pem, "no certificates in PEM"),
    ("server.pem", LONG.certificate_pem[:200], "no certificates in PEM"),
    ("server.pem", LONG.certificate_pem.replace(b"MII", b"AAA", 1), "no certificates in PEM"),
    ("server.key", b"", "no private key in PEM"),
    ("server.key", LONG.certificate_pem, "no private key in PEM"),
    ("server.key", LONG.key_pem[:100], "no private key in PEM"),
    ("server.key", with_password(LONG.key_pem), "the key has a password"),
    ("server.key", OTHER.key_pem, "not the key of the certificate in "),
    (
        "server.key",
        other_key(ed25519.Ed25519PrivateKey.generate()),
        "not the key of the certificate in ",
    ),
    ("clients.pem", b"", "no certificates in PEM"),
    ("clients.pem", LONG.key_pem, "no certificates in PEM"),
)
WRONG_IDS: Final = [f"{name}-{place}" for place, (name, _, _) in enumerate(WRONG)]


class TestFirstRead:
    def test_the_files_are_read(self, files: Files) -> None:
        chain = LONG.certificate_pem + AUTHORITY.pem
        replace(files.certificate, chain)
        opened = files.opened()
        assert opened.current == (chain, LONG.key_pem, AUTHORITY.pem)
        leaf = x509.load_pem_x509_certificate(LONG.certificate_pem)
        assert opened.expire_ms == leaf.not_valid_after_utc.timestamp() * 1000

    def test_a_truststore_is_not_needed(self, files: Files) -> None:
        opened = ServerCertificates(files.certificate, files.key, None)
        assert opened.current == (LONG.certificate_pem, LONG.key_pem, None)

    @pytest.mark.parametrize(("name", "content", "problem"), WRONG, ids=WRONG_IDS)
    def test_wrong_files_are_named(
        self, files: Files, name: str, content: bytes, problem: str
    ) -> None:
        replace(files.folder / name, content)
        with pytest.raises(ValueError, match=problem) as refused:
            files.opened()
        text = str(refused.value)
        assert text.startswith(f"{files.folder / name}: ")
        assert len(text.splitlines()) == 1

    @pytest.mark.parametrize("name", ["server.pem", "server.key", "clients.pem"])
    def test_a_file_that_cannot_be_read_is_named(self, files: Files, name: str) -> None:
        (files.folder / name).unlink()
        with pytest.raises(OSError, match=name):
            files.opened()
        (files.folder / name).mkdir()
        with pytest.raises(OSError, match=name):
            files.opened()


class TestRefresh:
    def test_files_that_are_the_same_are_not_read(
        self, files: Files, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = files.opened()
        monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"{path} was read"))
        assert not opened.refresh()

    def test_new_files_are_taken(self, files: Files) -> None:
        opened = files.opened()
        former_ms = opened.expire_ms
        files.put(OTHER)
        with capture_logs() as events:
            assert opened.refresh()
        assert events[0]["changed"] == "certificate, key"
        assert opened.current == (OTHER.certificate_pem, OTHER.key_pem, AUTHORITY.pem)
        assert opened.expire_ms > former_ms
        assert not opened.refresh()

    def test_a_new_truststore_is_taken(self, files: Files) -> None:
        opened = files.opened()
        both = AUTHORITY.pem + Authority("another").pem
        replace(files.truststore, both)
        with capture_logs() as events:
            assert opened.refresh()
        assert opened.current.truststore == both
        assert [each["changed"] for each in events] == ["truststore"]

    @pytest.mark.parametrize("kept", ["size and inode", "size and time"])
    def test_each_mark_of_a_change_counts(self, files: Files, kept: str) -> None:
        opened = files.opened()
        same_size = AUTHORITY.pem[:-1] + b" "
        state = files.truststore.stat()
        if kept == "size and time":
            replace(files.truststore, same_size)
            os.utime(files.truststore, ns=(state.st_atime_ns, state.st_mtime_ns))
        else:
            files.truststore.write_bytes(same_size)
            os.utime(files.truststore, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
        assert opened.refresh()
        assert opened.current.truststore == same_size

    def test_a_new_certificate_waits_for_its_key(self, files: Files) -> None:
        opened = files.opened()
        replace(files.certificate, OTHER.certificate_pem)
        with capture_logs() as events:
            assert not opened.refresh()
            assert not opened.refresh()
        assert opened.current == (LONG.certificate_pem, LONG.key_pem, AUTHORITY.pem)
        (event,) = events
        assert event["log_level"] == "warning"
        assert str(files.key) in event["reason"]
        replace(files.key, OTHER.key_pem)
        assert opened.refresh()
        assert opened.current.key == OTHER.key_pem

    @pytest.mark.parametrize(("name", "content", "problem"), WRONG, ids=WRONG_IDS)
    def test_wrong_files_leave_the_old_ones(
        self, files: Files, name: str, content: bytes, problem: str
    ) -> None:
        opened = files.opened()
        current, expire_ms = opened.current, opened.expire_ms
        replace(files.folder / name, content)
        with capture_logs() as events:
            assert not opened.refresh()
        assert [(event["log_level"], problem in event["reason"]) for event in events] == [
            ("warning", True)
        ]
        assert opened.current is current
        assert opened.expire_ms == expire_ms

    def test_a_failed_read_is_tried_again_though_no_file_changes(
        self, files: Files, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = files.opened()
        files.put(OTHER)
        with monkeypatch.context() as failing:
            failing.setattr(Path, "read_bytes", refuse_read)
            assert not opened.refresh()
        assert opened.refresh()
        assert opened.current.key == OTHER.key_pem

    def test_files_that_are_gone_leave_the_old_ones(self, files: Files) -> None:
        opened = files.opened()
        away = files.key.with_suffix(".away")
        files.key.rename(away)
        with capture_logs() as events:
            assert not opened.refresh()
            assert not opened.refresh()
        assert [event["log_level"] for event in events] == ["warning"]
        assert opened.current.key == LONG.key_pem
        away.rename(files.key)
        with capture_logs() as events:
            assert not opened.refresh()
            files.key.rename(away)
            assert not opened.refresh()
        assert [event["log_level"] for event in events] == ["warning"], "a new problem is told"

    def test_no_key_is_logged(self, files: Files) -> None:
        opened = files.opened()
        with capture_logs() as events:
            for issued in (OTHER, LONG, attrs.evolve(OTHER, key_pem=LONG.key_pem)):
                files.put(issued)
                opened.refresh()
        assert len(events) == 3
        lines = [
            line for issued in (LONG, OTHER) for line in issued.key_pem.decode().split("\n")[1:-2]
        ]
        assert not [line for line in lines if line in str(events)]


class TestUsage:
    @pytest.mark.parametrize(
        ("usages", "is_warned"),
        [(("server",), False), (("client", "server"), False), (("client",), True)],
    )
    def test_a_certificate_for_other_uses_is_warned_of(
        self, files: Files, usages: tuple[str, ...], is_warned: bool
    ) -> None:
        with capture_logs() as events:
            opened = files.opened()
        assert events == []
        files.put(AUTHORITY.issue("localhost", not_after=LATE, usages=usages))
        with capture_logs() as events:
            assert opened.refresh()
        warned = [each for each in events if each["log_level"] == "warning"]
        assert [each["file"] for each in warned] == [str(files.certificate)] * is_warned
        assert all("serverAuth" in each["event"] for each in warned)

    def test_a_certificate_without_a_list_of_uses_is_for_all(self, files: Files) -> None:
        files.put(self_signed(rsa.generate_private_key(65537, 1024)))
        with capture_logs() as events:
            files.opened()
        assert events == []


class TestContext:
    def test_a_key_that_tls_refuses_is_named(self, files: Files) -> None:
        key = rsa.generate_private_key(65537, 1024)
        files.put(self_signed(key))
        opened = files.opened()
        with pytest.raises(OSError, match="not fit for TLS: ") as refused:
            opened.ssl_context()
        assert str(files.certificate) in str(refused.value)
        assert len(str(refused.value).splitlines()) == 1

    def test_nobody_is_asked_for_a_password(
        self, files: Files, capfd: pytest.CaptureFixture[str]
    ) -> None:
        opened = files.opened()
        replace(files.key, with_password(LONG.key_pem))
        with pytest.raises(OSError, match="not fit for TLS: "):
            opened.ssl_context()
        assert capfd.readouterr() == ("", "")


class Clock:
    """The time of the module under test, in seconds from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed_seconds = 0.0
        now = datetime.now(UTC).timestamp()
        monkeypatch.setattr(
            certificates,
            "time",
            SimpleNamespace(
                time=lambda: now + self.passed_seconds, monotonic=lambda: 5.0 + self.passed_seconds
            ),
        )


class TestExpiry:
    @pytest.mark.parametrize("is_late", [True, False])
    def test_a_certificate_that_is_not_valid_does_not_replace_one_that_is(
        self, files: Files, *, is_late: bool
    ) -> None:
        opened = files.opened()
        day, now = timedelta(days=1), datetime.now(UTC)
        start, end = (now - 9 * day, now - day) if is_late else (now + day, now + 99 * day)
        files.put(AUTHORITY.issue("localhost", not_before=start, not_after=end))
        with capture_logs() as events:
            assert not opened.refresh()
        assert opened.current.key == LONG.key_pem
        (event,) = events
        assert event["log_level"] == "warning"
        problem = "has expired" if is_late else "is not valid yet"
        assert f"the server's certificate {problem}" in event["reason"]
        with capture_logs() as events:
            started = files.opened()
        assert [each["event"] for each in events] == [f"the server's certificate {problem}"]
        files.put(OTHER)
        assert started.refresh()

    def test_each_new_certificate_that_ends_soon_is_warned_of(self, files: Files) -> None:
        opened = files.opened()
        for days in (5, 4):
            files.put(issued_until(days))
            with capture_logs() as events:
                assert opened.refresh()
            assert "the server's certificate expires soon" in [each["event"] for each in events]

    @pytest.mark.parametrize(
        ("days", "text"),
        [
            (-1, "the server's certificate has expired"),
            (1, "the server's certificate expires soon"),
            (29.9, "the server's certificate expires soon"),
            (30.1, None),
        ],
    )
    def test_the_start_warns(self, files: Files, days: float, text: str | None) -> None:
        files.put(issued_until(days))
        with capture_logs() as events:
            files.opened()
        expected = [] if text is None else [(text, "warning", str(files.certificate))]
        assert [(each["event"], each["log_level"], each["file"]) for each in events] == expected

    def test_the_warning_comes_once_a_day(
        self, files: Files, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Clock(monkeypatch)
        files.put(issued_until(31))
        opened = files.opened()
        warned_hours = []
        for hour in range(24 * 4):
            clock.passed_seconds = hour * 3600.0 + 1
            with capture_logs() as events:
                assert not opened.refresh()
            warned_hours += [hour for _ in events]
        first = warned_hours[0]
        assert warned_hours == [first, first + 24, first + 48]
        assert first in (23, 24)

    def test_a_new_certificate_ends_the_warnings(
        self, files: Files, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Clock(monkeypatch)
        files.put(issued_until(1))
        opened = files.opened()
        files.put(LONG)
        assert opened.refresh()
        clock.passed_seconds = 2 * 86_400.0
        with capture_logs() as events:
            assert not opened.refresh()
        assert events == []
