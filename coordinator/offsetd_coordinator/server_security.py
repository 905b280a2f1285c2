"""TLS, identities and rules of a server, from its settings. Changed files are read again."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import grpc
import structlog
from offsetd_storage.errors import words_of

from offsetd_coordinator.calls.access_control import AccessControl
from offsetd_coordinator.calls.identities import Identities
from offsetd_coordinator.counters import QuotaCounters
from offsetd_coordinator.network.ports import is_loopback
from offsetd_coordinator.observability.endpoint_security import EndpointSecurity
from offsetd_coordinator.quotas.caller_quotas import Quotas
from offsetd_coordinator.security.acl import ANY, USER_PREFIX
from offsetd_coordinator.security.authorizer import Authorizer
from offsetd_coordinator.server_folder import StartFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from offsetd_coordinator.calls.identities import PrincipalOf
    from offsetd_coordinator.configuration.server_settings import Settings
    from offsetd_coordinator.counters import AccessCounters
    from offsetd_coordinator.quotas.quota_table import QuotaTable
    from offsetd_coordinator.security.acl import Acl
    from offsetd_coordinator.security.certificates import ServerCertificates
    from offsetd_coordinator.security.json_web_tokens import JwtVerifier
    from offsetd_coordinator.security.jwks import KeySet
    from offsetd_coordinator.security.token_file import TokenTable
    from offsetd_coordinator.security.watched_file import WatchedFile

_Read = TypeVar("_Read")

_log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 1.0
"""The interval at which the files are checked."""


class ServerSecurity:
    """The TLS files, identities and rules of a server. For the event loop's thread.

    `control` is None if the server does not identify callers. `authorizer` has the rules, even
    while they are not in force.
    """

    def __init__(
        self, settings: Settings, counters: AccessCounters, now_ms: Callable[[], int]
    ) -> None:
        """Reads all files. Raises StartFailed if one is wrong, or an address would be open."""
        _read(settings.check_security)
        _check_addresses(settings)
        self._settings = settings
        self._now_ms = now_ms
        self.certificates = _read(lambda: _certificates(settings))
        self._tls: tuple[object, ssl.SSLContext] | None = None
        self._counters = counters
        self._note_expiry()
        self._tokens = _read(lambda: _tokens(settings))
        self._acl_file = _read(lambda: _acl_file(settings))
        self._keys = _read(lambda: _keys(settings))
        self.authorizer = Authorizer(
            super_users=_read(lambda: _super_users(settings)),
            acls=() if self._acl_file is None else self._acl_file.current,
        )
        self._warn_without_rules()
        self._is_in_doubt = False
        self._quota_file = _read(lambda: _quota_file(settings))
        self._quotas: Quotas | None = None
        if self._quota_file is not None:
            counters.quotas = QuotaCounters(settings.metrics_quota_principals_max)
            self._quotas = Quotas(self._quota_file.current, counters.quotas)
            self._warn_without_quotas()
        self.control: AccessControl | None = None
        if settings.has_tls or settings.takes_tokens or settings.has_rules or self._quotas:
            identities = Identities(
                now_ms=now_ms,
                principal_of=_read(lambda: _principal_of(settings)),
                tokens=self._tokens,
                web_tokens=_web_tokens(settings, self._keys),
            )
            rules = self.authorizer if settings.has_rules else None
            self.control = AccessControl(identities, rules, counters, self._quotas)
            self.control.has_loaded_rules = rules is None or self._acl_file is not None

    def _warn_without_quotas(self) -> None:
        if self._quota_file is not None and not self._quota_file.current:
            _log.warning("the file has no quotas: nothing is limited")

    def _note_expiry(self) -> None:
        if self.certificates is not None:
            self._counters.certificate_expire_ms = self.certificates.expire_ms

    def _warn_without_rules(self) -> None:
        if self._acl_file is not None and not self._acl_file.current:
            _log.warning("the file has no rules: only super.users may do anything")

    @property
    def rules_are_of_file(self) -> bool:
        """Whether the rules come from `security.acl.file`."""
        return self._acl_file is not None

    def endpoint_security(self) -> EndpointSecurity:
        """The security of the metrics port. Raises StartFailed."""
        settings = self._settings
        certificates = self.certificates if settings.metrics_ssl_enable else None
        # The context of TLS is made here: its error must not look like one of the address.
        return _read(lambda: EndpointSecurity(certificates, _metrics_token(settings)))

    def credentials(self) -> grpc.ServerCredentials | None:
        """gRPC's TLS credentials; None without TLS. Each handshake gets the newest files."""
        certificates = self.certificates
        if certificates is None:
            return None

        def configuration() -> grpc.ServerCertificateConfiguration:
            pems = certificates.current
            return grpc.ssl_server_certificate_configuration(
                [(pems.key, pems.certificate_chain)], root_certificates=pems.truststore
            )

        return grpc.dynamic_ssl_server_credentials(
            configuration(),
            configuration,
            require_client_authentication=self._settings.ssl_client_auth == "required",
        )

    def tls_context(self) -> ssl.SSLContext:
        """Python's TLS context, from the newest files. Only with TLS.

        If the files are being replaced right now, it is the former context. Raises StartFailed for
        wrong files if there was none before: the port's address is not to blame.
        """
        certificates = self.certificates
        assert certificates is not None, "the server has TLS"
        current = certificates.current
        if self._tls is not None and self._tls[0] is current:
            return self._tls[1]
        try:
            context = certificates.ssl_context()
            if current.truststore is not None:
                context.load_verify_locations(cadata=current.truststore.decode())
            if self._settings.ssl_client_auth == "required":
                context.verify_mode = ssl.CERT_REQUIRED
            context.set_alpn_protocols(["h2"])
        except (OSError, ValueError) as error:
            if self._tls is None:
                raise StartFailed(words_of(error)) from error
            return self._tls[1]
        self._tls = current, context
        return context

    def apply_stored_acls(self, acls: Collection[Acl]) -> None:
        """Puts the rules of `offsetd acls` in force, unless they come from a file."""
        if self.rules_are_of_file:
            return
        self.authorizer.set_acls(() if self._is_in_doubt else acls)
        if self.control is not None:
            self.control.has_loaded_rules = True
            self.control.note_change()

    def note_doubt(self, doubt: str | None) -> None:
        """Leaves only super users their rights if stored rules are missing: one may deny."""
        if doubt is None or self.rules_are_of_file:
            return
        self._is_in_doubt = True
        self.authorizer.set_acls(())
        if self._settings.has_rules:
            _log.error("only super users may call: some access rules are missing", reason=doubt)

    async def watch(self) -> None:
        """Reads changed files again, until it is cancelled. Returns if there are none."""
        files = self.certificates, self._tokens, self._acl_file, self._quota_file, self._keys
        if all(each is None for each in files):
            return
        if self._keys is not None:
            await self._keys.refresh(self._now_ms())
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await self._look()
            except Exception:  # noqa: BLE001  A defect of ours; the next look may do.
                _log.exception("a look at the files of security failed for a defect")

    async def _look(self) -> None:
        if self.certificates is not None:
            await asyncio.to_thread(self.certificates.refresh)
            self._note_expiry()
        has_changed = False
        if self._tokens is not None:
            has_changed |= await asyncio.to_thread(self._tokens.refresh)
        if self._acl_file is not None and await asyncio.to_thread(self._acl_file.refresh):
            self.authorizer.set_acls(self._acl_file.current)
            _log.info("rules were read again", rules=len(self._acl_file.current))
            self._warn_without_rules()
            has_changed = True
        if self._quota_file is not None and await asyncio.to_thread(self._quota_file.refresh):
            assert self._quotas is not None, "it has the file's quotas"
            self._quotas.set_table(self._quota_file.current)
            _log.info("quotas were read again", entities=len(self._quota_file.current))
            self._warn_without_quotas()
        if self._keys is not None:
            await self._keys.refresh_if_due(self._now_ms())
        if has_changed and self.control is not None:
            self.control.note_change()


