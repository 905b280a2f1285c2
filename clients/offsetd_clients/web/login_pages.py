"""The pages to log in and out, and what a request without a session gets."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlencode, urlsplit

import attrs
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from offsetd_clients.errors import OffsetdError
from offsetd_clients.web.forms import form_of
from offsetd_clients.web.logins import Logins, TokenRefused
from offsetd_clients.web.options import LOGIN_PATH, START_PATH
from offsetd_clients.web.sessions import SessionCookie, new_session

Render: TypeAlias = Callable[[Request, str, Mapping[str, Any], int], Response]
_START = "/"


def own_path(text: str) -> str:
    """A path of these pages to go on at; the first page if the text is not one."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable()
    return text if is_own else _START


@attrs.frozen(kw_only=True)
class LoginPages:
    """Renders the pages around a login.

    The form has a cookie of its own: a link of another site comes without the session's strict
    cookie, and must not put another one in its place.
    """

    logins: Logins
    cookie: SessionCookie
    form_cookie: SessionCookie
    render: Render
    issuer: str = ""

    async def show(self, request: Request) -> Response:
        """The form for a token, or the link to the provider."""
        return self.ask_again(request, request.query_params.get("next", _START), "", 200)

    async def begin(self, request: Request) -> Response:
        """Logs in with the token of the form, in a session that no one knew before."""
        try:
            form = await form_of(request)
        except ValueError as error:
            return self.ask_again(request, _START, str(error), 400)
        following = form.get("next", _START)
        shown_to = self.form_cookie.session_of(request)
        if not self.form_cookie.is_form_token(shown_to, form.get("csrf", "")):
            return self.ask_again(request, following, "the form was old: send it again", 403)
        try:
            session = await self.logins.begin(form.get("token", "").strip())
        except TokenRefused as error:
            return self.ask_again(request, following, str(error), 403)
        except OffsetdError as error:
            return self.ask_again(request, following, str(error), 503)
        before = self.cookie.session_of(request)
        if before is not None:
            self.logins.end(before)
        answer = RedirectResponse(own_path(following), 303)
        self.cookie.set_on(answer, session)
        return answer

    async def end(self, request: Request) -> Response:
        """Logs out."""
        session = self.cookie.session_of(request)
        try:
            token = (await form_of(request)).get("csrf", "")
        except ValueError:
            token = ""
        if session is None or not self.cookie.is_form_token(session, token):
            return PlainTextResponse("This form is not of your session.\n", 403)
        self.logins.end(session)
        answer = RedirectResponse(LOGIN_PATH, 303)
        self.cookie.remove_from(answer)
        return answer

    def ask(self, request: Request) -> Response:
        """What a request without a session gets. An open page loads itself again for it."""
        if "hx-request" in request.headers:
            return Response(status_code=401, headers={"HX-Refresh": "true"})
        if request.method == "POST":
            told = "Your session is over, and nothing was done. Log in, and load the form again.\n"
            return PlainTextResponse(told, 401)
        here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if request.headers.get("sec-fetch-site") == "cross-site":
            return self.lead_on(request, own_path(here), "A link of another site led here.")
        return RedirectResponse(f"{LOGIN_PATH}?{urlencode({'next': here})}", 303)

    def ask_again(self, request: Request, following: str, problem: str, status: int) -> Response:
        """The page to log in, with what went wrong."""
        shown_to = self.form_cookie.session_of(request) or new_session()
        shown = {
            "next": own_path(following),
            "problem": problem,
            "csrf": self.form_cookie.form_token(shown_to),
            "issuer": urlsplit(self.issuer).netloc,
            "start": f"{START_PATH}?{urlencode({'next': own_path(following)})}",
        }
        answer = self.render(request, "login.html", shown, status)
        if not self.issuer:  # The link to the provider needs no cookie.
            self.form_cookie.set_on(answer, shown_to)
        return answer

    def lead_on(self, request: Request, path: str, told: str) -> Response:
        """A page of our own that loads another one. So the session's strict cookie comes along."""
        return self.render(request, "onward.html", {"next": path, "told": told}, 200)
