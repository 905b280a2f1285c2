"""What keeps other web pages out: the names in `Host`, and the headers of every answer."""

import re
from collections.abc import Iterable
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
# Scripts and styles come from files of this server only; no other page may frame it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\[\]:]+)(?::[0-9]{1,5})?")


def host_name(host: str) -> str:
    """The name in a `Host` header without its port; empty if it has no such form."""
    found = _HOST.fullmatch(host)
    return found["name"].lower().removesuffix(".") if found else ""


class Protection:
    """Refuses requests for other hosts, and methods that could change something.

    A page of another site can make a browser resolve the site's own name to 127.0.0.1 (DNS
    rebinding). Then `Host` has the name of that site.
    """

    def __init__(self, app: ASGIApp, *, host_names: Iterable[str]) -> None:
        self._app = app
        self._host_names = frozenset(name.lower() for name in host_names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request, with the headers on whatever answers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                # A browser keeps files and asks whether they changed; it keeps no page.
                is_file = scope["path"].startswith("/static/")
                headers["Cache-Control"] = "no-cache" if is_file else "no-store"
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_protected)

    def _refusal(self, scope: Any) -> PlainTextResponse | None:
        hosts = Headers(scope=scope).getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._host_names:
            return PlainTextResponse(
                "This address is not one of this page. `offsetd web --host-name` adds names.\n", 421
            )
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("These pages only show: GET and HEAD.\n", 405)
        return None