def _check_addresses(settings: Settings) -> None:
    """Refuses an address that others can reach, without what keeps strangers out."""
    if settings.security_allow_insecure:
        return
    if not (is_loopback(settings.listen_address) or (settings.has_tls and settings.has_rules)):
        raise StartFailed(
            f"other machines can reach {settings.listen_address} (listen.address): set"
            " ssl.certificate.file, ssl.key.file and security.acl.enable or security.acl.file, or"
            " say security.allow.insecure=true"
        )
    address = settings.metrics_address
    if not address or is_loopback(address):
        return
    if not (settings.metrics_ssl_enable and settings.metrics_token_file):
        raise StartFailed(
            f"other machines can reach {address} (metrics.address): set metrics.ssl.enable and"
            " metrics.token.file, or say security.allow.insecure=true"
        )


def _read(read: Callable[[], _Read]) -> _Read:
    """What `read` returns. Raises StartFailed for what is wrong with a file or a setting."""
    try:
        return read()
    except (OSError, ValueError) as error:
        raise StartFailed(words_of(error)) from error


def _certificates(settings: Settings) -> ServerCertificates | None:
    if not settings.has_tls:
        return None
    # A server without TLS does not wait for the library.
    from offsetd_coordinator.security.certificates import ServerCertificates  # noqa: PLC0415

    truststore = settings.ssl_truststore_file
    return ServerCertificates(
        Path(settings.ssl_certificate_file),
        Path(settings.ssl_key_file),
        Path(truststore) if truststore else None,
    )


