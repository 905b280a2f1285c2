"""How the pages are served: their names, their scheme, and what they allow."""

import attrs

CHANGE_PATH = "/change/"
LOGIN_PATH = "/login"
LOGOUT_PATH = "/logout"
START_PATH = "/login/start"
CALLBACK_PATH = "/login/callback"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


@attrs.frozen(kw_only=True)
class WebOptions:
    """`public_origin` is that of a proxy before the pages (`https://offsets.example`), or empty."""

    host_names: tuple[str, ...]
    port: int
    allows_changes: bool = False
    has_login: bool = False
    # Where viewers log in; empty: they give a token.
    login_issuer: str = ""
    has_tls: bool = False
    public_origin: str = ""

    @property
    def is_https(self) -> bool:
        """Whether browsers reach the pages by https only."""
        return self.has_tls or bool(self.public_origin)

    def origin(self, host: str) -> str:
        """What a browser that shows one of these pages sends as `Origin`."""
        return self.public_origin or f"{'https' if self.has_tls else 'http'}://{host}"

    def takes_post(self, path: str) -> bool:
        """Whether a form may be sent to a path."""
        if path == LOGIN_PATH:
            return self.has_login and not self.login_issuer
        if path == LOGOUT_PATH:
            return self.has_login
        return self.allows_changes and path.startswith(CHANGE_PATH)
