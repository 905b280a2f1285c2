"""A small certificate authority: certificates of servers and clients, good and bad ones."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

_USAGES: Final = {
    "server": ExtendedKeyUsageOID.SERVER_AUTH,
    "client": ExtendedKeyUsageOID.CLIENT_AUTH,
}
_VALID: Final = timedelta(days=30)
_SKEW: Final = timedelta(hours=1)


@attrs.frozen
class Issued:
    """A certificate and its private key, in PEM."""

    certificate_pem: bytes
    key_pem: bytes = attrs.field(repr=False)

    def server_context(self) -> ssl.SSLContext:
        """For a server in Python, which takes the two only from a file."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.key_pem + self.certificate_pem)
            file.flush()
            context.load_cert_chain(file.name)
        return context


class Authority:
    """Issues certificates. `pem` is its own."""

    def __init__(self, common_name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        now = datetime.now(UTC)
        certificate = (
            _builder(self._name, self._name, self._key.public_key(), now - _SKEW, now + _VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = certificate.public_bytes(Encoding.PEM)

    def issue(
        self,
        name: str,
        *,
        dns: Sequence[str] = ("localhost",),
        ips: Sequence[str] = ("127.0.0.1",),
        not_before: datetime | None = None,
        not_after: datetime | None = None,
        usages: Sequence[str] = ("server", "client"),
    ) -> Issued:
        """A certificate. `name` is a common name, or with `=` a distinguished name (RFC 4514)."""
        subject = x509.Name.from_rfc4514_string(name if "=" in name else f"CN={name}")
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        names = [
            *map(x509.DNSName, dns),
            *(x509.IPAddress(ipaddress.ip_address(each)) for each in ips),
        ]
        certificate = (
            _builder(
                subject,
                self._name,
                key.public_key(),
                not_before or now - _SKEW,
                not_after or now + _VALID,
            )
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.ExtendedKeyUsage([_USAGES[each] for each in usages]), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        return Issued(
            certificate.public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    not_before: datetime,
    not_after: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
    )
