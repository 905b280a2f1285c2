"""The server's certificate and the authorities of its clients: read, checked, read again.

And the name in a client's certificate, as Kafka writes it.
"""

from __future__ import annotations

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
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path

_log = structlog.get_logger(__name__)

_WARNED_DAYS: Final = 30
_WARNED_AGAIN_SECONDS: Final = 86_400
_STRING_TAGS: Final = {
    _ASN1Type.UTF8String: 0x0C,
    _ASN1Type.PrintableString: 0x13,
    _ASN1Type.IA5String: 0x16,
    _ASN1Type.T61String: 0x14,
    _ASN1Type.NumericString: 0x12,
    _ASN1Type.VisibleString: 0x1A,
}
# The types that RFC 2253 has names for. Java writes others by number.
_NAMED: Final = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
_ESCAPED: Final = frozenset(',+"\\<>;')


class Pems(NamedTuple):
    """What a TLS server needs, in PEM."""

    certificate_chain: bytes
    key: bytes
    truststore: bytes | None


def distinguished_name(certificate_pem: bytes) -> str:
    """The subject of a certificate in the form of RFC 2253, the last part first.

    It is what Java's `X500Principal.getName()` gives, and so Kafka's name of the caller.
    """
    subject = x509.load_pem_x509_certificate(certificate_pem).subject
    return ",".join("+".join(map(_attribute, rdn)) for rdn in reversed(subject.rdns))


def _attribute(attribute: x509.NameAttribute[str | bytes]) -> str:
    name, value = _NAMED.get(attribute.oid), attribute.value
    if name is not None and isinstance(value, str):
        return f"{name}={_escaped(value)}"
    content = value.encode() if isinstance(value, str) else value
    tag = _STRING_TAGS.get(attribute._type, 0x0C)
    return f"{attribute.oid.dotted_string}=#{_der(tag, content).hex()}"


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def _escaped(value: str) -> str:
    text = "".join(f"\\{each}" if each in _ESCAPED else each for each in value)
    if value.startswith(("#", " ")):
        text = f"\\{text}"
    if value.endswith(" ") and len(value) > 1:
        text = f"{text[:-1]}\\ "
    return text


class ServerCertificates:
    """The files of a TLS server. Another thread may read `current` at any time."""

    def __init__(
        self, certificate_path: Path, key_path: Path, truststore_path: Path | None
    ) -> None:
        """Raises OSError, and ValueError with one line that names the file."""
        self._paths = certificate_path, key_path, truststore_path
        self._seen: object = None
        self._problem = ""
        self._warned_seconds = -float(_WARNED_AGAIN_SECONDS)
        self._seen = self._states()
        self._take()

    def refresh(self) -> bool:
        """Reads the files again if one has changed. Returns whether new ones were taken.

        If they are wrong or do not fit each other, the old ones stay, and the next call tries
        again: the files may be replaced one after the other.
        """
        self._warn_of_expiry()
        try:
            states = self._states()
            if states == self._seen:
                return False
            self._take()
        except (OSError, ValueError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                _log.warning("the old certificate stays in use", reason=self._problem)
            return False
        self._seen, self._problem = states, ""
        _log.info("the certificate was read again", expires=_date(self.expire_ms))
        return True

    def ssl_context(self) -> ssl.SSLContext:
        """A context of Python for TLS 1.2 and newer. Raises OSError, for wrong files too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._paths[:2])
        return context

    def _states(self) -> list[tuple[int, int, int]]:
        found = []
        for path in filter(None, self._paths):
            state = path.stat()
            found.append((state.st_mtime_ns, state.st_size, state.st_ino))
        return found

    def _take(self) -> None:
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
        self.current = pems
        self.expire_ms = int(leaf.not_valid_after_utc.timestamp() * 1000)
        self._warn_of_expiry()

    def _warn_of_expiry(self) -> None:
        """Warns once a day of a certificate that has expired or will do so soon."""
        left_days = (self.expire_ms / 1000 - time.time()) / 86_400
        now_seconds = time.monotonic()
        if left_days > _WARNED_DAYS or (now_seconds - self._warned_seconds < _WARNED_AGAIN_SECONDS):
            return
        self._warned_seconds = now_seconds
        event = "the server's certificate has expired" if left_days <= 0 else ""
        _log.warning(
            event or "the server's certificate expires soon",
            expires=_date(self.expire_ms),
            file=str(self._paths[0]),
        )


def _certificates(path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ValueError(f"{path}: no certificates in PEM: {error}") from None


def _check_key(certificate_path: Path, leaf: x509.Certificate, path: Path, pem: bytes) -> None:
    try:
        key = load_pem_private_key(pem, None)
    except TypeError:
        raise ValueError(f"{path}: the key has a password") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError(f"{path}: no private key in PEM") from None
    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if key.public_key().public_bytes(*form) != leaf.public_key().public_bytes(*form):
        raise ValueError(f"{path}: not the key of the certificate in {certificate_path}")


def _date(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()
