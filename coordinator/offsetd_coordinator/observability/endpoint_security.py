"""The security of the metrics port: TLS, and a token that readers must send."""

from __future__ import annotations

import contextlib
import hmac
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

    from offsetd_coordinator.security.certificates import ServerCertificates
    from offsetd_coordinator.security.watched_file import WatchedFile

_SCHEME: Final = "bearer "


class EndpointSecurity:
    """TLS and a token, or neither. For any thread."""

    def __init__(
        self,
        certificates: ServerCertificates | None = None,
        token: WatchedFile[bytes] | None = None,
    ) -> None:
        self._certificates = certificates
        self._token = token
        self._looking = threading.Lock()
        self._made: tuple[object, ssl.SSLContext] | None = None
        if certificates is not None:
            self._made = certificates.current, certificates.ssl_context()

    def context(self) -> ssl.SSLContext | None:
        """The context for a new connection, with the newest certificate; None without TLS."""
        if self._certificates is None or self._made is None:
            return None
        current = self._certificates.current
        if self._made[0] is not current:
            # The files may be half replaced. Keep the old context; the next connection retries.
            with contextlib.suppress(OSError, ValueError):
                self._made = current, self._certificates.ssl_context()
        return self._made[1]

    def lets_in(self, authorization: str | None) -> bool:
        """Whether a reader with this header may read."""
        if self._token is None:
            return True
        with self._looking:
            self._token.refresh()
        if authorization is None or authorization[: len(_SCHEME)].lower() != _SCHEME:
            return False
        sent = authorization[len(_SCHEME) :].strip()
        return hmac.compare_digest(sent.encode(), self._token.current)
