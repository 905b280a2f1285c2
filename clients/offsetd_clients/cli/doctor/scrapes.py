"""One scrape of a server's metrics port, with TLS and its token where it asks for them."""

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException

import attrs

from offsetd_clients.calling.security import TlsOptions, is_loopback

METRICS_TIMEOUT_S = 5.0
METRICS_TOKEN_VARIABLE = "OFFSETD_METRICS_TOKEN"  # noqa: S105  # Its name.
_OK, _UNAUTHORIZED = 200, 401
_NO_METRICS = (
    "is not a metrics port: give --metrics the HOST:PORT of metrics.address, not that for clients"
)


@attrs.frozen(kw_only=True)
class Metrics:
    """A scrape. A sample with labels is named `name{label="value"}`, as Prometheus writes it.

    `skew_s`: how far the server's machine is ahead of this one. `problem`: why there are none.
    """

    values: Mapping[str, float] = attrs.field(factory=dict)
    skew_s: float = 0.0
    problem: str = ""

    def get(self, name: str) -> float | None:
        """A sample; None if it is not there."""
        return self.values.get(name)

    def total(self, name: str) -> float:
        """The sum of all samples of a metric."""
        return sum(value for key, value in self.values.items() if key.partition("{")[0] == name)


@attrs.frozen(kw_only=True)
class MetricsAccess:
    """What a scrape shows: the TLS settings of the client, and the token of the metrics port."""

    tls: TlsOptions | None = None
    token: str | None = attrs.field(default=None, repr=False)


NO_ACCESS = MetricsAccess()


def read_metrics(address: str, *, is_secure: bool, access: MetricsAccess = NO_ACCESS) -> Metrics:
    """One scrape of HOST:PORT. The token goes over TLS, or to this machine only."""
    if not address:
        return Metrics(problem="metrics.address is empty")
    token = access.token
    if token is not None and not (is_secure or is_loopback(address)):
        return Metrics(problem=f"{address} has no TLS, so it is not sent the token")
    try:
        with _connection(address, access.tls or TlsOptions() if is_secure else None) as connection:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            connection.request("GET", "/metrics", headers=headers)
            got = connection.getresponse()
            text, told = got.read().decode(), got.headers.get("Date")
    except ssl.SSLError as error:
        return Metrics(problem=f"{address} does not answer with TLS: {error.reason or error}")
    except OSError as error:
        return Metrics(problem=f"{address} does not answer: {error.strerror or error}")
    except (ValueError, HTTPException):
        return Metrics(problem=f"{address} {_NO_METRICS}")
    if got.status == _UNAUTHORIZED:
        return Metrics(
            problem=f"{address} asks for the token of metrics.token.file: set"
            f" {METRICS_TOKEN_VARIABLE}"
        )
    if got.status != _OK:
        return Metrics(problem=f"{address} answers {got.status} {got.reason}")
    now = datetime.now(UTC)
    skew_s = (parsedate_to_datetime(told) - now).total_seconds() if told else 0.0
    try:
        return Metrics(values=dict(_samples(text)), skew_s=skew_s)
    except ValueError:
        return Metrics(problem=f"{address} {_NO_METRICS}")


@contextmanager
def _connection(address: str, tls: TlsOptions | None) -> Iterator[HTTPConnection]:
    connection = HTTPConnection(address, timeout=METRICS_TIMEOUT_S)
    try:
        if tls is not None:
            plain = socket.create_connection((connection.host, connection.port), METRICS_TIMEOUT_S)
            authorities = None if tls.ca is None else tls.ca.decode()
            context = ssl.create_default_context(cadata=authorities)
            name = tls.server_name or connection.host
            connection.sock = context.wrap_socket(plain, server_hostname=name)
        yield connection
    finally:
        connection.close()


def _samples(text: str) -> list[tuple[str, float]]:
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return [(name, float(value)) for name, _, value in lines if name]
