"""The viewers that have logged in. Their tokens stay in memory; the browser never gets them."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import attrs

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.calling.security import AsyncToken
from offsetd_clients.errors import AuthenticationFailed, AuthorizationFailed
from offsetd_clients.web.served_parts import Pulse
from offsetd_clients.web.sessions import new_session
from offsetd_clients.web.token_names import token_name

IDLE_S: Final = 30 * 60.0
LIFE_S: Final = 12 * 3600.0
VIEWERS_MAX: Final = 1000
TOKEN_CHARACTERS_MAX: Final = 8000


def is_token(text: object) -> bool:
    """Whether something can be sent as a token."""
    if not isinstance(text, str):
        return False
    return text.isascii() and text.isprintable() and text.strip() == text != ""


class TokenRefused(Exception):
    """No login with this token."""


@attrs.define
class Viewer:
    """A viewer who has logged in. Their calls go with their own token."""

    client: AsyncOffsetClient
    pulse: Pulse
    named: str
    began_s: float
    used_s: float


class Logins:
    """The viewers by their sessions, which end when they are idle, and in any case some day."""

    def __init__(
        self,
        make_client: Callable[[AsyncToken], AsyncOffsetClient],
        *,
        monotonic_s: Callable[[], float],
        idle_s: float = IDLE_S,
        life_s: float = LIFE_S,
    ) -> None:
        self._make_client = make_client
        self._monotonic_s = monotonic_s
        self._idle_s, self._life_s = idle_s, life_s
        self._viewers: OrderedDict[str, Viewer] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def begin(self, token: str, renewing: AsyncToken | None = None) -> str:
        """Logs a viewer in: their session. Raises TokenRefused, and other OffsetdErrors.

        `renewing` is what calls take instead of `token`, if it changes in time.
        A server that takes any text for a token checks none: then a login would protect nothing.
        """
        if not is_token(token):
            raise TokenRefused("this is no token")
        if len(token) > TOKEN_CHARACTERS_MAX:
            raise TokenRefused(f"a token has at most {TOKEN_CHARACTERS_MAX} characters")
        if await self._is_known(secrets.token_urlsafe(32)):
            raise TokenRefused("the server does not check tokens: a login would protect nothing")
        if not await self._is_known(token):
            raise TokenRefused("the server does not know this token")
        self.end_what_is_over()
        while len(self._viewers) >= VIEWERS_MAX:
            self.end(next(iter(self._viewers)))
        client, now_s = self._make_client(renewing or token), self._monotonic_s()
        session = new_session()
        self._viewers[session] = Viewer(client, Pulse(client), token_name(token), now_s, now_s)
        return session

    def of(self, session: str | None, *, is_use: bool = True) -> Viewer | None:
        """The viewer of a session. A page that renews itself is no use of it."""
        self.end_what_is_over()
        viewer = self._viewers.get(session or "")
        if viewer is not None and is_use:
            viewer.used_s = self._monotonic_s()
            self._viewers.move_to_end(session or "")
        return viewer

    def end(self, session: str) -> None:
        """Ends a session. Its connection closes, and its token is forgotten."""
        viewer = self._viewers.pop(session, None)
        if viewer is not None:
            closing = asyncio.ensure_future(viewer.client.close(0))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def end_what_is_over(self) -> None:
        """Ends the sessions whose time is over."""
        now_s = self._monotonic_s()
        for session, viewer in list(self._viewers.items()):
            if now_s - viewer.used_s >= self._idle_s or now_s - viewer.began_s >= self._life_s:
                self.end(session)

    async def close(self) -> None:
        """Ends all sessions."""
        for session in list(self._viewers):
            self.end(session)
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _is_known(self, token: str) -> bool:
        """Whether the server knows who calls with this token, whatever they may do."""
        async with self._make_client(token) as client:
            try:
                await client.get_server_info()
            except AuthorizationFailed:
                return True
            except AuthenticationFailed:
                return False
        return True
