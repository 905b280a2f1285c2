"""The addresses on which the pages may listen, and what each of them needs."""

import os
from enum import StrEnum
from urllib.parse import urlsplit

import attrs
import typer

from offsetd_clients.calling.security import is_loopback_host
from offsetd_clients.cli.connection import TOKEN_VARIABLE
from offsetd_clients.cli.printing.terminal import printable
from offsetd_clients.web.oidc_settings import SECRET_VARIABLE, OidcSettings, is_safe_address

_SHOWN_CHARACTERS = 100
_HTTPS_PORT = 443


class LoginKind(StrEnum):
    """How viewers log in."""

    NONE = "none"
    TOKEN = "token"  # noqa: S105  # Not one, but the kind.
    OIDC = "oidc"


def short(text: str) -> str:
    """A text of the command line, for a message about it."""
    return printable(text[:_SHOWN_CHARACTERS])


@attrs.frozen
class Access:
    """The options that together decide who gets in."""

    host: str
    anyone: bool = False
    allow_changes: bool = False
    login: LoginKind = LoginKind.NONE
    has_tls: bool = False
    has_proxy: bool = False

    def check(self) -> None:
        """Raises typer.BadParameter for a combination that lets too many in."""
        has_login = self.login is not LoginKind.NONE
        if self.anyone and has_login:
            raise typer.BadParameter("--let-anyone-in-without-login: there is a login, by --login.")
        if self.anyone and self.allow_changes:
            raise typer.BadParameter(
                "--allow-changes: with --let-anyone-in-without-login, anyone could change anything."
            )
        if has_login and os.environ.get(TOKEN_VARIABLE):
            raise typer.BadParameter(
                f"--login {self.login}: viewers call with their own tokens; unset {TOKEN_VARIABLE}."
            )
        if is_loopback_host(self.host):
            return
        if self.has_proxy:
            raise typer.BadParameter(
                f"--listen {short(self.host)}: behind a proxy, the pages stay on 127.0.0.1. Other"
                " machines would get past the proxy: leave out --listen, or --behind-proxy."
            )
        if self.anyone:
            return
        if not has_login:
            raise typer.BadParameter(
                f"--listen {short(self.host)}: other machines may reach this, and the pages have no"
                " login. --login with --tls-cert and --tls-key allows it, or"
                " --let-anyone-in-without-login."
            )
        if not self.has_tls:
            raise typer.BadParameter(
                f"--listen {short(self.host)}: tokens would go through the network in plain text."
                " Give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy."
            )


def oidc_settings(login: LoginKind, issuer: str, client_id: str, scope: str) -> OidcSettings | None:
    """The settings of a login by OpenID Connect. Raises typer.BadParameter."""
    given = {"--oidc-issuer": issuer, "--oidc-client-id": client_id}
    if login is not LoginKind.OIDC:
        for name, value in given.items():
            if value:
                raise typer.BadParameter(f"{name}: only with --login oidc.")
        return None
    for name, value in given.items():
        if not value:
            raise typer.BadParameter(f"--login oidc: {name} is needed.")
    parts = urlsplit(issuer) if is_safe_address(issuer) else None
    if parts is None or parts.query or parts.fragment or not printable(issuer) == issuer:
        raise typer.BadParameter(
            f"--oidc-issuer {short(issuer)}: https://NAME, or http:// of this machine, is needed."
        )
    if "openid" not in scope.split():
        raise typer.BadParameter(f"--oidc-scope {short(scope)}: it must contain openid.")
    return OidcSettings(issuer, client_id, scope, os.environ.get(SECRET_VARIABLE, ""))


def origin_of(address: str) -> str:
    """The origin of a proxy's address, as browsers write it. Raises typer.BadParameter."""
    told = f"--behind-proxy {short(address)}: https://NAME or https://NAME:PORT is needed."
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise typer.BadParameter(told) from None
    rest = (parts.path.strip("/"), parts.query, parts.fragment, parts.username)
    host = parts.hostname or ""
    if parts.scheme != "https" or not host or any(rest) or not printable(host) == host:
        raise typer.BadParameter(told)
    shown = f"[{host}]" if ":" in host else host
    return f"https://{shown}" + ("" if port in (None, _HTTPS_PORT) else f":{port}")


def host_of(origin: str) -> str:
    """The host's name in an origin, as `Host` has it."""
    host = urlsplit(origin).hostname or ""
    return f"[{host}]" if ":" in host else host
