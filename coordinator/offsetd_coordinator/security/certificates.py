"""The server's certificate and the authorities of its clients: read, checked, read again.

Also the name in a client's certificate, in the form that Kafka uses.
"""

from __future__ import annotations

import errno
import ssl
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_log = structlog.get_logger(__name__)

_KINDS: Final = ("certificate", "key", "truststore")
_WARNED_DAYS: Final = 30
_WARNED_AGAIN_SECONDS: Final = 86_400
# The types that RFC 2253 has names for. Java writes others by number.
_NAMED: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString: Java takes the bytes
# of each for UTF-8. It writes other values in hexadecimal digits.
_TEXT_TAGS: Final = frozenset([0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E])
_VERSION_TAG: Final = 0xA0
_LONG_TAG: Final = 0x1F
# Java escapes `=` and each `#`, in addition to the characters of RFC 2253.
_ESCAPES: Final = str.maketrans({"\0": r"\00"} | {each: f"\\{each}" for each in ',+"\\<>;=#'})
_ENDS: Final = " \r"
_USAGES_OF_SERVERS: Final = (
    ExtendedKeyUsageOID.SERVER_AUTH,
    ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
)


class Pems(NamedTuple):
    """The files of a TLS server, in PEM."""

    certificate_chain: bytes
    key: bytes
    truststore: bytes | None


def distinguished_name(certificate_pem: bytes) -> str:
    """The subject of a certificate in the form of RFC 2253, the last part first.

    It is what Java's `X500Principal.getName()` gives, and so Kafka's name of the caller. Raises
    ValueError if it is no certificate.
    """
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    ((_, fields, _),) = _elements(certificate.tbs_certificate_bytes)
    # The serial number, the algorithm, the issuer, the validity, the subject.
    subject = [content for tag, content, _ in _elements(fields) if tag != _VERSION_TAG][4]
    names = [content for _, content, _ in _elements(subject)]
    return ",".join("+".join(map(_attribute, _contents(name))) for name in reversed(names))


def _attribute(attribute: bytes) -> str:
    (_, number, _), (tag, content, value) = _elements(attribute)
    oid = _dotted(number)
    name = _NAMED.get(oid)
    if name is None or tag not in _TEXT_TAGS:
        return f"{name or oid}=#{value.hex()}"
    return f"{name}={_escaped(content.decode(errors='replace'))}"


def _escaped(value: str) -> str:
    text = value.translate(_ESCAPES)
    start = len(text) - len(text.lstrip(_ENDS))
    end = max(start, len(text.rstrip(_ENDS)))
    return "".join(each if start <= place < end else f"\\{each}" for place, each in enumerate(text))


def _contents(der: bytes) -> list[bytes]:
    return [content for _, content, _ in _elements(der)]


