"""Sessions of browsers: the cookie, and the token that each form must bring back.

The cookie is a secret that no script can read. The form's token is made from it with a key of this
process, so another site can neither read nor guess it.
"""

import hashlib
import hmac
import re
import secrets
from typing import Final, Literal

import attrs
from starlette.requests import Request
from starlette.responses import Response

_SECRET_BYTES = 32
_COOKIE: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@attrs.frozen
class SessionCookie:
    """The cookie of these pages. Without `seconds`, it lasts until the browser ends.

    Browsers share cookies between all ports of a host, so its name has the port. With https, the
    prefix `__Host-` keeps other hosts of the same domain from setting it.
    """

    port: int
    is_secure: bool
    kind: str = ""
    same_site: Literal["strict", "lax"] = "strict"
    seconds: int | None = None
    _key: bytes = attrs.field(factory=lambda: secrets.token_bytes(_SECRET_BYTES), repr=False)

    @property
    def name(self) -> str:
        """The cookie's name."""
        return f"{'__Host-' if self.is_secure else ''}offsetd-web-{self.kind}{self.port}"

    def session_of(self, request: Request) -> str | None:
        """The session that a request names, if it has the form of one."""
        value = request.cookies.get(self.name, "")
        return value if _COOKIE.fullmatch(value) else None

    def set_on(self, answer: Response, session: str) -> None:
        """Gives the browser a session."""
        answer.set_cookie(
            self.name,
            session,
            max_age=self.seconds,
            path="/",
            secure=self.is_secure,
            httponly=True,
            samesite=self.same_site,
        )

    def remove_from(self, answer: Response) -> None:
        """Lets the browser forget its session."""
        answer.delete_cookie(
            self.name, path="/", secure=self.is_secure, httponly=True, samesite=self.same_site
        )

    def form_token(self, session: str) -> str:
        """The token of the forms of a session."""
        return hmac.new(self._key, session.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, session: str | None, token: str) -> bool:
        """Whether a form was made for this session."""
        if session is None:
            return False
        return hmac.compare_digest(self.form_token(session).encode(), token.encode())


def new_session() -> str:
    """A session that nobody can guess."""
    return secrets.token_urlsafe(_SECRET_BYTES)
