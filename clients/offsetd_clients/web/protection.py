"""Protection against other sites: the names in `Host`, and the headers of every answer."""

import re
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from offsetd_clients.web.forms import is_form
from offsetd_clients.web.options import WebOptions

# Scripts and styles come from files of this server only; no other page may frame it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Without a referrer, browsers would send a form with `Origin: null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^\[\]:]+)(?::[0-9]{1,5})?")


def host_name(host: str) -> str:
    """The name in a `Host` header without its port; empty if it has no such form."""
    found = _HOST.fullmatch(host)
    return found["name"].lower().removesuffix(".") if found else ""


class Protection:
    """Refuses requests for other hosts, and forms that pages of other sites send.

    A page of another site can make a browser resolve the site's own name to 127.0.0.1 (DNS
    rebinding). Then `Host` has the name of that site.
    """

    def __init__(self, app: ASGIApp, *, options: WebOptions) -> None:
        self._app = app
        self._options = options
        self._host_names = frozenset(name.lower() for name in options.host_names)

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
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or host_name(hosts[0]) not in self._host_names:
            return PlainTextResponse(
                "This address is not one of this page. `offsetd web --host-name` adds names.\n", 421
            )
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST" or not self._options.takes_post(scope["path"]):
            return PlainTextResponse("This page only shows: GET and HEAD.\n", 405)
        if headers.getlist("origin") != [self._options.origin(hosts[0])]:
            return PlainTextResponse("A page of another site sent this form.\n", 403)
        # Browsers that do not know this header send `Origin` all the same.
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return PlainTextResponse("A page of another site sent this form.\n", 403)
        if not is_form(headers):
            return PlainTextResponse("A form of these pages is needed.\n", 415)
        return None