def _elements(der: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The tag, the content and the whole of each element. `der` is known to be valid."""
    place = 0
    while place < len(der):
        start, tag = place, der[place]
        if tag & _LONG_TAG == _LONG_TAG:
            place += 1
            while der[place] & 0x80:
                place += 1
        size, place = der[place + 1], place + 2
        if size & 0x80:
            digits, place = der[place : place + (size & 0x7F)], place + (size & 0x7F)
            size = int.from_bytes(digits)
        yield tag, der[place : place + size], der[start : place + size]
        place += size


def _dotted(oid: bytes) -> str:
    numbers, value = [], 0
    for each in oid:
        value = value << 7 | each & 0x7F
        if not each & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


class ServerCertificates:
    """The files of a TLS server. Another thread may read `current` at any time."""

    def __init__(
        self, certificate_path: Path, key_path: Path, truststore_path: Path | None
    ) -> None:
        """Raises OSError, and ValueError with one line that names the file."""
        self._paths = certificate_path, key_path, truststore_path
        self._problem = ""
        self._warned_seconds = -float(_WARNED_AGAIN_SECONDS)
        self._seen = self._states()
        self._starts_ms = self.expire_ms = 0
        self.current = Pems(b"", b"", None)
        self._read(is_start=True)

    def refresh(self) -> bool:
        """Reads the files again if one has changed. Returns whether new ones were taken.

        If they are wrong or do not fit each other, the old ones stay, and the next call tries
        again: the files may be replaced one after the other. So does a certificate that is valid,
        if the new one is not.
        """
        self._warn_of_dates()
        try:
            states = self._states()
            if states == self._seen:
                self._problem = ""
                return False
            self._read()
        except (OSError, ValueError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                _log.warning("the old certificate stays in use", reason=self._problem)
            return False
        changed = [kind for kind in states if states[kind] != self._seen.get(kind)]
        self._seen, self._problem = states, ""
        _log.info(
            "changed files of TLS were read again",
            changed=", ".join(changed),
            expires=_date(self.expire_ms),
        )
        return True

    def ssl_context(self) -> ssl.SSLContext:
        """A context of Python for TLS 1.2 and newer. Raises OSError, for wrong files too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate_path, key_path, _ = self._paths
        try:
            # Without `password`, OpenSSL would ask at the terminal for the password of a key.
            context.load_cert_chain(certificate_path, key_path, password="")
        except ssl.SSLError as error:
            text = f"{certificate_path}, {key_path}: not fit for TLS: {error.reason}"
            raise OSError(errno.EINVAL, text) from error
        return context

    def _states(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for kind, path in zip(_KINDS, self._paths, strict=True):
            if path is not None:
                state = path.stat()
                found[kind] = (state.st_mtime_ns, state.st_size, state.st_ino)
        return found

    def _read(self, *, is_start: bool = False) -> None:
        certificate_path, key_path, truststore_path = self._paths
        pems = Pems(
            certificate_path.read_bytes(),
            key_path.read_bytes(),
            None if truststore_path is None else truststore_path.read_bytes(),
        )
        leaf = _certificates(certificate_path, pems.certificate_chain)[0]
        _check_key(certificate_path, leaf, key_path, pems.key)
        if truststore_path is not None and pems.truststore is not None:
            _certificates(truststore_path, pems.truststore)
        starts_ms = int(leaf.not_valid_before_utc.timestamp() * 1000)
        expire_ms = int(leaf.not_valid_after_utc.timestamp() * 1000)
        if is_start or pems.certificate_chain != self.current.certificate_chain:
            problem = _not_valid_now(starts_ms, expire_ms)
            if problem and not is_start and not _not_valid_now(self._starts_ms, self.expire_ms):
                raise ValueError(f"{certificate_path}: {problem}")
            self._warned_seconds = -float(_WARNED_AGAIN_SECONDS)
        self.current = pems
        self._starts_ms, self.expire_ms = starts_ms, expire_ms
        self._warn_of_dates()
        if not _is_of_server(leaf):
            _log.warning(
                "clients may refuse the server's certificate: its extended key usage lacks"
                " serverAuth",
                file=str(certificate_path),
            )

    def _warn_of_dates(self) -> None:
        """Warns once a day of a certificate that is not valid now, or not for long."""
        left_days = (self.expire_ms / 1000 - time.time()) / 86_400
        problem = _not_valid_now(self._starts_ms, self.expire_ms)
        if not problem and left_days <= _WARNED_DAYS:
            problem = "the server's certificate expires soon"
        now_seconds = time.monotonic()
        if not problem or now_seconds - self._warned_seconds < _WARNED_AGAIN_SECONDS:
            return
        self._warned_seconds = now_seconds
        _log.warning(problem, expires=_date(self.expire_ms), file=str(self._paths[0]))


def _not_valid_now(starts_ms: int, expire_ms: int) -> str:
    """Why a certificate with these dates is not valid now; empty if it is."""
    now_ms = time.time() * 1000
    if expire_ms <= now_ms:
        return "the server's certificate has expired"
    if starts_ms > now_ms:
        return "the server's certificate is not valid yet"
    return ""


def _certificates(path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ValueError(f"{path}: no certificates in PEM: {error}") from None


def _is_of_server(leaf: x509.Certificate) -> bool:
    """Whether clients take it for a server's (RFC 5280, 4.2.1.12): without a list, for all uses."""
    try:
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, ValueError):  # No list, or extensions that cannot be read.
        return True
    return any(each in usages for each in _USAGES_OF_SERVERS)


def _check_key(certificate_path: Path, leaf: x509.Certificate, path: Path, pem: bytes) -> None:
    try:
        key = load_pem_private_key(pem, None)
    except TypeError:
        raise ValueError(f"{path}: the key has a password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(f"{path}: no private key in PEM") from None
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    try:
        expected = leaf.public_key().public_bytes(*form)
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(f"{certificate_path}: a certificate with an unknown key") from None
    if key.public_key().public_bytes(*form) != expected:
        raise ValueError(f"{path}: not the key of the certificate in {certificate_path}")


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