def _principal_of(settings: Settings) -> PrincipalOf | None:
    if settings.ssl_client_auth == "none":
        return None
    from offsetd_coordinator.security.certificates import distinguished_name  # noqa: PLC0415
    from offsetd_coordinator.security.principal_mapping import (  # noqa: PLC0415
        parse_mapping_rules,
    )

    mapper = parse_mapping_rules(settings.ssl_principal_mapping_rules)
    return lambda certificate: mapper.principal_of(distinguished_name(certificate))


def _tokens(settings: Settings) -> WatchedFile[TokenTable] | None:
    if not settings.security_tokens_file:
        return None
    from offsetd_coordinator.security.token_file import parse_token_file  # noqa: PLC0415
    from offsetd_coordinator.security.watched_file import WatchedFile  # noqa: PLC0415

    return WatchedFile(Path(settings.security_tokens_file), parse_token_file, "tokens")


def _metrics_token(settings: Settings) -> WatchedFile[bytes] | None:
    if not settings.metrics_token_file:
        return None
    from offsetd_coordinator.security.watched_file import WatchedFile  # noqa: PLC0415

    def parse(content: bytes) -> bytes:
        token = content.strip()
        if not token or not token.isascii() or len(token.split()) > 1:
            raise ValueError("the token is printable ASCII characters without spaces, on one line")
        return token

    return WatchedFile(Path(settings.metrics_token_file), parse, "metrics token")


def _acl_file(settings: Settings) -> WatchedFile[tuple[Acl, ...]] | None:
    if not settings.security_acl_file:
        return None
    from offsetd_coordinator.security.acl_file import parse_acl_file  # noqa: PLC0415
    from offsetd_coordinator.security.watched_file import WatchedFile  # noqa: PLC0415

    return WatchedFile(Path(settings.security_acl_file), parse_acl_file, "rules")


def _quota_file(settings: Settings) -> WatchedFile[QuotaTable] | None:
    if not settings.security_quotas_file:
        return None
    from offsetd_coordinator.quotas.quota_file import parse_quota_file  # noqa: PLC0415
    from offsetd_coordinator.security.watched_file import WatchedFile  # noqa: PLC0415

    return WatchedFile(Path(settings.security_quotas_file), parse_quota_file, "quotas")


def _keys(settings: Settings) -> KeySet | None:
    if not settings.sasl_oauthbearer_jwks_endpoint_url:
        return None
    from offsetd_coordinator.security.jwks import KeySet  # noqa: PLC0415

    return KeySet(
        settings.sasl_oauthbearer_jwks_endpoint_url,
        refresh_ms=settings.sasl_oauthbearer_jwks_endpoint_refresh_ms,
    )


def _web_tokens(settings: Settings, keys: KeySet | None) -> JwtVerifier | None:
    if keys is None:
        return None
    from offsetd_coordinator.security.json_web_tokens import JwtVerifier  # noqa: PLC0415

    audiences = [each.strip() for each in settings.sasl_oauthbearer_expected_audience.split(",")]
    return JwtVerifier(
        keys=keys,
        issuer=settings.sasl_oauthbearer_expected_issuer,
        audiences=frozenset(filter(None, audiences)),
        principal_claim=settings.sasl_oauthbearer_sub_claim_name,
        clock_skew_seconds=settings.sasl_oauthbearer_clock_skew_seconds,
    )


def _super_users(settings: Settings) -> frozenset[str]:
    named = [each.strip() for each in settings.super_users.split(";")]
    for each in filter(None, named):
        name = each.removeprefix(USER_PREFIX)
        if name in ("", each, ANY) or f",{USER_PREFIX}" in name:
            raise ValueError(f"super.users: {each!r} is not User:NAME; several need `;`")
    return frozenset(filter(None, named))
